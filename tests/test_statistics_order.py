"""Median and quartiles are those of NumPy, to the last bit."""

from __future__ import annotations

import hypothesis
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oscope.statistics import order, replication

VALUES = arrays(float, st.integers(1, 60), elements=st.floats(-1e300, 1e300) | st.sampled_from([1.0, 2.0]))
LABELS = st.lists(st.integers(-3, 3), max_size=30)


@hypothesis.given(VALUES)
def test_the_median_is_numpys(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    with np.errstate(over="ignore"):
        assert order.median(values) == np.median(values)


@hypothesis.given(VALUES)
def test_the_quartiles_are_numpys(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.quantile(values, [0.25, 0.75])
        np.testing.assert_array_equal(order.quartiles(values), expected)


@hypothesis.given(LABELS, st.booleans())
def test_codes_are_numbers_by_first_appearance(labels: list[int], ascending: bool) -> None:
    given = sorted(labels) if ascending else labels
    numbers = list(dict.fromkeys(given))
    assert replication.codes(given).tolist() == [numbers.index(label) for label in given]
