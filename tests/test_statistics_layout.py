"""Whether a difference may be the code's mere layout."""

from __future__ import annotations

import math

import pytest

from oscope.statistics.compared import ComparedMetric
from oscope.statistics.layout import judge_layout
from synthetic import compared


@pytest.mark.parametrize(
    ("changed", "padded", "cause"),
    [
        # A tenth more, where layout does 2 %.
        (compared(1.10, 1.08, 1.12), compared(1.01, 0.99, 1.02), "the change"),
        # A tenth less counts as much as a tenth more.
        (compared(0.90, 0.88, 0.92), compared(1.01, 0.99, 1.02), "the change"),
        # 3 % more, where layout does 4 % in either direction.
        (compared(1.03, 1.02, 1.04), compared(1.04, 1.03, 1.05), "layout may be all"),
        (compared(1.03, 1.02, 1.04), compared(0.96, 0.95, 0.97), "layout may be all"),
        # More than layout by the estimate, but not by its interval.
        (compared(1.05, 1.01, 1.09), compared(1.02, 1.01, 1.03), "cannot tell"),
        (compared(1.00, 0.99, 1.01, different="no"), compared(1.04, 1.03, 1.05), "none found"),
        (compared(math.nan, math.nan, math.nan), compared(1.04, 1.03, 1.05), "cannot tell"),
    ],
)
def test_a_change_is_the_cause_only_where_it_exceeds_all_that_layout_may_do(
    changed: ComparedMetric, padded: ComparedMetric, cause: str
) -> None:
    assert judge_layout(changed, padded).cause == cause


def test_the_sentence_tells_how_much_layout_did() -> None:
    verdict = judge_layout(compared(1.10, 1.08, 1.12), compared(1.02, 1.01, 1.03))
    assert "other padding alone: 2" in verdict.sentence
    assert verdict.layout == pytest.approx(0.03)
