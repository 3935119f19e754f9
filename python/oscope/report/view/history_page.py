"""The history of an experiment, as `oscope history` finds it, with its change points in the figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from oscope.analysis.run_history import Line, collect, left_out, without_injection
from oscope.model.document import Figure, Table
from oscope.model.errors import UsageError
from oscope.model.samples import ExperimentResults
from oscope.report import theme
from oscope.report.history_figure import figure, in_order
from oscope.report.view.page_text import Wording
from oscope.storage.store import RunEntry, Store

CHANGE_COLOUR = theme.SURFACES["light"]["reference"]
"""It can be seen on either background."""


@dataclass(frozen=True)
class PastSeries:
    """One point over its runs."""

    name: str
    table: Table


@dataclass(frozen=True)
class PastLine:
    """Runs that may be compared."""

    name: str
    remarks: Sequence[str]
    series: Sequence[PastSeries]


@dataclass(frozen=True)
class Past:
    """All runs of an experiment."""

    figure: Figure
    lines: Sequence[PastLine]
    metrics: Sequence[str]
    """Those that can be chosen."""
    left_out: str = ""
    """How many runs with injected interference are left out; empty where there is none."""


def history(
    store: Store, entries: Sequence[RunEntry], experiment: str, metric: str, wording: Wording
) -> Past:
    """Return the history of `metric` (empty: the headline's) in these runs. Raises UsageError without any."""
    metrics: dict[str, None] = {}

    def runs() -> Iterator[ExperimentResults]:
        for entry in entries:
            for results in store.results(entry.id, experiment=experiment, columns="metrics").experiments:
                metrics.update(dict.fromkeys(results.metrics))
                yield results

    if not entries:
        raise UsageError(
            f"no run of {experiment} with samples", remedy=f"measure with oscope run {experiment}"
        )
    entries, injected = without_injection(entries)
    lines = collect(runs(), metric or None)
    return Past(
        _with_changes(figure(experiment, lines), lines, in_order(lines)),
        [
            PastLine(
                line.name,
                list(wording.changes(line)),
                [PastSeries(wording.name(line, each), wording.series(line, each)) for each in line.series],
            )
            for line in lines
        ],
        list(metrics),
        left_out(len(injected)) if injected else "",
    )


def entries_of(entries: Sequence[RunEntry], experiment: str, since: date | None) -> list[RunEntry]:
    """Return the runs that have samples of the experiment, the oldest first."""
    return [
        entry
        for entry in entries
        if experiment in entry.experiments
        and entry.samples
        and (since is None or entry.started.astimezone().date() >= since)
    ]


def _with_changes(drawn: Figure, lines: Sequence[Line], runs: Sequence[ExperimentResults]) -> Figure:
    """Return the figure, which has `runs` from left to right, with a line where one began another level."""
    place = {run.run_id: number for number, run in enumerate(runs, 1)}
    changed = {
        place[line.runs[change.at].run_id]
        for line in lines
        for each in line.series
        for change in each.changes
    }
    marks = [
        {
            "type": "line",
            "x0": at - 0.5,
            "x1": at - 0.5,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": CHANGE_COLOUR, "width": 1.5, "dash": "dot"},
        }
        for at in sorted(changed)
    ]
    note = f"{drawn.note} Dotted: a change begins there." if marks else drawn.note
    return replace(drawn, layout={**drawn.layout, "shapes": marks}, note=note)
