"""The upper tail: the samples beyond the limit at which values are winsorized, and what differs in them.

A cause that slows one sample in a hundred has next to no share in the winsorized variance. So the samples of
the tail are compared with the rest: is a covariate more frequent, or larger, in them? The statistic is the
sum of the tail's ranks within strata of neighbouring blocks (van Elteren 1960); of counts that grow with
time, the sum of what is beyond their expectation. Its null distribution comes from moving the tail within
each stratum: the gaps between its samples are shuffled and all are rotated, so that bursts stay bursts. The
best of all covariates is compared with the best of each such draw (Westfall and Young 1993), which holds the
chance of any false positive at 5 %. The lower tail is not looked at: nothing makes a sample too fast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from oscope.model import formatting
from oscope.model.samples import Floats, Ints
from oscope.statistics import replication
from oscope.statistics.candidates import GROWING, excess_counts
from oscope.statistics.stepwise_selection import LEVEL, best_of_all_p

MOST_DRAWS = 1999
FEWEST_DRAWS = 199
MOST_READS = 40_000_000
"""Values read for all draws at most: it bounds the time to less than a second."""
STRATUM = 20
"""Samples that a stratum has at least; smaller blocks are joined with their neighbours."""
NAMED = 3
"""Covariates in the sentence."""
RARE_IN_REST = 0.5
"""A covariate that is 0 in at least this share of the rest is shown by how many samples have it."""
MOSTLY = 0.5
"""Share of the samples in which a covariate has to be recorded."""

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class TailCause:
    """A covariate that differs between the tail and the rest."""

    name: str
    direction: Literal["more", "less"]
    measure: Literal["share", "median"]
    """Whether `in_tail` and `in_rest` are shares of samples that have it, or medians of the covariate."""
    in_tail: float
    in_rest: float
    having: int
    """Samples of the tail that have it, or in which it is above the rest's median."""
    known: int
    """Samples of the tail in which it was recorded."""
    odds_ratio: float
    """Odds of having it (or of being above the rest's median) in the tail over those in the rest; 0.5 is
    added to each count (Haldane 1956), so that it is finite."""
    p: float
    """Corrected for all covariates that were tested."""


@dataclass(frozen=True)
class Tail:
    """The slowest samples, beyond the winsorizing limit."""

    n: int
    of: int
    limit: float
    """The limit, in the metric's unit; of a rate, the tail is below it."""
    share: float
    """Part of the sum of squares about the mean that these samples make, 0 to 1."""
    samples: tuple[int, ...]
    """Positions in the values given, in order."""
    causes: tuple[TailCause, ...]
    """Covariates that differ beyond chance, the clearest first."""
    sentence: str


@dataclass(frozen=True)
class Measured:
    """What is compared: times, or their like, and what was recorded of each; finite, in the order taken."""

    data: Floats
    reported: Floats
    """The values as reported: of a rate, the reciprocal of `data`."""
    origin: Ints
    """Positions in the values given."""
    raw: Mapping[str, Floats]
    """Covariates as recorded."""
    forms: Mapping[str, Floats]
    """Candidates, in the form in which each may act."""
    duration_ns: Floats | None


def tail_of(given: Measured, limit: float, block_code: Ints, seed: int) -> Tail | None:
    """Describe the samples above `limit`; None if there are none."""
    tail = given.data > limit
    if not tail.any() or tail.all():
        return None
    squares = (given.data - given.data.mean()) ** 2
    share = float(squares[tail].sum() / squares.sum())
    # The most extreme of the rest: of a rate, the lowest.
    rest = np.flatnonzero(~tail)
    edge = float(given.reported[rest[np.argmax(given.data[rest])]])
    causes = _causes(given, tail, block_code, seed)
    sentence = _sentence(int(tail.sum()), len(tail), _beyond(given.reported, edge), share, causes)
    samples = tuple(int(i) for i in given.origin[tail])
    return Tail(len(samples), len(tail), edge, share, samples, causes, sentence)


def _causes(given: Measured, tail: Mask, block_code: Ints, seed: int) -> tuple[TailCause, ...]:
    """Return the covariates that differ beyond chance, the clearest first."""
    expected = GROWING if given.duration_ns is not None else frozenset[str]()
    columns = _columns(given, tail, expected)
    if not columns:
        return ()
    names = sorted(columns)
    order = np.argsort(block_code, kind="stable")
    stratum = _strata(block_code)[order]
    values = np.column_stack([columns[name] for name in names])[order]
    by_rank = [place for place, name in enumerate(names) if name not in expected]
    values[:, by_rank] = _ranked(values[:, by_rank], stratum)
    values = _centred(values, stratum)
    sums = _draws(values, tail[order], stratum, np.random.default_rng([seed, 2]))
    # A count that is below its expectation slows nothing; a rare one is so wherever nothing happened.
    grows = np.array([name in expected for name in names])
    p = best_of_all_p(np.where(grows, np.maximum(sums, 0.0), np.abs(sums)).round(9))
    spread = sums[1:].std(axis=0)
    clear = np.abs(sums[0]) / np.where(spread > 0, spread, np.inf)
    named = sorted(np.flatnonzero((p < LEVEL) & (spread > 0)), key=lambda i: (-clear[i], names[i]))
    return tuple(_cause(given, names[i], tail, float(sums[0, i]), float(p[i])) for i in named)


def _columns(given: Measured, tail: Mask, expected: Collection[str]) -> dict[str, Floats]:
    """Return what is tested of each covariate that varies and is mostly known.

    Of those in `expected`, it is what is beyond their expectation.
    """
    found = {name: column for name, column in given.forms.items() if name in given.raw}
    if given.duration_ns is not None:
        found |= excess_counts(given.raw, found.keys() & set(expected), given.duration_ns)
    return {name: column for name, column in found.items() if _testable(given.raw[name], column, tail)}


def _testable(raw: Floats, column: Floats, tail: Mask) -> bool:
    known = np.isfinite(raw) & np.isfinite(column)
    mostly = known.mean() >= MOSTLY and known[tail].any() and known[~tail].any()
    return bool(mostly) and float(np.ptp(raw[known])) > 0


def _strata(block_code: Ints) -> Ints:
    """Return the stratum of each sample: its block, small ones joined with their neighbours."""
    size = np.bincount(block_code)
    first = np.cumsum(size) - size
    return replication.codes(first // STRATUM)[block_code]


def _ranked(values: Floats, stratum: Ints) -> Floats:
    """Rank each column within each stratum, by shares of its known values; NaN stays."""
    found = np.full(values.shape, np.nan)
    for part in np.split(np.arange(len(values)), np.flatnonzero(np.diff(stratum)) + 1):
        known = np.isfinite(values[part])
        # Unknown values come last and leave the ranks of the others as they are.
        rank = scipy.stats.rankdata(np.where(known, values[part], np.inf), axis=0)
        found[part] = np.where(known, rank / (known.sum(axis=0) + 1), np.nan)
    return found


def _centred(values: Floats, stratum: Ints) -> Floats:
    """Take the mean of the stratum off each column; what is not known becomes 0."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    found = np.zeros_like(filled)
    for column in range(values.shape[1]):
        count = np.bincount(stratum, weights=known[:, column])
        mean = np.bincount(stratum, weights=filled[:, column]) / np.maximum(count, 1)
        found[:, column] = np.where(known[:, column], filled[:, column] - mean[stratum], 0.0)
    return found


def _draws(values: Floats, tail: Mask, stratum: Ints, random: np.random.Generator) -> Floats:
    """Return the sums of `values` over the tail (first row), and over tails moved within their strata."""
    reads = int(tail.sum()) * values.shape[1]
    count = min(MOST_DRAWS, max(FEWEST_DRAWS, MOST_READS // reads))
    sums = np.zeros((1 + count, values.shape[1]))
    sums[0] = values[tail].sum(axis=0)
    for part in np.split(np.arange(len(tail)), np.flatnonzero(np.diff(stratum)) + 1):
        place = np.flatnonzero(tail[part])
        if not len(place):
            continue
        gaps = np.diff(place, append=place[0] + len(part))
        shuffled = random.permuted(np.tile(gaps, (count, 1)), axis=1).cumsum(axis=1)
        moved = (shuffled + random.integers(len(part), size=(count, 1))) % len(part)
        for column in range(values.shape[1]):
            sums[1:, column] += values[part, column][moved].sum(axis=1)
    return sums


def _cause(given: Measured, name: str, tail: Mask, statistic: float, p: float) -> TailCause:
    column = given.raw[name]
    known = np.isfinite(column)
    inside, outside = column[tail & known], column[~tail & known]
    median = float(np.median(outside))
    is_rare = float((outside == 0).mean()) >= RARE_IN_REST and float(outside.min()) >= 0
    has_inside, has_outside = (part > (0 if is_rare else median) for part in (inside, outside))
    odds = [(has.sum() + 0.5) / ((~has).sum() + 0.5) for has in (has_inside, has_outside)]
    return TailCause(
        name,
        "more" if statistic > 0 else "less",
        "share" if is_rare else "median",
        float(has_inside.mean() if is_rare else np.median(inside)),
        float(has_outside.mean() if is_rare else median),
        int(has_inside.sum()),
        len(inside),
        float(odds[0] / odds[1]),
        p,
    )


def _beyond(reported: Floats, edge: float) -> str:
    median = float(np.median(reported))
    if median <= 0 or edge <= 0:
        return f"above {edge:.4g}"
    ratio = edge / median
    if ratio >= 2:
        return f"more than {_plain(ratio)} times the median"
    if ratio <= 0.5:
        return f"below {_plain(100 * ratio)} % of the median"
    side = "above" if edge >= median else "below"
    return f"more than {_plain(100 * abs(ratio - 1))} % {side} the median"


def _sentence(count: int, of: int, beyond: str, share: float, causes: tuple[TailCause, ...]) -> str:
    subject = "sample is" if count == 1 else "samples are"
    holds = "it holds" if count == 1 else "they hold"
    text = f"{count:,} of {of:,} {subject} {beyond}; {holds} {formatting.format_share(share)} of the variance"
    if not causes:
        return f"{text}; no recorded covariate differs in them beyond chance."
    return "; ".join([text, *(_compared(cause) for cause in causes[:NAMED])]) + "."


def _compared(cause: TailCause) -> str:
    if cause.measure == "share":
        rest = formatting.format_share(cause.in_rest)
        return f"{cause.having:,} of {cause.known:,} had {cause.name}, {rest} of the others did"
    return f"the median of {cause.name} is {_plain(cause.in_tail)}, {_plain(cause.in_rest)} in the others"


def _plain(value: float) -> str:
    """Return a number without an exponent: to two digits, or whole."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"
