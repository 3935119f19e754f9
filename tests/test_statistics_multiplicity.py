"""Corrections for several tests: what has no p is no test."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from oscope.model.samples import Floats
from oscope.statistics.multiplicity import bonferroni, correct, false_discoveries, holm

NAN = float("nan")


def test_the_p_of_no_test_stays_unknown() -> None:
    assert np.isnan(bonferroni(NAN, 3))
    assert [bonferroni(p, 3) for p in (0.0, 0.1, 0.5)] == pytest.approx([0.0, 0.3, 1.0])
    for correction in (holm, false_discoveries):
        assert np.isnan(correction(np.array([NAN, NAN]))).all()
        assert correction(np.array([])).tolist() == []


@pytest.mark.parametrize("correction", [holm, false_discoveries])
def test_what_has_no_p_does_not_enlarge_a_family(correction: Callable[[Floats], Floats]) -> None:
    known = np.array([0.04, 0.001, 0.3])
    corrected = correction(np.array([NAN, *known[:2], NAN, known[2], NAN]))
    assert np.isnan(corrected[[0, 3, 5]]).all()
    assert corrected[[1, 2, 4]].tolist() == correction(known).tolist()


def test_rows_of_a_test_without_p_have_none() -> None:
    p, tests = [NAN, 0.01, 0.02, 0.02], ["unknown", "unknown", "known", "other"]
    for headline in (True, False):
        corrected = correct(p, tests, [headline] * 4, 0)
        assert np.isnan(corrected[:2]).all()
        assert corrected[2:].tolist() == correct(p[2:], tests[2:], [headline] * 2, 0).tolist()
