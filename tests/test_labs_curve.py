"""What is said of a ratio that is no proven difference."""

from __future__ import annotations

import pytest

from oscope.labs.engine.words import not_different
from oscope.statistics.compared import Answer
from synthetic import compared


@pytest.mark.parametrize(
    ("low", "high", "answer", "said"),
    [
        (0.99, 1.01, "no", "which is no difference"),
        (0.8, 1.1, "cannot tell", "which cannot be distinguished from 1"),
        # Alone it would be one; corrected for all others it is not.
        (0.41, 0.85, "cannot tell", "which cannot be distinguished from 1 among so many comparisons"),
        (1.1, 1.4, "cannot tell", "which cannot be distinguished from 1 among so many comparisons"),
    ],
)
def test_an_interval_without_1_is_not_said_to_hold_it(
    low: float, high: float, answer: Answer, said: str
) -> None:
    assert not_different(compared((low + high) / 2, low, high, different=answer)) == said
