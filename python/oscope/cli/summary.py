"""The summary of results on a terminal: a table for each experiment, with notes and what was skipped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segments
from rich.text import Text

from oscope.figures import traces
from oscope.figures.analysed import WORDS, Analysed, label, levels, shown_metrics, words
from oscope.figures.tables import fixed_levels, row_scale, shared_scale
from oscope.figures.words import cause, counted
from oscope.labs import LABS
from oscope.model import formatting
from oscope.model.clocks import PER, UNSEEN_BRIEFLY, clock_of
from oscope.model.samples import ExperimentResults, Inspected, PointSamples, Results
from oscope.planning import interference
from oscope.report.build import answers
from oscope.report.terminal import aligned, grid, print_prose, print_remedy, print_table, prose, table_width
from oscope.statistics import carryover

if TYPE_CHECKING:
    from oscope.model.experiment import Lab
    from oscope.statistics import Summary

MOST_NOTES = 12
"""Lines of notes on one experiment; the record has them all."""


def print_results(results: Results, out: Console) -> None:
    """Print the machine, then the tables of each experiment and inspection, notes and what was skipped."""
    analysed = Analysed.of(results)
    told: list[str] = []
    for part in analysed.parts:
        line = machine(part.environment) if part.environment else ""
        if line and line not in told:
            told.append(line)
            print_prose(line, out, style="dim")
            if clock_of(part.environment) == "instructions":
                print_prose(f"The clock {UNSEEN_BRIEFLY}.", out, style="dim")
        out.print()
        if isinstance(part, Inspected):
            print_inspected(part, out)
        else:
            print_experiment(analysed, part, out)


def print_experiment(results: Analysed, experiment: ExperimentResults, out: Console) -> None:
    """Print one experiment: its question, a row for each point, notes, and what was skipped."""
    _print_heading(experiment.experiment, experiment.question or experiment.title, out)
    if fixed := fixed_levels(experiment):
        out.print(Text(", ".join(each.replace(" = ", "=", 1) for each in fixed), style="dim"))
    if any(results.summary(experiment, point, experiment.headline) for point in experiment.points):
        columns, hidden = summary_columns(results, experiment, out.width)
        # What is wider than the terminal is wrapped by it: a figure that is cut off tells nothing.
        whole = out.options.update(width=max(out.width, table_width(columns)))
        out.print(Segments(out.render(grid(columns), whole)), soft_wrap=True, end="")
        if hidden:
            print_prose(f"wider terminals also show: {', '.join(hidden)}", out, style="dim")
    for traced in traces.tables(experiment):
        print_table(traced, out)
    told = [*notes(results, experiment)]
    if len(told) > MOST_NOTES:
        told[MOST_NOTES - 1 :] = [f"note: {len(told) - MOST_NOTES + 1} more; the record has them all"]
    for line in told:
        print_prose(line, out)
    for line in unmeasured(experiment):
        print_prose(line, out)
    for line, remedy in skipped(experiment):
        print_prose(line, out)
        if remedy:
            print_remedy(remedy, out)


def print_inspected(inspected: Inspected, out: Console) -> None:
    """Print one inspection: its question and its lab's tables, or why it was skipped."""
    _print_heading(inspected.inspection, inspected.question or inspected.title, out)
    if inspected.result is None:
        print_prose(f"skipped: {inspected.skipped}", out)
        if inspected.remedy:
            print_remedy(inspected.remedy, out)
    for part in answers(Results((), (inspected,)), LABS):
        for section in part.sections:
            for table in section.tables:
                print_table(table, out)


def _print_heading(name: str, text: str, out: Console) -> None:
    heading = prose(f"{name}: {text}", out.width)
    heading.stylize("bold", 0, len(name))
    out.print(heading, soft_wrap=True)


def print_answers(results: Results, labs: Sequence[Lab], out: Console) -> None:
    """Print what was found, in the words of the labs' answers, with what they miss."""
    for part in answers(results, labs):
        out.print()
        out.print(Text(f"What was found: {part.title}", style="bold"))
        for section in part.sections:
            if section.answer or section.missing:
                out.print()
                out.print(Text(section.title, style="underline"))
            if section.answer:
                print_prose(section.answer, out, indent="  ")
            if section.missing:
                print_prose(f"not measured: {section.missing}", out, indent="  ", style="dim")


def machine(environment: Mapping[str, Any]) -> str:
    """Tell in one line where the samples were taken; records of other origin may lack a part."""
    if imported := environment.get("imported"):
        about = f" ({imported['about']})" if imported.get("about") else ""
        return f"Imported from {imported['tool']}{about}, which lacks {', '.join(imported['lacks'])}"
    kernel, cpu, clock = (environment.get(name) or {} for name in ("kernel", "cpu", "clock"))
    frequency = f" at {clock['hz'] / 1e9:.3f} GHz" if clock.get("kind") == "tsc" else ""
    parts = [
        f"Linux {kernel['release']} {kernel['arch']}" if kernel else "",
        f"{cpu.get('model') or 'unknown CPU'}, {len(cpu.get('allowed') or ())} of {cpu.get('logical')} CPUs",
        f"under {environment['hypervisor']}" if environment.get("hypervisor") else "",
        _guest(environment.get("guest")),
        f"clock {_clock(clock)}{frequency}",
    ]
    return "; ".join(part for part in parts if part)


def summary_columns(
    results: Analysed, experiment: ExperimentResults, width: int
) -> tuple[list[list[str]], list[str]]:
    """Return the columns for an experiment's measured points, and the headings that found no room in `width`.

    The factors and the headline with its interval are there even where they are wider.
    """
    headline = experiment.headline
    found = ((point, results.summary(experiment, point, headline)) for point in experiment.points)
    measured = [(point, summary) for point, summary in found if summary is not None]
    points = [point for point, _ in measured]
    summaries = [summary for _, summary in measured]
    columns = [
        [name, *(levels(experiment, point.factors).get(name, formatting.MISSING) for point in points)]
        for name in experiment.varied()
    ]
    columns += measurement_columns(headline, summaries, experiment.metrics[headline].shown_unit)
    hidden = []
    for further in (*_sample_columns(summaries), *_metric_columns(results, experiment, points)):
        if table_width([*columns, further]) > width:
            hidden.append(further[0].strip())
        else:
            columns.append(further)
    return columns, hidden


def _sample_columns(summaries: Sequence[Summary]) -> Iterator[list[str]]:
    """Yield the columns on the samples: how many, what they are worth, and their shape where it says more."""
    yield aligned(["n", *(formatting.format_count(summary.n) for summary in summaries)])
    yield aligned(["worth", *(formatting.format_count(summary.worth) for summary in summaries)])
    shapes = [shape(summary) for summary in summaries]
    if any(shapes):
        yield ["shape", *shapes]


def _metric_columns(
    results: Analysed, experiment: ExperimentResults, points: Sequence[PointSamples]
) -> Iterator[list[str]]:
    """Yield a column for each metric beside the headline that has a value."""
    for name, column in list(experiment.metrics.items())[1:]:
        figures = [results.summary(experiment, point, name) for point in points]
        if not any(figures):
            continue
        if name in WORDS:
            yield [name, *(words_text(point, name) for point in points)]
        else:
            yield median_column(name, figures, column.shown_unit)


def measurement_columns(name: str, summaries: Sequence[Summary], unit: str) -> list[list[str]]:
    """Return the columns of the median and of its 95 % interval; a row has the same decimals in both."""
    scale = shared_scale(summaries, unit)
    rows = [row_scale(scale, s) for s in summaries]
    medians = [row.text(s.median) for row, s in zip(rows, summaries, strict=True)]
    intervals = [row.span(s.ci95) for row, s in zip(rows, summaries, strict=True)]
    return [aligned([_heading(name, scale.unit), *medians]), ["95 % interval", *intervals]]


def median_column(name: str, summaries: Sequence[Summary | None], unit: str) -> list[str]:
    """Return the column of a further metric's medians, with the digits that their intervals allow."""
    present = [s for s in summaries if s]
    scale = shared_scale(present, unit)
    texts = [row_scale(scale, s).text(s.median) if s else formatting.MISSING for s in summaries]
    return aligned([_heading(name, scale.unit), *texts])


def words_text(point: PointSamples, metric: str) -> str:
    """Return the word that all samples have, as 8 hexadecimal digits, or how many words there are."""
    found = words([point], metric)
    return formatting.MISSING if not found else found[0] if len(found) == 1 else f"{len(found)} differ"


def shape(summary: Summary) -> str:
    """Tell in a word or two why the median alone does not tell all; empty where it does."""
    told = []
    if len(summary.modes) > 1:
        told.append(f"{len(summary.modes)} modes")
    if summary.drift.found:
        told.append("drift")
    return ", ".join(told)


def notes(results: Analysed, experiment: ExperimentResults) -> Iterator[str]:
    """Yield a line for each distinct note, with the points that it is about, and one on disturbed samples."""
    about: dict[str, list[PointSamples]] = defaultdict(list)
    for point in experiment.points:
        summary = results.summary(experiment, point, experiment.headline)
        causes = dict.fromkeys(cause(each) for each in point.notes)
        for text in (*causes, *_failures(point), *(summary.notes if summary else ())):
            about[text].append(point)
    for text, owners in about.items():
        yield f"note: {_which(experiment, owners)}{text}"
    for told in (interference.told(experiment), carryover.told(experiment)):
        if told is not None:
            yield f"note: {told}"


def unmeasured(experiment: ExperimentResults) -> Iterator[str]:
    """Yield a line for each reason why metrics have no value in any sample, although there are samples."""
    shown = shown_metrics(experiment)
    if not any(map(len, experiment.points)):
        return
    clock = experiment.environment.get("clock") or {}
    missing: dict[str, list[str]] = defaultdict(list)
    for name, column in experiment.metrics.items():
        if name not in shown:
            told = f"the clock is {_clock(clock)}, because {clock['why']}" if clock.get("why") else ""
            missing[(column.unit == "cycles" and told) or "no sample has a value"].append(name)
    for reason, names in missing.items():
        yield f"not measured: {', '.join(names)}: {reason}"


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
        yield f"skipped: {_which(experiment, owners)}{reason}", remedy


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


def _heading(metric: str, unit: str) -> str:
    """Return a metric's name with its unit, which is told once even where the name ends in it."""
    name, _, end = metric.rpartition("_")
    if unit in ("", metric):
        return metric
    if unit.endswith(("/s", PER)):
        what = metric.removesuffix("_per_s")
        return unit if unit == f"{what}/s" else f"{what} [{unit}]"
    told = end in ("ns", unit) or (end == "bytes" and unit.endswith("B"))
    return f"{name if name and told else metric} [{unit}]"
