"""Levels of replication: which samples are independent of each other, and the effective sample size.

Repetitions of one process share its memory layout, and processes of one boot share the kernel's; so the unit
that may be resampled is the highest level that varied: boot, else process, else the repetition (Kalibera and
Jones, "Rigorous benchmarking in reasonable time", ISMM 2013). Above the boot is the host, where fleets are
compared (see `over_hosts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from oscope.model.samples import Floats, Ints
from oscope.statistics import order

Level = Literal["host", "boot", "process", "repetition"]

UNITS: Mapping[Level, str] = {
    "host": "host",
    "boot": "boot",
    "process": "block",
    "repetition": "repetition",
}
"""What is counted at each level, as comparisons name it."""

PLURAL: Mapping[Level, str] = {
    "host": "hosts",
    "boot": "boots",
    "process": "processes",
    "repetition": "repetitions",
}

MOST_CLUSTERS = 200
"""More clusters than this are joined with their neighbours in time: it costs no validity and bounds time
and memory."""

AUTOCORRELATION_TIMES = 4
"""Length of a batch of repetitions, in autocorrelation times, beyond which batches count as independent."""


@dataclass(frozen=True)
class Clusters:
    """Samples grouped into units that are independent of each other."""

    code: Ints
    """For each sample, the index of its cluster, in order of time, from 0."""
    count: int
    level: Level
    units: int
    """Units seen at `level`, before neighbours were joined."""


def codes(labels: npt.ArrayLike) -> Ints:
    """Return numbers in place of labels, by first appearance: [7, 7, 3] gives [0, 0, 1]."""
    given = np.asarray(labels)
    # Blocks and boots are mostly in the order taken, so that nothing need be sorted.
    if (given[1:] >= given[:-1]).all():
        return np.concatenate((np.zeros(min(len(given), 1), int), np.cumsum(given[1:] != given[:-1])))
    _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def highest_level(block: npt.ArrayLike, boot: npt.ArrayLike | None) -> tuple[Level, Ints]:
    """Return the highest level that varied and the code of each sample's unit at that level."""
    if boot is not None:
        boot_code = codes(boot)
        if len(boot_code) and boot_code.max() > 0:
            return "boot", boot_code
    block_code = codes(block)
    if len(block_code) and block_code.max() > 0:
        return "process", block_code
    return "repetition", np.arange(len(block_code))


def clusters(values: Floats, block: npt.ArrayLike, boot: npt.ArrayLike | None = None) -> Clusters:
    """Group finite `values`, given in order of time, into independent clusters (at most `MOST_CLUSTERS`)."""
    level, code = highest_level(block, boot)
    units = int(code.max()) + 1 if len(code) else 0
    count = min(units, MOST_CLUSTERS)
    if level == "repetition" and units > 2:
        batch = AUTOCORRELATION_TIMES * (autocorrelation_time(values) - 1) + 1
        count = max(2, min(count, int(units / batch)))
    if count and count < units:
        code = code * count // units
    return Clusters(code, count, level, units)


def winsorised(values: Floats) -> Floats:
    """Clip at three interquartile ranges from the quartiles, so that moments are not those of one outlier."""
    low, high = order.quartiles(values)
    fence = 3 * (high - low)
    return values if fence == 0 else np.clip(values, low - fence, high + fence)


def within_blocks(values: Floats, block_code: Ints) -> Floats:
    """Return the values less the mean of their block."""
    size = np.bincount(block_code)
    return values - (np.bincount(block_code, weights=values) / np.maximum(size, 1))[block_code]


def lag_one(values: Floats, block_code: Ints) -> float:
    """Correlation of neighbouring repetitions of the same block; 0 where it cannot be determined."""
    centred = within_blocks(winsorised(values), block_code)
    same = block_code[1:] == block_code[:-1]
    power = float(centred @ centred)
    if not same.any() or power == 0:
        return 0.0
    return float(centred[1:][same] @ centred[:-1][same]) / power


def autocorrelation_time(values: Floats) -> float:
    """Return how many samples equal an independent one: 1 + 2 * (sum of autocorrelations), at least 1.

    The sum ends by Sokal's self-consistent window (lag >= 5 times), as in Monte-Carlo practice; a sum that is
    not beyond its own error counts as none, so that white noise is not widened for nothing.
    """
    count = len(values)
    clipped = winsorised(values)
    centred = clipped - clipped.mean()
    power = float(centred @ centred)
    if count < 10 or power == 0:
        return 1.0
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    correlation = np.fft.irfft(spectrum, size)[: count // 2] / power
    if correlation[1] < 1.64 / np.sqrt(count):
        return 1.0
    times = 2 * np.cumsum(correlation) - 1
    window = np.flatnonzero(np.arange(len(times)) >= 5 * times)
    return float(max(1.0, times[window[0] if len(window) else -1]))


def effective_size(values: Floats, found: Clusters) -> float:
    """Independent samples that would tell the mean as well: the samples' variance over its squared error.

    That error is the one that the clusters show: n / (1 + (m - 1) * rho) with m samples a cluster, Kish's
    design effect (Survey Sampling, 1965, section 5.4), rho being the intra-class correlation by the one-way
    analysis of variance. Samples that are alike within each cluster count as the number of clusters; never
    fewer, and never more than n. Within one process it is n over the autocorrelation time: n (1 - r) / (1 +
    r) where each sample is correlated by r with the last. Correlation from cluster to cluster is not seen.
    """
    count = len(values)
    if found.level == "repetition":
        return count / autocorrelation_time(values)
    clipped = winsorised(values)
    size = np.bincount(found.code, minlength=found.count).astype(float)
    mean = np.bincount(found.code, weights=clipped, minlength=found.count) / size
    between = float(size @ (mean - clipped.mean()) ** 2) / max(found.count - 1, 1)
    spare = count - found.count
    within = float(((clipped - mean[found.code]) ** 2).sum()) / spare if spare else 0.0
    block_size = (count - float(size @ size) / count) / max(found.count - 1, 1)
    total = between + (block_size - 1) * within
    rho = min(1.0, max(0.0, (between - within) / total)) if total > 0 else 0.0
    return max(float(found.count), count / (1 + (block_size - 1) * rho))
