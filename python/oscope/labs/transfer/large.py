"""Time against size, zeros and random: the original's large inputs, and from which size on mmap is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median as middle

import numpy as np

from oscope.figures.analysed import measured
from oscope.figures.words import listed
from oscope.labs.engine.curves import over_sizes
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run, known, summary_of
from oscope.labs.engine.table import TableOf, count, ratio, stat, text
from oscope.labs.engine.words import judged, ratio_text, times
from oscope.labs.transfer import SIZES, reference
from oscope.labs.transfer.points import (
    CALLS,
    COPIED,
    MAPPED,
    RATE,
    Sides,
    against,
    curves,
    lasting,
    way,
    ways,
)
from oscope.model.document import Figure, Table
from oscope.model.formatting import bounded_text, format_count, format_value
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, summarise

WORDS = {"zeros": "zeros", "random": "random bytes"}
Compared = Mapping[str, Sequence[ComparedMetric]]
"""Of each way but the first, how it compares with that."""


def equal(rows: Sequence[ComparedMetric]) -> list[ComparedMetric]:
    """Return the rows of files that all have one size."""
    return [row for row in rows if row.factors.get("sizes", "equal") == "equal"]


def compared_ways(run: Run, metric: str, base: str) -> dict[str, list[ComparedMetric]]:
    """Return for each other way how it compares with `base`, p corrected (Holm) for its rows."""
    others = [name for name in ways(known(run.experiment, metric)) if name != base]
    return {name: against(run.experiment, (metric,), base, name) for name in others}


def headline(rows: Sequence[ComparedMetric], names: tuple[str, str]) -> str:
    """Say how mmap compares at the largest size, with random bytes where they were sent."""
    here = sorted(equal(rows), key=lambda row: (row.factors.get("content") != "random", -_size(row)))
    if not here:
        return f"{listed(names)} were not both measured, so that nothing is said of mmap."
    row = here[0]
    what = f"At {format_bytes(_size(row))} of {WORDS.get(str(row.factors.get('content')), 'content')}"
    if row.different != "yes":
        return f"{what}, {names[1]} takes {judged(row, f'the time of {names[0]}')}."
    return f"{what}, {names[1]} takes {times(row)} the time of {names[0]}."


def _size(row: ComparedMetric) -> int:
    return int(row.factors["size"])


def from_on(run: Run, rows: Sequence[ComparedMetric], names: tuple[str, str], metric: str) -> list[str]:
    """Say for each content from which size on mmap is faster, and by how much at the largest."""
    said = []
    calls, mapped = names
    for content in run.levels("content"):
        here = {
            _size(row): row
            for row in equal(rows)
            if row.metric == metric and row.factors.get("content") == content
        }
        if not here:
            continue
        faster = {size: row.different == "yes" and row.ratio < 1 for size, row in here.items()}
        start = lasting(list(here), faster.__getitem__)
        some = [format_bytes(size) for size in sorted(here) if faster[size]]
        where = f"only at {listed(some)}" if some else "at no size"
        what = (
            f"{mapped} is faster than {calls} from {format_bytes(start)} on"
            if start is not None
            else f"{mapped} is found faster than {calls} {where}"
        )
        own = judged(here[max(here)], f"{calls}'s time")
        said.append(
            f"With {WORDS.get(content, content)}, {what}; at {format_bytes(max(here))} it takes {own}."
        )
    return said


def firsts(run: Run, metric: str) -> list[str]:
    """Say how the first execution of each process compares with those after it."""
    ratios, blocks = [], []
    for point in known(run.experiment, metric):
        values, kept = measured(point, metric)
        for block in np.unique(point.block[kept]):
            here = np.flatnonzero(point.block[kept] == block)
            if len(here) > 1:
                ratios.append(float(values[here[0]] / np.median(values[here[1:]])))
                blocks.append(int(block))
    found = summarise(ratios, blocks, seed=run.experiment.seed) if ratios else None
    if found is None or found.ci95 is None:
        return []
    return [
        (
            f"The first execution of a process takes {bounded_text(found.median, *found.ci95)} times what "
            "those "
            f"after it take (median of {format_count(found.n)}, 95 %)."
        )
    ]


def table_of_times(run: Run, sides: Sides, title: str) -> Table:
    """Return the averages and medians of both sides, a row for each size, content and way."""
    found = [
        each
        for each in run.points(sides.receiver)
        if each.samples.factors.get("sizes", "equal") == "equal" and "size" in each.samples.factors
    ]
    table: TableOf[Point] = TableOf(
        f"{title}, time on both sides",
        (
            text("size", lambda each: each.level("size")),
            text("content", lambda each: str(each.samples.factors.get("content", ""))),
            text("method", lambda each: way(each.samples.factors)),
            count("n", lambda each: each.summary.n),
            *(
                stat(f"{side}, {{}}", summary_of(name), "ns", *SPREAD)
                for side, name in (("sender", sides.sender), ("receiver", sides.receiver))
            ),
            text("throughput", _throughput),
        ),
        "The average of all executions with their standard deviation, and the median with its interval.",
    )
    return table.of(sorted(found, key=lambda each: int(each.samples.factors["size"])))


SPREAD = ("mean", "std. dev.", "median", "95 %")


def _throughput(point: Point) -> str | None:
    found = point.of(RATE)
    return None if found is None else format_value(found.median, found.std, "B/s")


def verdict_table(compared: Compared, base: str, title: str) -> Table:
    """Return each other way's time over that of `base`, with both answers."""
    table: TableOf[tuple[str, ComparedMetric]] = TableOf(
        title,
        (
            text("size", lambda row: format_bytes(_size(row[1]))),
            text("content", lambda row: str(row[1].factors.get("content", ""))),
            text("method", lambda row: row[0]),
            ratio(f"time / {base}'s", lambda row: row[1], "different", "matters"),
        ),
        "Paired by block, p corrected (Holm) for all sizes and contents of a method. It matters where the "
        "whole "
        "interval is beyond 1 %.",
    )
    rows = [(name, row) for name, found in compared.items() for row in equal(found)]
    return table.of(sorted(rows, key=lambda row: _size(row[1])))


def figures(run: Run, metric: str, title: str) -> list[Figure]:
    """Draw time over size for each content that was measured at several sizes."""
    several = any("sizes" in point.factors for point in run.experiment.points)
    unit = run.experiment.metrics[metric].unit
    drawn = []
    for content in run.levels("content"):
        found = curves(run, metric, content=content, **({"sizes": "equal"} if several else {}))
        if found and max(len(each) for each in found.values()) > 1:
            drawn.append(over_sizes(f"{title}, {content}", found, unit, name="size of the file"))
    return drawn


def original_says(rows: Sequence[ComparedMetric], metric: str) -> str:
    """Compare the original report's conclusion with the largest size measured."""
    here = [row for row in rows if row.metric == metric]
    text = (
        "The original report concludes that mmap is the better the larger the file, since its other method "
    )
    text += "makes many system calls."
    if not here:
        return text
    largest = max(map(_size, here))
    found = [
        f"{ratio_text(row)} times with {WORDS.get(str(row.factors['content']), '')}"
        for row in here
        if _size(row) == largest and "content" in row.factors
    ]
    return (
        f"{text} Here the receiver's time at {format_bytes(largest)} is by mmap, over that by read and "
        f"write, {listed(found)}."
    )


def _eighths(*_: object) -> list[str]:
    """Say that the original report's bytes are an eighth of what its five inputs sum to."""
    total = sum(SIZES)
    return [
        (
            f"The original report prints {format_count(reference.PRINTED_BYTES)} bytes for its five inputs, "
            "which "
            f"sum to {format_count(total)}: {total / reference.PRINTED_BYTES:g} times as many to the last "
            "byte. "
            "Either its programs divide what they print, or an eighth was moved; it does not show them, so "
            "that "
            "its times are cited here, and no throughput is made of them."
        )
    ]


Cited = tuple[str, str, str, Sequence[float]]
CITED: Sequence[Cited] = [
    (side, method, content, values)
    for side, inputs in (("receiver", reference.RECEIVER), ("sender", reference.SENDER))
    for (method, content), values in inputs.items()
]
"""The original report's times: side, method, content, ms."""
ORIGINAL: TableOf[Cited] = TableOf(
    "The original report's large inputs",
    (
        text("side", lambda row: row[0]),
        text("method", lambda row: row[1]),
        text("content", lambda row: row[2]),
        count("n", lambda row: len(row[3])),
        text("mean [ms]", lambda row: f"{sum(row[3]) / len(row[3]):.1f}", numeric=True),
        text("median [ms]", lambda row: f"{middle(row[3]):.1f}", numeric=True),
        text("groups: median [ms] (n)", lambda row: reference.groups_text(row[3])),
    ),
    "1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB in one execution. A group ends where the next value is more "
    "than "
    f"{reference.GAP_MS:g} ms away. {reference.WHERE}",
)


def _tables(run: Run, _: Sequence[Point]) -> list[Table]:
    compared = compared_ways(run, COPIED.sender, CALLS)
    return [
        table_of_times(run, COPIED, "Large inputs"),
        verdict_table(compared, CALLS, "Against read and write, the sender's time"),
        ORIGINAL.of(CITED),
    ]


def _mapped(run: Run, metric: str) -> list[ComparedMetric]:
    return against(run.experiment, (metric,), CALLS, MAPPED)


section = Question(
    title="Large inputs: mmap against read and write",
    experiment="transfer.large",
    rows=points(COPIED.sender),
    headline=lambda run, _: headline(_mapped(run, COPIED.sender), (CALLS, MAPPED)),
    text=(
        lambda run, _: from_on(run, _mapped(run, COPIED.sender), (CALLS, MAPPED), COPIED.sender),
        (
            "Source and destination lie on a tmpfs. The sender's clock runs from before its connect until "
            "it has "
            "the receiver's receipt, which comes when the file is verified and has its name, the receiver's "
            "from "
            "accept until then. Both ends are ready before a clock starts: nothing is started by hand, and "
            "no "
            "execution is left out."
        ),
        lambda run, _: firsts(run, COPIED.sender),
        _eighths,
        lambda run, _: [original_says(_mapped(run, COPIED.receiver), COPIED.receiver)],
    ),
    tables=(_tables,),
    figures=(lambda run, _: figures(run, COPIED.sender, "Time of the sender"),),
    timed=True,
)
