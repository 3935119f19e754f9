"""The history of an experiment on a terminal: a table for each point, and its changes in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from math import isfinite, isnan

import numpy as np
from rich.console import Console
from rich.text import Text

from oscope.analysis.run_history import Line, Series
from oscope.figures.analysed import level_text
from oscope.model import formatting
from oscope.model.formatting import Scale
from oscope.model.samples import ExperimentResults
from oscope.report.terminal import MOST_ROWS, aligned, print_columns, print_prose, table_room, table_width
from oscope.statistics.changes import FEWEST_RUNS, Change
from oscope.statistics.machines import build_digest, build_name

_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = ("run", "started", "median", "95 % interval")
_NO_CHANGE = "no change found"
_FOUND = ("change:", "not enough")
"""How the remarks begin that answer whether something changed, but for that without a change."""


def print_history(experiment: str, lines: tuple[Line, ...], out: Console) -> None:
    """Print the lines, each with a table for each of its points, then what changed."""
    out.print(Text.assemble((experiment, "bold"), f": {_span(lines)}"))
    for line in lines:
        out.print()
        print_prose(line.name, out, style="dim")
        for series in line.series:
            _print_series(line, series, out)
        for text in remarks(line):
            print_prose(
                text, out, style="bold" if text.startswith(_FOUND) or text.endswith(_NO_CHANGE) else ""
            )


def remarks(line: Line) -> Iterator[str]:
    """Yield what is found in a line: its changes or that there is none, autocorrelation, other kernels."""
    searched = sum(series.is_searched for series in line.series)
    sentences = list(changes(line))
    if searched < len(line.series):
        count = len(line.series) - searched
        what = "" if count == len(line.series) else f" in {count} of {len(line.series)} series"
        yield f"not enough runs to look for changes{what}: it takes {FEWEST_RUNS} or more comparable runs"
        if searched and not sentences:
            yield f"{searched} series searched: {_NO_CHANGE}"
    elif not sentences:
        yield _NO_CHANGE
    yield from sentences
    if wandering := autocorrelation(line):
        yield wandering
    if (builds := len(set(_builds(line)))) > 1:
        yield (
            f"{builds} builds or programs measured these runs: a change may be that of the build; "
            "oscope compare A B compares two runs"
        )
    for place, text in line.kernel_changes().items():
        yield f"kernel changed at {_when(line.runs[place])}: {text}"


def changes(line: Line) -> Iterator[str]:
    """Yield a sentence for each change: point, size, the run it begins with, what changed there."""
    for series in line.series:
        for change in series.changes:
            differences = line.changed_environment(series, change)
            what = "; ".join(f"{name} {a} → {b}" for name, (a, b) in differences.items())
            begin = _when(line.runs[change.at])
            yield (
                f"change: {series_name(line, series)}: {_size(series, change)}, from {begin} on; "
                f"changed there: {what or 'nothing that is recorded'}"
            )


def autocorrelation(line: Line) -> str:
    """Return a sentence on series whose runs are autocorrelated; empty where there are none."""
    found = sorted(series.r for series in line.series if series.is_autocorrelated)
    if not found:
        return ""
    low, high = (f"{each:.1f}" for each in (found[0], found[-1]))
    which = "" if len(found) == len(line.series) else f" in {len(found)} of {len(line.series)} series"
    r = f"r = {low}" if low == high else f"r = {low} to {high}"
    return f"runs are autocorrelated{which} ({r}): only larger steps can be found"


def _print_series(line: Line, series: Series, out: Console) -> None:
    out.print(Text.assemble((series_name(line, series), "bold"), "  ", sparkline(series)))
    columns = series_columns(line, series, MOST_ROWS)
    if table_width(columns) > table_room(out):
        # A run's id begins with it.
        del columns[1]
    print_columns(columns, out, wrap_last=any(columns[-1][1:]) and columns[-1][0] == "")
    left = sum(isfinite(value.median) for value in series.values) - len(columns[0]) + 1
    if left:
        print_prose(f"{left} earlier runs: --json has them all", out, style="dim")


def series_columns(line: Line, series: Series, most: int) -> list[list[str]]:
    """Return the newest `most` runs of a series as columns, headings first; changes come last, if any."""
    kernels = line.kernel_changes()
    shown = [place for place, value in enumerate(series.values) if isfinite(value.median)][-most:]
    values = [series.values[place] for place in shown]
    halves = [(v.ci95[1] - v.ci95[0]) / 2 if v.ci95 else None for v in values]
    scale = Scale.choose([v.median for v in values], halves, series.metric.shown_unit)
    steps = {change.at: _step(change) for change in series.changes}
    builds = _builds(line)
    marks = [_marks(line.runs[place], steps.get(place), place in kernels, builds[place]) for place in shown]
    unit = f" [{scale.unit}]" if scale.unit and scale.unit != series.metric.name else ""
    # A row has the digits that its own interval allows, as in every table of medians.
    rows = [scale.row(v.median, half) for v, half in zip(values, halves, strict=True)]
    medians = [row.text(v.median) for row, v in zip(rows, values, strict=True)]
    intervals = [row.span(v.ci95) for row, v in zip(rows, values, strict=True)]
    run, started, median, interval = _COLUMNS
    columns = [
        [run, *(line.runs[place].run_id for place in shown)],
        [started, *(_started(line.runs[place]) for place in shown)],
        aligned([f"{median}{unit}", *medians]),
        [interval, *intervals],
    ]
    return [*columns, ["notes", *marks]] if any(marks) else columns


def _builds(line: Line) -> list[str]:
    """Return for each run the program or build that measured it; empty texts where all are the same."""
    texts = [f"{build_name(run) or 'oscope-probe'} {build_digest(run)}".rstrip() for run in line.runs]
    return texts if len(set(texts)) > 1 else [""] * len(texts)


def _marks(run: ExperimentResults, step: str | None, is_other_kernel: bool, build: str) -> str:
    ended = run.status if run.status != "done" else ""
    return ", ".join(filter(None, [step or "", "kernel" if is_other_kernel else "", build, ended]))


def _step(change: Change) -> str:
    ratio, low, high = change.ratio
    if isnan(ratio):
        return "change"
    return f"{'+' if ratio > 1 else '-'}{formatting.format_share(abs(ratio - 1), (high - low) / 2)}"


def _size(series: Series, change: Change) -> str:
    """Return `98.1 → 101.2 ns, 3.1 % more (95 % interval 2.5 to 3.7 %), worse`."""
    ratio, low, high = change.ratio
    unit = series.metric.shown_unit
    more = change.estimate.effect > 0
    scale = Scale.choose([change.before, change.after], [abs(change.after - change.before) / 10], unit)
    text = f"{scale.text(change.before)} → {scale.with_unit(change.after)}"
    if isnan(ratio):
        change_text = formatting.format_interval(
            change.estimate.effect, change.estimate.low, change.estimate.high, unit
        )
        text += f", a difference of {change_text}"
    else:
        half = (high - low) / 2
        # Of `less`, both ends count downwards, as the share does.
        shares = sorted((end - 1) * (1 if more else -1) for end in (low, high))
        ends = " to ".join(formatting.format_share(end, half).removesuffix(" %") for end in shares)
        share = formatting.format_share(abs(ratio - 1), half)
        text += f", {share} {'more' if more else 'less'} (95 % interval {ends} %)"
    if series.metric.better is None:
        return text
    return f"{text}, {'worse' if more == (series.metric.better == 'less') else 'better'}"


def series_name(line: Line, series: Series) -> str:
    """Return the levels of a series that vary between those of its line, else all, and its metric.

    Runs of one line may have different headlines, and so be series of different metrics at one point.
    """
    every = [other.factors for other in line.series]
    varied = [name for name in series.factors if len({each.get(name) for each in every}) > 1]
    kinds = line.runs[-1].factor_types
    levels = [level_text(series.factors[name], kinds.get(name)) for name in varied or series.factors]
    return " · ".join([*levels, series.metric.name])


def sparkline(series: Series) -> str:
    """Return a bar a run, the last that a table shows, between the least and the greatest.

    Where all lie within half an interval, they are drawn as good as level: their order says nothing.
    """
    shown = [value for value in series.values if isfinite(value.median)][-MOST_ROWS:]
    values = np.array([value.median for value in shown])
    if len(values) < 2:
        return ""
    halves = [(value.ci95[1] - value.ci95[0]) / 2 for value in shown if value.ci95]
    spread = max(float(np.ptp(values)), float(np.median(halves or [0.0]))) or 1.0
    return "".join(_BARS[min(7, int(8 * (value - values.min()) / spread))] for value in values)


def _span(lines: tuple[Line, ...]) -> str:
    runs = sorted((run.started, run.run_id) for line in lines for run in line.runs)
    count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    apart = f" in {len(lines)} lines that must not be compared" if len(lines) > 1 else ""
    return f"{count}{apart}, {runs[0][0][:10]} to {runs[-1][0][:10]}"


def _when(run: ExperimentResults) -> str:
    return f"run {run.run_id} ({_started(run)})"


def _started(run: ExperimentResults) -> str:
    return f"{datetime.fromisoformat(run.started).astimezone():%Y-%m-%d %H:%M}"
