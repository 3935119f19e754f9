"""Whether processes differ in what the covariates leave of a metric, in all samples and in halves of them."""

from __future__ import annotations

import numpy as np
import scipy

from oscope.model.samples import Floats, Ints
from oscope.statistics import order, replication
from oscope.statistics.splitting import Halves
from oscope.statistics.stepwise_selection import LEVEL


def by_block(half: Halves, cluster: Ints, block_code: Ints) -> Halves:
    """Return the halves by block instead of by cluster of whole blocks."""
    of_block = np.zeros(int(block_code.max()) + 1, dtype=np.int64)
    of_block[block_code] = cluster
    return half[:, of_block]


def batches(remainder: Floats, block_code: Ints) -> tuple[Floats, Ints]:
    """Return the medians of up to four batches of neighbours of each block, and their blocks.

    Batches, not samples, so that autocorrelated repetitions do not pass for differing processes.
    """
    by_block = remainder[np.argsort(block_code, kind="stable")]
    parts = np.split(by_block, np.cumsum(np.bincount(block_code))[:-1])
    groups = [[order.median(batch) for batch in np.array_split(part, min(4, len(part)))] for part in parts]
    return np.concatenate(groups), np.repeat(np.arange(len(parts)), [len(group) for group in groups])


def differing_p(batch: Floats, of_block: Ints) -> float:
    """P of "processes do not differ" in the medians of batches."""
    statistic, degrees = _kruskal(batch, of_block)
    return float(scipy.stats.chi2.sf(statistic, degrees)) if degrees else 1.0


def process_margins(batch: Floats, of_block: Ints, half: Halves) -> Floats:
    """Return by how much each half's statistic exceeds what it has to; `half` is by block.

    With the same differences, its excess over its degrees of freedom grows with the number of blocks.
    """
    blocks = half.shape[1]
    needed = float(scipy.stats.chi2.isf(LEVEL / 2, blocks - 1)) - (blocks - 1)
    found = []
    for each in half:
        chosen = each[of_block]
        statistic, degrees = _kruskal(batch[chosen], of_block[chosen])
        found.append(statistic - degrees - each.mean() * needed)
    return np.array(found)


def _kruskal(values: Floats, group: Ints) -> tuple[float, int]:
    """Return the statistic of Kruskal and Wallis (1952) and its degrees of freedom; 0 if there is no test."""
    label = replication.codes(group)
    groups = int(label.max()) + 1
    if groups < 2 or len(values) <= groups or np.ptp(values) == 0:
        return 0.0, 0
    rank = scipy.stats.rankdata(values)
    centred = np.bincount(label, weights=rank - rank.mean())
    between = float((centred**2 / np.bincount(label)).sum())
    return between / float(np.var(rank, ddof=1)), groups - 1
