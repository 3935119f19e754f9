"""Which covariates are tried, and enter: one step at a time, each beyond chance.

The test of each step is a wild cluster score test with the smallest p of Westfall and Young (1993): the signs
of the clusters' scores are flipped at random, and the best of all candidates is compared with their best.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from oscope.samples import Floats, Ints

MOST_CAUSES = 8
"""Groups that may enter: the shares take 2 to this power fits."""
LEAST_SHARE = 0.01
"""Share of the variance below which nothing is named."""
FLIPS = 1999
LEVEL = 0.05


def enter(
    response: Floats,
    design: Floats,
    cluster: Ints,
    later: list[set[int]],
    random: np.random.Generator,
) -> dict[int, float]:
    """Return the columns that enter, in order, with their p of "adds nothing to those before it".

    Those that are its traces (`later`) do not count as before it: what a cause brings about must not hide it.
    """
    signs = random.choice([-1.0, 1.0], size=(FLIPS, int(cluster.max()) + 1))
    found: dict[int, float] = {}
    while len(found) < min(MOST_CAUSES, design.shape[1]):
        gain, score = _scores(response, design, list(found), cluster, later)
        p = _best_of_all_p(score, signs)
        gain[(2 * p >= LEVEL) | (gain < LEAST_SHARE)] = 0.0
        gain[list(found)] = 0.0
        if not gain.any():
            break
        chosen = int(gain.argmax())
        # A later step cannot be surer than those before it.
        found[chosen] = max(float(p[chosen]), *found.values(), 0.0)
    return found


def _best_of_all_p(score: Floats, signs: Floats) -> Floats:
    """P of each column's sum of scores, corrected for the best of all columns having been looked for.

    The smallest p of all is compared, not the largest sum, since few blocks make most of a rare cause's sum.
    """
    sums = np.abs(np.vstack([score.sum(axis=0), signs @ score])).round(9)
    alone = stats.rankdata(-sums, method="max", axis=0) / len(sums)
    smallest = np.sort(alone.min(axis=1))
    return np.asarray(np.searchsorted(smallest, alone[0], side="right") / len(sums), dtype=float)


def _scores(
    response: Floats, design: Floats, entered: list[int], cluster: Ints, later: list[set[int]]
) -> tuple[Floats, Floats]:
    """Return what each column adds in R² to those before it, and its scores by cluster, of length 1."""
    gain, score = np.zeros(design.shape[1]), np.zeros((int(cluster.max()) + 1, design.shape[1]))
    before = [tuple(i for i in entered if i not in after) for after in later]
    for given in set(before):
        columns = [j for j, each in enumerate(before) if each == given]
        found = _scored(response, design[:, columns], design[:, given], cluster)
        gain[columns], score[:, columns] = found
    return gain, score


def _scored(response: Floats, columns: Floats, given: Floats, cluster: Ints) -> tuple[Floats, Floats]:
    rows = np.column_stack([response, columns])
    before = np.column_stack([np.ones(len(response)), given])
    rows = rows - before @ np.linalg.lstsq(before, rows, rcond=None)[0]
    power = (rows[:, 1:] ** 2).sum(axis=0)
    product = rows[:, 1:] * rows[:, :1]
    left = power > 1e-9 * len(response)
    gain = np.where(left, product.sum(axis=0) ** 2 / np.where(left, power, 1.0), 0.0) / len(response)
    score = np.column_stack([np.bincount(cluster, weights=each) for each in product.T])
    length = np.sqrt((score**2).sum(axis=0))
    return gain, np.where(left & (length > 0), score / np.where(length > 0, length, 1.0), 0.0)
