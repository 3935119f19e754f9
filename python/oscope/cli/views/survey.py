"""The survey on one screen: the machine, its latency ladder, what is notable, how sure it is, what is next.

`LINES` by `COLUMNS` hold it, the shell's next prompt included. The rest is in the report, and in
`oscope show RUN EXPERIMENT`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from oscope.analysis.calibration.certificate import from_object
from oscope.cli.views.ladder import ASCII, draw, throughputs
from oscope.figures import mde
from oscope.figures.analysed import Analysed
from oscope.figures.answer_text import emulation
from oscope.figures.ladder import Ladder, ladder
from oscope.figures.notable import notable
from oscope.labs import LABS
from oscope.model.formatting import format_count
from oscope.model.samples import Results
from oscope.model.units import format_duration
from oscope.planning import interference
from oscope.report.build import labs_run
from oscope.report.machine import DO_NOT_TRUST, distrust, unmeasured
from oscope.report.terminal import LEAST_WIDTH, prose
from oscope.statistics import injected

LINES = 23
"""With the prompt that follows, a terminal of 24 lines holds it."""
COLUMNS = 80
MOST_FINDINGS = 5
FEWEST_LABS = 3
"""A run of as many labs' experiments is a survey: its tables would fill dozens of screens."""
SHOWN = (
    "null-call",
    "load-dram",
    "fork-empty",
    "fault-anonymous",
    "pipe-round-trip",
    "thread",
    "fork-resident",
    "load-l1",
    "local-round-trip",
    "fault-major",
)
"""The rungs shown, the most important first: the last ones go where findings need the room."""
FEWEST_RUNGS = 7
SOUGHT_FINDINGS = 3
"""Findings for which rungs make room."""
MOST_LACKING = 3
"""Experiments that lack points and are named; the whole run is, where there are more."""
_LABEL = 14
"""Columns of the headings on the left of the lines below the ladder."""


def is_survey(results: Results) -> bool:
    """Say whether a run is shown on one screen, and not by its tables."""
    return len(labs_run(results, LABS)) >= FEWEST_LABS


def print_survey(results: Results, out: Console, report: str | None = None) -> None:
    """Print a survey on one screen; `report` is the file that has all of it."""
    for line in screen(Analysed.of(results), out, report):
        out.print(line, soft_wrap=True)


def screen(results: Analysed, out: Console, report: str | None) -> list[Text]:
    """Return the lines of the screen."""
    width = max(min(out.width, COLUMNS), LEAST_WIDTH)
    found = ladder(results)
    heading, rates = _heading(results, width), _rates(found, width)
    after = [*_trust(results, width, report), *_next(results, found, report)]
    findings = [
        prose(each.sentence, width - 2).plain.splitlines() for each in notable(results, MOST_FINDINGS)
    ]
    room = LINES - len(heading) - len(rates) - len(after)
    sought = sum(map(len, findings[:SOUGHT_FINDINGS])) + 1
    # Beside the rungs stand the axis and an empty line.
    count = min(max(room - sought - 2, FEWEST_RUNGS), len(SHOWN))
    drawn = _drawn(found, SHOWN[:count], width, out)
    return [*heading, *drawn, *rates, *_findings(findings, room - len(drawn)), *after]


def machine(environment: Mapping[str, Any]) -> str:
    """Name the machine in a few words; records of other origin may lack a part."""
    kernel, cpu, guest = (environment.get(name) or {} for name in ("kernel", "cpu", "guest"))
    parts = [
        str(cpu.get("model") or ""),
        _counted(int(cpu["logical"]), "CPU") if cpu.get("logical") else "",
        f"{str(environment['hypervisor']).replace('kvm', 'KVM')} guest"
        if environment.get("hypervisor")
        else "",
        f"Oscope guest ({guest.get('accelerator')})" if guest else "",
        f"Linux {kernel['release']}" if kernel.get("release") else "",
    ]
    return ", ".join(part for part in parts if part)


def _heading(results: Analysed, width: int) -> list[Text]:
    """Return the machine's line, and a warning where the probe's own check failed."""
    environment = results.parts[0].environment if results.parts else {}
    name, elapsed = "Oscope survey", _elapsed(results)
    where = Text(machine(environment))
    where.truncate(max(width - len(name) - len(elapsed) - 4, 1), overflow="ellipsis")
    lines = [Text.assemble((name, "bold"), "  ", where, f"  {elapsed}" if elapsed else "")]
    if distrust(results.experiments) is not None:
        lines.append(Text(DO_NOT_TRUST, style="bold red"))
    return lines


def _elapsed(results: Results) -> str:
    """Return how long it took from the first sample to the last."""
    starts = [
        (p.started_ns.min(), p.started_ns.max()) for e in results.experiments for p in e.points if len(p)
    ]
    if not starts:
        return ""
    seconds = round((max(last for _, last in starts) - min(first for first, _ in starts)) / 1e9)
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else format_duration(float(seconds))


def _drawn(found: Ladder, keys: Collection[str], width: int, out: Console) -> list[Text]:
    """Return the rungs of the ladder that have these keys, and an empty line."""
    rungs = [rung for rung in found.latencies if rung.key in keys]
    is_unicode = out.encoding.lower().startswith("utf")
    lines = [Text(line) for line in draw(rungs, width, None if is_unicode else ASCII)]
    if lines:
        lines[0].stylize("dim")
        lines.append(Text())
    return lines


def _rates(found: Ladder, width: int) -> list[Text]:
    """Return the throughputs."""
    rates = throughputs(found.throughputs)
    return _labelled("Throughput", "   ".join(rates), width, below="MiB/s") if rates else []


def _findings(findings: Sequence[Sequence[str]], room: int) -> list[Text]:
    """Return what is notable, the most surprising first, as many whole sentences as there is room for."""
    lines: list[Text] = []
    for sentence in findings:
        if len(lines) + len(sentence) < room:
            lines += [Text(f"{'  ' if index else '- '}{line}") for index, line in enumerate(sentence)]
    return [Text("Notable", style="bold"), *lines] if lines else [Text()]


def _trust(results: Analysed, width: int, report: str | None) -> list[Text]:
    """Return how sure the figures are, and how much could not be measured."""
    lines = _labelled("How sure", _certainty(results), width)
    # Where only some are, the report says so, and the figures above are not theirs.
    if all(each.emulated for each in results.experiments) and (text := emulation(results.experiments)):
        lines += _labelled("Emulated", text, width)
    if (text := injected.banner(results.experiments)) is not None:
        lines += _labelled("Injected", text, width)
    if (warning := interference.warning(results.experiments)) is not None:
        lines += _labelled("Interference", warning, width)
    points = [point for each in results.experiments for point in each.points]
    empty = unmeasured(results)
    failed, samples = sum(len(point.failed) for point in points), sum(map(len, points))
    missed = [empty.counts] if empty else []
    missed += [f"{format_count(failed)} of {format_count(samples)} samples failed"] if failed else []
    if missed:
        # One line leaves room for what is notable.
        where = "the report" if report else _show(results, _lacking(results))
        text = f"{', '.join(missed)}: {where} says why and how to fix it"
        lines += _labelled("Not measured", text, width)
    return lines


def _lacking(results: Results) -> list[str]:
    """Return the experiments and inspections that lack points or samples; none where they are many."""
    names = [
        each.experiment
        for each in results.experiments
        if any(point.failed or not len(point) for point in each.points)
    ]
    names += [each.inspection for each in results.inspections if each.result is None]
    return names if len(names) <= MOST_LACKING else []


def _show(results: Results, names: Sequence[str]) -> str:
    """Return the command that shows these parts of the run; the whole run for no name."""
    run = results.parts[0].run_id if results.parts else "last"
    return " ".join(["oscope show", run, *names])


def _certainty(results: Analysed) -> str:
    """Say what a comparison on this machine finds, by its certificate, or how to get one."""
    known = next(
        (e.settings["calibrated"] for e in results.experiments if e.settings.get("calibrated")), None
    )
    if known is None:
        return "not known here: oscope calibrate --quick finds out in two minutes"
    entries, alarms = from_object(known.get("certificate", ())), known["false_alarms"]
    parts = [f"10 s find a change of {mde.interleaved(entries)}"] if entries else []
    parts.append(f"false positives {alarms['count']} of {alarms['of']}")
    return "; ".join(parts)


def _next(results: Results, found: Ladder, report: str | None) -> list[Text]:
    """Return where the report is, and the next command."""
    rung = found.rung("fork-resident") or next(iter((*found.latencies, *found.throughputs)), None)
    command = _show(results, [rung.experiment] if rung else [])
    lines = [_line("Report", report)] if report else []
    return [*lines, _line("Details", command)]


def _line(label: str, text: str) -> Text:
    return Text.assemble((label.ljust(_LABEL), "bold"), text)


def _labelled(label: str, text: str, width: int, below: str = "") -> list[Text]:
    """Return a paragraph beside a label, with a second label under it."""
    broken = _broken(text, width - _LABEL)
    labels = [label, below, *[""] * len(broken)]
    return [_line(name, line) for name, line in zip(labels, broken, strict=False)]


def _broken(text: str, width: int) -> list[str]:
    """Break a list of items, which three spaces part, between items; another text between words."""
    items = text.split("   ")
    if len(items) == 1:
        return prose(text, width).plain.splitlines()
    lines = [""]
    for item in items:
        longer = f"{lines[-1]}   {item}" if lines[-1] else item
        lines = [*lines[:-1], longer] if len(longer) <= width else [*lines, item]
    return lines


def _counted(number: int, noun: str) -> str:
    return f"{format_count(number)} {noun}" + ("" if number == 1 else "s")
