"""Stepwise selection of covariates: one step at a time, each beyond chance.

The test of each step is a wild cluster score test with the smallest p of Westfall and Young (1993): the signs
of the clusters' scores are flipped at random, and the best of all candidates is compared with their best.
All is computed from sums by cluster (`oscope.statistics.decomposition.products`), so that a test of a part of
the clusters costs the same whatever the number of samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from oscope.model.samples import Floats

MOST_CAUSES = 8
"""Groups that may enter: the shares take 2 to this power fits."""
LEAST_SHARE = 0.01
"""Share of the variance below which nothing is named."""
FLIPS = 1999
LEVEL = 0.05


@dataclass(frozen=True)
class Step:
    """A column that entered, and what it was tested against."""

    column: int
    p: float
    """P of "adds nothing to those before it"; not below that of an earlier step."""
    given: tuple[int, ...]
    """Columns whose effect was taken off first."""
    sign: float
    """1 if the response rises with the column, given the others; -1 if it falls."""
    critical: float
    """The t over all clusters (`cluster_t`) that the column had to exceed in order to enter."""


def enter(products: Floats, later: list[set[int]], random: np.random.Generator) -> list[Step]:
    """Return the columns that enter, in order. `products` are the sums by cluster of [1, columns, response].

    Those that are its traces (`later`) do not count as before it: what a cause brings about must not hide it.
    """
    signs = random.choice([-1.0, 1.0], size=(FLIPS, len(products)))
    steps: list[Step] = []
    width = products.shape[1] - 2
    while len(steps) < min(MOST_CAUSES, width):
        entered = [step.column for step in steps]
        gain, score, before = _scores(products, entered, later)
        sums = np.abs(np.vstack([score.sum(axis=0), signs @ score])).round(9)
        p = best_of_all_p(sums)
        gain[(2 * p >= LEVEL) | (gain < LEAST_SHARE)] = 0.0
        gain[entered] = 0.0
        if not gain.any():
            break
        chosen = int(gain.argmax())
        # A later step cannot be surer than those before it.
        p_of_step = max(float(p[chosen]), *(step.p for step in steps), 0.0)
        critical = _ordinary(min(_critical(sums)[chosen], sums[0, chosen]), len(products))
        sign = float(np.sign(score[:, chosen].sum()))
        steps.append(Step(chosen, p_of_step, before[chosen], sign, critical))
    return steps


def best_of_all_p(sums: Floats) -> Floats:
    """P of each column's statistic (row 0) against its null draws, corrected for the best having been sought.

    The smallest p of all is compared, not the largest statistic, since few blocks make most of a rare cause's
    sum (Westfall and Young 1993).
    """
    alone = _alone(sums)
    smallest = np.sort(alone.min(axis=1))
    return np.asarray(np.searchsorted(smallest, alone[0], side="right") / len(sums), dtype=float)


def cluster_t(products: Floats, step: Step) -> float:
    """Return the t of a step's column in these clusters; positive if its effect has the step's sign.

    It is the mean score over its standard error, both over clusters.
    """
    columns = [0, *(each + 1 for each in (*step.given, step.column)), products.shape[1] - 1]
    part = products[:, columns][:, :, columns]
    count = len(step.given)
    _, score = _scored(part, list(range(count)), [count])
    return step.sign * _ordinary(float(score.sum()), len(products))


def _ordinary(normed: float, count: int) -> float:
    """Turn a sum of scores of length 1 into the usual t.

    The flips' spread has the effect itself in it, so that the sum of `count` scores is at most the root of
    their number; the spread about the mean has not.
    """
    return float(normed / np.sqrt(max(1.0 - normed**2 / count, 1e-9)))


def _alone(sums: Floats) -> Floats:
    """P of each entry among its column."""
    return np.asarray(scipy.stats.rankdata(-sums, method="max", axis=0) / len(sums), dtype=float)


def _critical(sums: Floats) -> Floats:
    """Return what each column's sum has to reach, to be beyond chance at half of `LEVEL`."""
    count = len(sums)
    smallest = np.sort(_alone(sums).min(axis=1))
    at_most = smallest[max(int(np.ceil(LEVEL / 2 * count)) - 2, 0)]
    place = max(int(at_most * count) - 1, 0)
    return np.asarray(-np.sort(-sums, axis=0)[place], dtype=float)


def _scores(
    products: Floats, entered: list[int], later: list[set[int]]
) -> tuple[Floats, Floats, list[tuple[int, ...]]]:
    """Return what each column adds in R² to those before it, its scores by cluster, and those before it.

    The scores have length 1.
    """
    width = products.shape[1] - 2
    gain, score = np.zeros(width), np.zeros((len(products), width))
    before = [tuple(i for i in entered if i not in after) for after in later]
    for given in set(before):
        columns = [j for j, each in enumerate(before) if each == given]
        gain[columns], score[:, columns] = _scored(products, list(given), columns)
    return gain, score, before


def _scored(products: Floats, given: list[int], columns: list[int]) -> tuple[Floats, Floats]:
    """Score columns against the response, after the effect of `given` and of the mean is taken off both."""
    total = products.sum(axis=0)
    base = [0, *(i + 1 for i in given)]
    # Each row takes what `base` explains off one of [1, columns, response].
    residual = np.eye(len(total))
    residual[:, base] -= np.linalg.lstsq(total[np.ix_(base, base)], total[base], rcond=None)[0].T
    rows = residual[[j + 1 for j in columns]]
    power = ((rows @ total) * rows).sum(axis=1)
    score = (products @ residual[-1]) @ rows.T
    left = power > 1e-9 * total[0, 0]
    gain = np.where(left, score.sum(axis=0) ** 2 / np.where(left, power, 1.0), 0.0) / total[0, 0]
    length = np.sqrt((score**2).sum(axis=0))
    return gain, np.where(left & (length > 0), score / np.where(length > 0, length, 1.0), 0.0)
