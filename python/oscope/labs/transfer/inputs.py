"""The document's second test: its five large inputs in one execution, by user space and by the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.tables import row_scale, shared_scale
from oscope.labs.curve import cells
from oscope.labs.kernel.clocked import EMULATED, emulated
from oscope.labs.transfer import SIZES, large, reference
from oscope.labs.transfer.points import (
    CALLS,
    COPIED,
    DEVICE,
    MAPPED,
    Sides,
    dots,
    known,
    missing,
    spread_cells,
    summary,
    times,
    verdict,
    way,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_count
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric

TITLE = "Five large inputs in one execution"
WHAT = (
    f"1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB, {format_count(sum(SIZES))} bytes, over one connection. The "
    "document ran this ten times and gave averages, of which it left out the first where that was started by "
    "hand. Here nothing is started by hand, and every execution counts."
)


Compared = Mapping[str, Sequence[ComparedMetric]]
"""Of each way but the first, how it compares with that."""


@dataclass(frozen=True)
class Through:
    """One of the two ways between the processes, with the document's two methods there."""

    experiment: str
    name: str
    sides: Sides
    methods: tuple[str, str]


KINDS = (
    Through("transfer.inputs", "user space", COPIED, (CALLS, MAPPED)),
    Through("transfer.device-inputs", "the devices", DEVICE, ("fcntl", "mmap")),
)


def section(results: Analysed) -> Section | None:
    """Answer D5 and D7 for five files an execution."""
    run = [(kind, found) for kind in KINDS if (found := results.get(kind.experiment)) is not None]
    if not run:
        return None
    gaps = missing(*(experiment for _, experiment in run))
    shown = [(kind, experiment) for kind, experiment in run if known(experiment, kind.sides.receiver)]
    if not shown:
        return Section(TITLE, "", text=[WHAT], missing=gaps)
    compared = [
        (kind, large.compared_ways(experiment, kind.sides.receiver, kind.methods[0]))
        for kind, experiment in shown
    ]
    return Section(
        title=TITLE,
        answer=" ".join(text for kind, rows in compared for text in _answer(kind, rows)),
        text=[WHAT, *(_apart(experiment) for kind, experiment in shown if kind is KINDS[1])],
        tables=[
            *(_times(results, kind, experiment) for kind, experiment in shown),
            *(_verdicts(kind, rows) for kind, rows in compared if rows),
        ],
        figures=[_figure(results, kind, experiment) for kind, experiment in shown],
        missing=gaps,
    )


def _answer(kind: Through, compared: Compared) -> list[str]:
    """Say for each content how mmap compares with read and write."""
    calls, mapped = kind.methods
    return [
        f"Through {kind.name}, with {large.WORDS.get(content, content)}, the receiver takes by {mapped} "
        f"{times(row, f'its time by {calls}')}."
        for row in compared.get(mapped, ())
        for content in [str(row.factors.get("content", ""))]
    ]


def _apart(experiment: ExperimentResults) -> str:
    text = (
        "A guest has its own clock and its own kernel: its figures are not compared with those of user space."
    )
    return f"{text} The guest was emulated: {EMULATED}." if emulated(experiment) else text


def _times(results: Analysed, kind: Through, experiment: ExperimentResults) -> Table:
    """Return averages and medians of both sides, beside the document's averages."""
    points = known(experiment, kind.sides.receiver)
    found = [
        [summary(results, experiment, point, name) for name in (kind.sides.sender, kind.sides.receiver)]
        for point in points
    ]
    every = [one for pair in found for one in pair if one is not None]
    scale = shared_scale(every, experiment.metrics[kind.sides.receiver].unit)
    rows = []
    for point, pair in zip(points, found, strict=True):
        moved = summary(results, experiment, point, "bytes")
        sides = [
            cell
            for one in pair
            for cell in (
                *spread_cells(one, scale.text if one is None else row_scale(scale, one).text),
                *cells(one, scale),
            )
        ]
        rows.append(
            [
                str(point.factors.get("content", "")),
                way(point.factors),
                MISSING if moved is None else format_count(moved.median),
                str(next((one.n for one in pair if one), 0)),
                *sides,
                *_cited(point),
            ]
        )
    columns = ["content", "method", "bytes", "n"]
    for side in ("sender", "receiver"):
        columns += [f"{side}, {name} [{scale.unit}]" for name in ("mean", "std. dev.", "median", "95 %")]
    columns += ["document's sender, mean [ms]", "its receiver, mean [ms]"]
    numbers = frozenset({2, 3, 4, 5, 6, 8, 9, 10, 12, 13})
    note = f"The average of all executions, and the median with its interval. {reference.WHERE}"
    return Table(f"Five large inputs through {kind.name}", columns, rows, numbers, note)


def _cited(point: PointSamples) -> list[str]:
    """Return the averages of the document's ten executions by this method, of sender and receiver."""
    name = next((n for n, ours in reference.METHODS.items() if way(point.factors) in (n, ours)), "")
    found = (
        side.get((name, str(point.factors.get("content")))) for side in (reference.SENDER, reference.RECEIVER)
    )
    return [MISSING if values is None else f"{mean(values):.1f}" for values in found]


def _verdicts(kind: Through, compared: Compared) -> Table:
    base = kind.methods[0]
    lines = [
        [str(row.factors.get("content", "")), name, *verdict(row)]
        for name, rows in compared.items()
        for row in rows
    ]
    columns = ["content", "method", f"time / {base}'s (95 %)", "different", "matters"]
    note = "Paired by block, p corrected (Holm) for both contents of a method."
    return Table(
        f"Against {base} through {kind.name}, the receiver's time", columns, lines, frozenset(), note
    )


def _figure(results: Analysed, kind: Through, experiment: ExperimentResults) -> Figure:
    """Draw the receiver's time of each content, a colour for each way."""
    metric = kind.sides.receiver
    points = known(experiment, metric)
    series, unit = dots(results, experiment, points, metric, _row)
    title = f"Time of the receiver, five large inputs through {kind.name}"
    return plots.dots(title, f"receiver's time [{unit}]", series, "Medians with their 95 % intervals.")


def _row(point: PointSamples) -> str:
    return f"{point.factors.get('content', '')}, {way(point.factors)}"
