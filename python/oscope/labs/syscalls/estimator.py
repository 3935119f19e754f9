"""Which value should stand for the cost of a call, judged from the shape of what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oscope.figures.analysed import Analysed
from oscope.figures.words import listed
from oscope.labs.syscalls.words import judged_points
from oscope.model.document import Section, Table
from oscope.model.formatting import GROUP, format_count, format_share
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics.summary import FEWEST_FOR_SHAPE


def section(results: Analysed) -> Section | None:
    """Answer B4's second question."""
    rows = [
        _row(*each, results) for each in judged_points(results) if each[1].factors.get("resident", 0) == 0
    ]
    if not rows:
        return None
    columns = ["what", "n", "skewness", "outliers", "modes", "autocorrelation", "stands for the cost", "why"]
    return Section(
        title="Which value stands for the cost",
        answer=_answer(rows),
        text=[
            (
                "The mean is right for a total (many calls together cost the sum of all of them, tail "
                "included). It stands for one call only where the distribution is nearly symmetric and "
                "free of outliers. With several modes no one value stands for all."
            ),
        ],
        tables=[
            Table(
                "The shape of each distribution, and what follows",
                columns,
                rows,
                frozenset({1, 2, 3, 4, 5}),
                "Outliers: beyond Tukey's fences, each side scaled by its own half. Autocorrelation: "
                "lag 1, within a process.",
            )
        ],
    )


def _answer(rows: Sequence[Sequence[str]]) -> str:
    judged = [row for row in rows if int(row[1].replace(GROUP, "")) >= FEWEST_FOR_SHAPE]
    if not judged:
        return f"Too few samples to judge the shape: {FEWEST_FOR_SHAPE} of a point are needed."
    if len(judged) == 1:
        return f"Judged by its shape, “{judged[0][0]}” is best told by the {judged[0][-2]}."
    (first, most), *others = Counter(row[-2] for row in judged).most_common()
    if not others:
        return f"Judged by its shape, each of {len(judged)} distributions is best told by the {first}."
    told = [f"the {first} in {most}", *(f"the {name} in {number}" for name, number in others)]
    return f"Judged by the shape of {len(judged)} distributions, what stands for the cost is {listed(told)}."


def _row(
    experiment: ExperimentResults, point: PointSamples, metric: str, name: str, results: Analysed
) -> list[str]:
    summary = results.summary(experiment, point, metric)
    assert summary is not None, "only points with values are judged"  # noqa: S101
    return [
        name,
        format_count(summary.n),
        f"{summary.skewness:.2f}",
        format_share(summary.outliers, 0.01),
        str(len(summary.modes)),
        f"{summary.autocorrelation:.2f}",
        summary.representative,
        summary.reason,
    ]
