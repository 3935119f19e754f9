"""Time against size, zeros and random: the original's large inputs, and from which size on mmap is faster."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median as middle

import numpy as np

from oscope.figures.analysed import measured
from oscope.figures.words import listed
from oscope.labs.engine.contrast import Contrast
from oscope.labs.engine.curves import over_sizes
from oscope.labs.engine.question import Question, points
from oscope.labs.engine.run import Point, Run, known
from oscope.labs.engine.table import TableOf, count, level, number, text
from oscope.labs.engine.words import judged, times
from oscope.labs.transfer import SIZES, reference
from oscope.labs.transfer.points import (
    CALLS,
    CONTENT,
    COPIED,
    MAPPED,
    METHOD,
    RATE,
    SPREAD,
    Sides,
    compared_ways,
    curves,
    lasting,
    times_of,
    verdict_table,
)
from oscope.model.document import Figure, Table
from oscope.model.formatting import bounded_text, format_count, format_value
from oscope.model.units import format_bytes
from oscope.statistics import summarise

WORDS = {"zeros": "zeros", "random": "random bytes"}


def equal(rows: Sequence[Contrast]) -> list[Contrast]:
    """Return the rows of files that all have one size, by rising size."""
    own = (each for each in rows if each.row.factors.get("sizes", "equal") == "equal")
    return sorted(own, key=lambda each: each.size)


def headline(rows: Sequence[Contrast], names: tuple[str, str]) -> str:
    """Say from which size on mmap is faster, and by how much at the largest; of random bytes if sent."""
    here = [each for each in equal(rows) if each.ends[1] == names[1]]
    if not here:
        return f"{listed(names)} were not both measured, so that mmap is not compared."
    contents = [each.level("content") for each in here]
    content = "random" if "random" in contents else contents[-1]
    own = {each.size: each.row for each in here if each.level("content") == content}
    faster = {size: row.different == "yes" and row.ratio < 1 for size, row in own.items()}
    start, some = lasting(list(own), faster.__getitem__), [size for size in own if faster[size]]
    where = f"only at {listed([format_bytes(size) for size in some])}" if some else "at no size"
    found = (
        f"is faster than {names[0]} from {format_bytes(start)} on"
        if start is not None
        else f"is found faster than {names[0]} {where}"
    )
    last = own[max(own)]
    time = f"{times(last)} its time" if last.different == "yes" else judged(last, "its time")
    words = WORDS.get(content, "content")
    return f"With {words}, {names[1]} {found}; at {format_bytes(max(own))} it takes {time}."


def firsts(run: Run, metric: str) -> str:
    """Return a note of how the first execution of each process compares with those after it."""
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
        return ""
    ratio = bounded_text(found.median, *found.ci95)
    return f" The first of a process takes {ratio} times those after it (of {format_count(found.n)}, 95 %)."


def table_of_times(run: Run, sides: Sides, title: str, note: str = "") -> Table:
    """Return the averages and medians of both sides, a row for each size, content and way."""
    found = [each for each in run.points(sides.receiver) if each.factors.get("sizes", "equal") == "equal"]
    table: TableOf[Point] = TableOf(
        f"{title}, time on both sides",
        (
            level("size"),
            CONTENT,
            METHOD,
            count("n", lambda each: each.summary.n),
            *times_of(sides, "{side}, {part}", *SPREAD),
            text("throughput", _throughput),
        ),
        f"The average and standard deviation of all executions, and the median with its interval.{note}",
    )
    return table.of(sorted(found, key=lambda each: each.size))


def _throughput(point: Point) -> str | None:
    found = point.of(RATE)
    return None if found is None else format_value(found.median, found.std, "B/s")


def verdicts(rows: Sequence[Contrast], base: str, title: str) -> Table:
    """Return each other way's time over that of `base`, by size and content."""
    return verdict_table(title, base, equal(rows), level("size"), CONTENT)


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
        number("mean [ms]", lambda row: sum(row[3]) / len(row[3]), ".1f"),
        number("median [ms]", lambda row: middle(row[3]), ".1f"),
        text("groups: median [ms] (n)", lambda row: reference.groups_text(row[3])),
    ),
    "1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB in one execution. A group ends where the next value is more "
    f"than {reference.GAP_MS:g} ms away. The report prints {format_count(reference.PRINTED_BYTES)} bytes; "
    f"its inputs have {sum(SIZES) / reference.PRINTED_BYTES:g} times as many, so no throughput is cited. "
    f"{reference.WHERE}",
)


def _verdicts(run: Run) -> list[Contrast]:
    return run.once("verdicts", lambda: compared_ways(run, COPIED.sender, CALLS))


section = Question(
    title="Large inputs: mmap against read and write",
    experiment="transfer.large",
    rows=points(COPIED.sender),
    headline=lambda run, _: headline(_verdicts(run), (CALLS, MAPPED)),
    text=(
        "The sender's clock runs from its connect until it has the receipt of a verified file, the "
        "receiver's from accept until then; both ends are ready before, and no execution is left out."
    ),
    tables=(
        lambda run, _: [
            table_of_times(run, COPIED, "Large inputs", firsts(run, COPIED.sender)),
            verdicts(_verdicts(run), CALLS, "Against read and write, the sender's time"),
            ORIGINAL.of(CITED),
        ]
    ),
    figures=(lambda run, _: figures(run, COPIED.sender, "Time of the sender")),
    timed=True,
)
