"""Tests by ranks of two independent samples, which assume no distribution."""

from __future__ import annotations

from collections.abc import Sequence

import scipy

from oscope.model.samples import Floats


def rank_sum(a: Floats | Sequence[float], b: Floats | Sequence[float], *, exact: bool = False) -> float:
    """Return the two-sided p of the rank sum test (Mann and Whitney, Ann. Math. Stat. 18, 1947).

    By default it is exact where a side has 8 values or fewer and none are equal, else by the normal limit;
    with `exact` always, as if none were equal.
    """
    method = "exact" if exact else "auto"
    return float(scipy.stats.mannwhitneyu(a, b, method=method).pvalue)
