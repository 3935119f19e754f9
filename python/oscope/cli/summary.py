"""The summary of results on a terminal: what was found, tables of experiments, notes, skipped points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from oscope.analysis.waiting import waiting_note
from oscope.cli.views.answers_found import sentences
from oscope.cli.views.columns import injected_columns, measurement_columns, median_column
from oscope.figures import traces
from oscope.figures.analysed import WORDS, Analysed, label, levels, plain_levels, shown_metrics, words
from oscope.figures.answer_text import cause, counted, emulation, kind
from oscope.figures.tables import fixed_levels
from oscope.labs import LABS
from oscope.model import formatting
from oscope.model.clocks import UNSEEN_BRIEFLY, clock_of
from oscope.model.document import Table
from oscope.model.samples import Column, ExperimentResults, Inspected, PointSamples, Results
from oscope.planning import interference
from oscope.programs.findings import SUBJECTS, revision_notes
from oscope.report.build import answers
from oscope.report.machine import distrust
from oscope.report.terminal import (
    aligned,
    print_columns,
    print_prose,
    print_remedy,
    print_table,
    prose,
    table_room,
    table_width,
    without,
)
from oscope.statistics import carryover, injected
from oscope.statistics.exit_codes import failed_runs
from oscope.statistics.machines import build_digest, build_name

if TYPE_CHECKING:
    from oscope.statistics import Summary

ENDED = {
    "interrupted": "was interrupted",
    "failed": "failed",
    "unfinished": "has not ended, or was killed",
}
"""What became of a run, by its status."""
MOST_NOTES = 12
"""Lines of notes on one experiment; the record has them all."""
LEGEND = (
    "n: samples; ess: effective sample size, as many independent samples would say as much; interval: 95 % "
    "confidence interval of the median."
)


def print_results(results: Results, out: Console, *, verbose: bool = False, found: bool = True) -> None:
    """Print what was found, the machine, then tables, notes and skipped points of each experiment.

    `verbose` adds the technical notes: on intervals, autocorrelation, warm-up, interference. Without `found`
    the sentences on top are left out.
    """
    analysed = Analysed.of(results)
    if found:
        for sentence in sentences(analysed):
            print_prose(sentence, out, style="bold")
    for line in _warnings(analysed):
        print_prose(line, out, style="bold red")
    seen: list[str] = []
    for part in analysed.parts:
        line = machine(part.environment) if part.environment else ""
        if line and line not in seen:
            seen.append(line)
            print_prose(line, out, style="dim")
            if clock_of(part.environment) == "instructions":
                print_prose(f"The clock {UNSEEN_BRIEFLY}.", out, style="dim")
        out.print()
        if isinstance(part, Inspected):
            print_inspected(part, out)
        else:
            print_experiment(analysed, part, out, verbose=verbose)
    _print_footer(analysed, out, verbose=verbose)


def _warnings(results: Analysed) -> Iterator[str]:
    """Yield what has to be known before any figure: the probe's own check failed, or the run is not whole."""
    found = (distrust, injected.banner, emulation)
    yield from filter(None, (each(results.experiments) for each in found))
    # A run without any sample says why where its figures would be.
    measured = [e for e in results.experiments if any(len(p) > len(p.failed) for p in e.points)]
    for status in dict.fromkeys(each.status for each in measured if each.status != "done"):
        yield f"The run {ENDED.get(status, f'is {status}')}: samples are missing."


def print_experiment(
    results: Analysed, experiment: ExperimentResults, out: Console, *, verbose: bool = False
) -> None:
    """Print one experiment: its question, a row for each point, notes, and what was skipped."""
    _print_heading(experiment.experiment, experiment.question or experiment.title, out)
    if fixed := fixed_levels(experiment):
        out.print(Text(", ".join(each.replace(" = ", "=", 1) for each in fixed), style="dim"))
    if by := _measured_by(experiment):
        print_prose(by, out, style="dim")
    if _is_measured(results, experiment):
        columns, hidden = summary_columns(results, experiment, table_room(out))
        print_columns(columns, out, names=len(_factors(experiment, plain=False)))
        if hidden:
            print_prose(without(hidden), out, style="dim")
    for traced in traces.tables(experiment):
        print_table(traced, out)
    for line in (*_few(notes(results, experiment, verbose=verbose)), *unmeasured(experiment)):
        print_prose(line, out)
    for line, remedy in skipped(experiment):
        print_prose(line, out)
        if remedy:
            print_remedy(remedy, out)


def _measured_by(experiment: ExperimentResults) -> str:
    """Return which program or build of the probe measured, and beside which runs; empty for the usual."""
    if (name := build_name(experiment)) is None:
        return ""
    text = f"measured by {name} (SHA-256 {build_digest(experiment)}…)"
    others = [each for each in experiment.settings.get("interleaved") or () if each != experiment.run_id]
    return f"{text}, interleaved with run {', '.join(others)}" if others else text


def print_inspected(inspected: Inspected, out: Console) -> None:
    """Print one inspection: its question and its lab's tables, or why it was skipped."""
    _print_heading(inspected.inspection, inspected.question or inspected.title, out)
    if inspected.result is None:
        print_prose(f"skipped: {inspected.skipped}", out)
        if inspected.remedy:
            print_remedy(inspected.remedy, out)
    for table in inspected_tables(inspected):
        print_table(table, out)


def inspected_tables(inspected: Inspected) -> list[Table]:
    """Return the tables in which an inspection's lab shows its result."""
    parts = answers(Results((), (inspected,)), LABS)
    return [table for part in parts for section in part.sections for table in section.tables]


def tables(results: Results, *, verbose: bool = False, plain: bool = False) -> list[Table]:
    """Return all tables of a summary as values, with all columns, for other programs and documents.

    `plain`: for a program, whose columns do not follow the figures. Each metric is in its own unit, and what
    a bench measures has a column also where it is one command or function.
    """
    analysed = Analysed.of(results)
    made: list[Table] = []
    for part in analysed.parts:
        if isinstance(part, Inspected):
            made += inspected_tables(part)
            continue
        if _is_measured(analysed, part):
            columns, _ = summary_columns(analysed, part, None, plain=plain)
            names = _factors(part, plain=plain)
            texts = [*notes(analysed, part, verbose=verbose), *(line for line, _ in skipped(part))]
            points = [p.factors for p in part.points if analysed.summary(part, p, part.headline) is not None]
            made.append(
                Table(
                    part.experiment,
                    [heading.strip() for heading, *_ in columns],
                    [[cell.strip() for cell in row] for row in zip(*(c[1:] for c in columns), strict=True)],
                    frozenset(range(len(names), len(columns))),
                    note="\n".join([", ".join(fixed_levels(part)), *texts]).strip(),
                    plain=plain_levels(part, points, names),
                )
            )
        made += traces.tables(part, plain=plain)
    return made


def _is_measured(results: Analysed, experiment: ExperimentResults) -> bool:
    return any(results.summary(experiment, point, experiment.headline) for point in experiment.points)


def _few(texts: Iterator[str]) -> list[str]:
    lines = list(texts)
    if len(lines) > MOST_NOTES:
        lines[MOST_NOTES - 1 :] = [f"note: {len(lines) - MOST_NOTES + 1} more; the record has them all"]
    return lines


def _print_footer(results: Analysed, out: Console, *, verbose: bool) -> None:
    """Print in one paragraph what the columns mean, and what was left to the report."""
    if not any(_is_measured(results, experiment) for experiment in results.experiments):
        return
    again = sum(len(point.again) for e in results.experiments for point in e.points)
    hidden = len({text for e in results.experiments for text, _ in _technical(results, e)})
    parts = [
        LEGEND,
        f"Samples repeated after interference: {formatting.format_count(again)}." if again else "",
        f"--verbose adds {counted(hidden, 'technical note')}." if hidden and not verbose else "",
    ]
    out.print()
    print_prose(" ".join(part for part in parts if part), out, style="dim")


def _print_heading(name: str, text: str, out: Console) -> None:
    heading = prose(f"{name}: {text}", out.width)
    heading.stylize("bold", 0, len(name))
    out.print(heading, soft_wrap=True)


def machine(environment: Mapping[str, Any]) -> str:
    """Return in one line where the samples were taken; records of other origin may lack a part."""
    if imported := environment.get("imported"):
        about = f" ({imported['about']})" if imported.get("about") else ""
        return f"Imported from {imported['tool']}{about}, which lacks {', '.join(imported['lacks'])}"
    kernel, cpu, clock = (environment.get(name) or {} for name in ("kernel", "cpu", "clock"))
    allowed = cpu.get("allowed") or ()
    count = allowed if isinstance(allowed, int) else len(allowed)
    frequency = f" at {clock['hz'] / 1e9:.3f} GHz" if clock.get("kind") in ("tsc", "cntvct") else ""
    parts = [
        f"Linux {kernel['release']} {kernel['arch']}" if kernel else "",
        f"{cpu.get('model') or 'unknown CPU'}, {count} of {cpu.get('logical')} CPUs" if cpu else "",
        f"under {environment['hypervisor']}" if environment.get("hypervisor") else "",
        _guest(environment.get("guest")),
        f"clock {_clock(clock)}{frequency}" if clock else "",
    ]
    return "; ".join(part for part in parts if part) or "Nothing is recorded of the machine"


def summary_columns(
    results: Analysed, experiment: ExperimentResults, width: int | None, *, plain: bool = False
) -> tuple[list[list[str]], list[str]]:
    """Return the columns for an experiment's measured points, and the headings that found no room in `width`.

    The factors and the headline with its interval are there even where they are wider; None: all are there.
    """
    headline = experiment.headline
    found = ((point, results.summary(experiment, point, headline)) for point in experiment.points)
    measured = [(point, summary) for point, summary in found if summary is not None]
    points = [point for point, _ in measured]
    summaries = [summary for _, summary in measured]
    columns = [
        [name, *(levels(experiment, point.factors).get(name, formatting.MISSING) for point in points)]
        for name in _factors(experiment, plain=plain)
    ]
    unit = experiment.metrics[headline].shown_unit
    columns += measurement_columns(headline, summaries, unit, plain=plain)
    hidden = []
    others = _metric_columns(results, experiment, points, plain=plain)
    marks = injected_columns(experiment, len(points)) if plain else ()
    for further in (*_sample_columns(summaries), *others, *marks):
        if width is not None and table_width([*columns, further]) > width:
            hidden.append(further[0].strip())
        else:
            columns.append(further)
    return columns, hidden


def _factors(experiment: ExperimentResults, *, plain: bool) -> list[str]:
    """Return the factors that have a column: those that vary, and for a program what a bench measures."""
    varied = experiment.varied()
    return [name for name in experiment.names if name in varied or (plain and name in SUBJECTS)]


def _sample_columns(summaries: Sequence[Summary]) -> Iterator[list[str]]:
    """Yield the columns on the samples: their number, effective number, and distribution if it matters."""
    yield aligned(["n", *(formatting.format_count(summary.n) for summary in summaries)])
    yield aligned(["ess", *(formatting.format_count(summary.ess) for summary in summaries)])
    shapes = [shape(summary) for summary in summaries]
    if any(shapes):
        yield ["distribution", *shapes]


def _metric_columns(
    results: Analysed, experiment: ExperimentResults, points: Sequence[PointSamples], *, plain: bool
) -> Iterator[list[str]]:
    """Yield a column for each metric beside the headline that has a value."""
    for name, column in list(experiment.metrics.items())[1:]:
        figures = [results.summary(experiment, point, name) for point in points]
        if not any(figures):
            continue
        if name in WORDS:
            yield [name, *(words_text(point, name) for point in points)]
        else:
            yield median_column(name, figures, column.shown_unit, plain=plain)


def words_text(point: PointSamples, metric: str) -> str:
    """Return the word that all samples have, as 8 hexadecimal digits, or how many words there are."""
    found = words([point], metric)
    return formatting.MISSING if not found else found[0] if len(found) == 1 else f"{len(found)} differ"


def shape(summary: Summary) -> str:
    """Return in a word or two what the median does not show: modes, drift; empty where there is nothing."""
    found = []
    if len(summary.modes) > 1:
        found.append(f"{len(summary.modes)} modes")
    if summary.drift.found:
        found.append("drift")
    return ", ".join(found)


def notes(results: Analysed, experiment: ExperimentResults, *, verbose: bool = False) -> Iterator[str]:
    """Yield a line for each distinct note, with the points that it is about; technical ones if `verbose`."""
    for text in (*revision_notes(experiment), *filter(None, [waiting_note(experiment)])):
        yield f"note: {text}"
    about: dict[str, list[PointSamples]] = defaultdict(list)
    for point in experiment.points:
        if point.skipped is not None and not len(point) and not verbose:
            # Why it has no sample stands where it is skipped.
            continue
        failed = filter(None, [failed_runs(point, "the program")])
        for text in (*dict.fromkeys(cause(each) for each in point.notes), *_failures(point), *failed):
            about[text].append(point)
    kinds: dict[str, list[str]] = defaultdict(list)
    for text in about:
        kinds[kind(text)].append(text)
    for first, *others in kinds.values():
        owners = [point for text in (first, *others) for point in about[text]]
        more = f" (and {counted(len(others), 'note')} of other figures)" if others else ""
        yield f"note: {_which(experiment, owners)}{first}{more}"
    if (moved := carryover.remark(experiment)) is not None:
        yield f"note: {moved}"
    if verbose:
        for text, owners in _technical(results, experiment):
            yield f"note: {_which(experiment, owners)}{text}"


def _technical(results: Analysed, experiment: ExperimentResults) -> Iterator[tuple[str, list[PointSamples]]]:
    """Yield what statistics note on the samples, and on interference, each once with its points."""
    about: dict[str, list[PointSamples]] = defaultdict(list)
    for point in experiment.points:
        summary = results.summary(experiment, point, experiment.headline)
        for text in summary.notes if summary else ():
            about[text].append(point)
    yield from about.items()
    if (affected := interference.remark(experiment)) is not None:
        yield affected, list(experiment.points)


def unmeasured(experiment: ExperimentResults) -> Iterator[str]:
    """Yield a line for each reason why metrics have no value in any sample, although there are samples."""
    shown = shown_metrics(experiment)
    if not experiment.has_samples:
        return
    clock = experiment.environment.get("clock") or {}
    missing: dict[str, list[str]] = defaultdict(list)
    for name, column in experiment.metrics.items():
        if name not in shown:
            why = f"the clock is {_clock(clock)}, because {clock['why']}" if clock.get("why") else ""
            missing[(column.unit == "cycles" and why) or _null(column)].append(name)
    for reason, names in missing.items():
        yield f"not measured: {', '.join(names)}: {reason}"


def _null(column: Column) -> str:
    """Say when a metric has no value."""
    return f"no value {column.null_when}" if column.null_when else "no sample has a value"


def _guest(guest: Mapping[str, Any] | None) -> str:
    if not guest:
        return ""
    kernel = guest.get("kernel") or {}
    return f"guest with kernel {kernel.get('name') or 'unknown'}, {guest.get('accelerator')}"


def _clock(clock: Mapping[str, Any]) -> str:
    return str(clock.get("kind")).upper()


def skipped(experiment: ExperimentResults) -> Iterator[tuple[str, str | None]]:
    """Yield a line for each distinct reason why points were not measured, and the remedy."""
    about: dict[tuple[str, str | None], list[PointSamples]] = defaultdict(list)
    for point in experiment.points:
        if point.skipped is not None:
            about[(point.skipped, point.remedy)].append(point)
    for (reason, remedy), owners in about.items():
        begun = sum(map(len, owners))
        what = f"stopped after {counted(begun, 'sample')}" if begun else "skipped"
        yield f"{what}: {_which(experiment, owners)}{reason}", remedy


def _failures(point: PointSamples) -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    for _, reason in point.failed:
        counts[reason] += 1
    for reason, count in counts.items():
        yield f"{count} of {len(point)} samples failed: {reason}"


def _which(experiment: ExperimentResults, owners: Sequence[PointSamples]) -> str:
    """Name the points that a line is about: nothing for all of them, the first for many."""
    varied = experiment.varied()
    if len(owners) == len(experiment.points) or not varied:
        return ""
    named = ", ".join(label(experiment, point.factors, varied) for point in owners[:3])
    more = f" and {counted(len(owners) - 3, 'more point')}" if len(owners) > 3 else ""
    return f"{named}{more}: "
