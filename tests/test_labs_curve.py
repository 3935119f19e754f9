"""Curves over a size, and what is said of a ratio that is no proven difference."""

from __future__ import annotations

import numpy as np
import pytest

from oscope import questions as q
from oscope.questions.section_text import not_different
from oscope.statistics.compared import Answer
from synthetic import compared
from synthetic_disk import Maker, columns, results


@pytest.mark.parametrize(
    ("low", "high", "answer", "text"),
    [
        (0.99, 1.01, "no", "which is no difference"),
        (0.8, 1.1, "cannot tell", "which cannot be distinguished from 1"),
        # Alone it would be one; corrected for all others it is not.
        (0.41, 0.85, "cannot tell", "which cannot be distinguished from 1 among so many comparisons"),
        (1.1, 1.4, "cannot tell", "which cannot be distinguished from 1 among so many comparisons"),
    ],
)
def test_an_interval_without_1_is_not_said_to_hold_it(
    low: float, high: float, answer: Answer, text: str
) -> None:
    assert not_different(compared((low + high) / 2, low, high, different=answer)) == text


def test_a_best_point_is_not_distinguished_where_the_medians_contradict_the_pairs() -> None:
    maker, speeds = Maker(blocks=11), np.arange(10.0, 120.0, 10.0)
    # In every block but that of the median the second size is faster.
    faster = np.where(speeds == 60, 59.9, 1.02 * speeds)
    points = [
        maker.point({"block_size": size}, {"throughput": values})
        for size, values in ((4096, speeds), (8192, faster), (65536, speeds / 2))
    ]
    found = [
        q.At(int(point.factors["block_size"]), point, q.summarise(point.metrics["throughput"], point.block))
        for point in points
    ]
    first, alike = q.best(found, results("disk.read", points, columns("throughput")), "throughput")
    assert (first.size, [each.size for each in alike]) == (4096, [8192])
