"""Warm-up: whether the first repetitions of a process differ from its others, how many, and by how much.

From 3 processes on, the change point is searched: for each length of a start, its ranks among all repetitions
of the process are summed over the processes and compared with what chance gives (van Elteren's stratified
rank-sum test, 1960), and the length that stands out most is the one reported, if it does after Bonferroni's
correction for all lengths. Processes are independent of each other, so that a start is what they have in
common; repetitions that are correlated with their neighbours make none. With 1 or 2 processes, the start of
the first is compared with what follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from oscope.model.samples import Floats, Ints
from oscope.statistics.multiplicity import bonferroni
from oscope.statistics.ranks import rank_sum

SIGNIFICANT = 0.01
"""Level of the test for a warm-up: it is looked for in every point of every run."""
LEAST = 0.001
"""Share of the rest by which a start must differ to be reported."""
FEWEST_PROCESSES = 3
FEWEST_REPETITIONS = 4
LONGEST = 100
LENGTHS = (5, 10, 20, 50, LONGEST)
"""Of a start, as they are tried in a single process."""


@dataclass(frozen=True)
class Warmup:
    """The first repetitions of a process, which differ from the rest of it."""

    repetitions: int
    change: float
    """By what share of the rest they lie above it (below: negative)."""
    low: float | None
    high: float | None
    """95 % interval of `change`, over the processes; None with one or two."""

    @property
    def note(self) -> str:
        """What is to be reported about it, a sentence."""
        size = 100 * abs(self.change)
        decimals = 0 if size >= 10 else 1 if size >= 1 else 2
        difference = f"{size:.{decimals}f} %"
        if self.low is not None and self.high is not None:
            low, high = sorted((100 * abs(self.low), 100 * abs(self.high)))
            difference += f" [{low:.{decimals}f}, {high:.{decimals}f}]"
        way = "above" if self.change > 0 else "below"
        if self.repetitions == 1:
            return (
                f"The first repetition of a process lies {difference} {way} the others; it is not left out."
            )
        first = f"The first {self.repetitions} repetitions of a process"
        return f"{first} lie {difference} {way} the others; they are not left out."


def find_warmup(values: Floats, block_code: Ints) -> Warmup | None:
    """Return what the first repetitions of the processes have in common; None where that is nothing.

    `values` are finite, in order of time within each process; `block_code` numbers the processes from 0.
    """
    if int(block_code.max()) + 1 < FEWEST_PROCESSES:
        return _first_stretch(values[block_code == 0])
    table = _table(values, block_code)
    repetitions = _change_point(table)
    return _sized(table, repetitions) if repetitions else None


def first_and_later(values: Floats, first: npt.NDArray[np.bool_], block: Ints) -> tuple[Floats, Floats, Ints]:
    """Return the medians of the first and of the later values of each block that has both, and these blocks.

    `first` says which values are first ones. Medians are in the unit of the values.
    """
    both = [(name, first & (block == name), ~first & (block == name)) for name in np.unique(block)]
    kept = [each for each in both if each[1].any() and each[2].any()]
    begin, later = (np.array([np.median(values[each[side]]) for each in kept]) for side in (1, 2))
    return begin, later, np.array([name for name, *_ in kept], dtype=np.int64)


def _table(values: Floats, block_code: Ints) -> Floats:
    """Return the repetitions that all processes have, a row each, but of those that ended far too early."""
    size = np.bincount(block_code)
    # Not by the longest: points are repeated after interference, which makes a process longer than planned.
    whole = np.flatnonzero(2 * size >= np.median(size))
    count = int(size[whole].min())
    by_block = np.argsort(block_code, kind="stable")
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    return values[by_block[start[whole][:, None] + np.arange(count)]]


def _change_point(table: Floats) -> int:
    """Return after how many repetitions the start ends; 0 where there is none."""
    processes, count = table.shape
    if processes < FEWEST_PROCESSES or count < FEWEST_REPETITIONS:
        return 0
    # A start longer than a quarter would rather be a drift; but 2 repetitions of few must be found.
    lengths = np.arange(1, min(max(count // 4, 2), LONGEST) + 1)
    # Equal values share their mean rank, or else the order of time would be taken for theirs.
    ranks = np.cumsum(scipy.stats.rankdata(table, axis=1), axis=1)[:, lengths - 1] - lengths * (count + 1) / 2
    # Without the correction for ties, and with a normal tail, which is above that of ranks: both are careful.
    ranks /= np.sqrt(lengths * (count - lengths) * (count + 1) / 12)
    # Repetitions that resemble their neighbours make each process's start vary more than chance would.
    z = np.abs(ranks.sum(axis=0)) / np.sqrt(processes) / np.maximum(ranks.std(axis=0, ddof=1), 1.0)
    best = int(np.argmax(z))
    p = bonferroni(2 * float(scipy.stats.norm.sf(z[best])), len(lengths))
    return int(lengths[best]) if p < SIGNIFICANT else 0


def _sized(table: Floats, repetitions: int) -> Warmup | None:
    """Return how much the start differs; None where that is too little or not proven."""
    first, rest = np.median(table[:, :repetitions], axis=1), np.median(table[:, repetitions:], axis=1)
    logarithmic = min(first.min(), rest.min()) > 0
    if logarithmic:
        each = np.log(first / rest)
    else:
        median = abs(float(np.median(table)))
        if median == 0:
            return None
        each = (first - rest) / median
    half_width = float(scipy.stats.t.ppf(0.975, len(each) - 1) * scipy.stats.sem(each))
    change, low, high = (float(each.mean()) + way * half_width for way in (0, -1, 1))
    if logarithmic:
        change, low, high = (float(np.expm1(one)) for one in (change, low, high))
    if low <= 0 <= high or abs(change) < LEAST:
        return None
    return Warmup(repetitions, change, low, high)


def _first_stretch(values: Floats) -> Warmup | None:
    """Return the start of one series that differs from what follows (Mann-Whitney); None without one."""
    found = 0
    for length in LENGTHS:
        if 8 * length > len(values):
            break
        first, after = values[found:length], values[length : 4 * length]
        if not bonferroni(rank_sum(first, after), len(LENGTHS)) < SIGNIFICANT:
            break
        found = length
    rest = float(np.median(values[found:]))
    if not found or rest == 0:
        return None
    change = (float(np.median(values[:found])) - rest) / abs(rest)
    return Warmup(found, change, None, None) if abs(change) >= LEAST else None
