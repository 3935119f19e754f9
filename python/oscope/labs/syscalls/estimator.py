"""Which value should represent the cost of a call, judged from the distribution of what was measured."""

from __future__ import annotations

from collections import Counter

from oscope.figures.analysed import Analysed
from oscope.figures.words import listed
from oscope.labs.engine.run import Point
from oscope.labs.engine.table import TableOf, count, number, text
from oscope.labs.syscalls.judged import judged_points
from oscope.model.document import Section
from oscope.model.formatting import format_share
from oscope.statistics.summary import FEWEST_FOR_SHAPE

TABLE: TableOf[tuple[str, Point]] = TableOf(
    "The distributions, and what represents them",
    (
        text("what", lambda row: row[0]),
        count("n", lambda row: row[1].summary.n),
        number("skewness", lambda row: row[1].summary.skewness),
        text("outliers", lambda row: format_share(row[1].summary.outliers, 0.01), numeric=True),
        count("modes", lambda row: len(row[1].summary.modes)),
        number("autocorrelation", lambda row: row[1].summary.autocorrelation),
        text("stands for the cost", lambda row: row[1].summary.representative),
        text("why", lambda row: row[1].summary.reason),
    ),
    "Outliers: beyond Tukey's fences, each side scaled by its own half. Autocorrelation: lag 1, within a "
    "process.",
)


def section(results: Analysed) -> Section | None:
    """Answer B4's second question."""
    rows = [row for row in judged_points(results) if row[1].samples.factors.get("resident", 0) == 0]
    if not rows:
        return None
    return Section(
        title="Which value stands for the cost",
        answer=_headline([point for _, point in rows if point.summary.n >= FEWEST_FOR_SHAPE]),
        text=[
            (
                "The mean is right for a total; it represents one call only where the distribution is nearly "
                "symmetric and free of outliers. With several modes no one value represents all."
            )
        ],
        tables=[TABLE.of(rows)],
    )


def _headline(judged: list[Point]) -> str:
    if not judged:
        return f"Too few samples to judge the distributions: {FEWEST_FOR_SHAPE} of a point are needed."
    (first, most), *others = Counter(point.summary.representative for point in judged).most_common()
    if not others:
        each = "the distribution" if most == 1 else f"each of {most} distributions"
        return f"The {first} represents {each}."
    parts = [f"the {first} represents {most}", *(f"the {name} {number}" for name, number in others)]
    return f"Of {len(judged)} distributions, {listed(parts)}."
