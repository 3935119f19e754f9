"""The certificate of a machine: the smallest effect that is found there, by the time that is spent measuring.

Found means: with 90 % power, by a test with 5 % false positives. All follows from three figures that pairs
of equal measurements show (`Observed`), for each class of work:

- interleaved: the standard error of the median of the pairs' differences falls with the square root of the
  pairs. Where the trials scatter by more than their own errors say, it is larger by that much.
- duet: as interleaved, but both sides of a pair are measured at the same time, on two CPUs.
- separate runs: the medians of runs differ, though nothing was changed, by a deviation that more time within
  the runs does not lower. It rests on as many runs as the calibration made.

The power is that of Student's t test (noncentral t), which the sign test of the comparison matches for the
distributions seen here; `oscope calibrate` measures it with injected differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import ceil, inf, isfinite, sqrt
from typing import Any

import numpy as np
import scipy

from oscope.analysis.calibration.methods import OSCOPE
from oscope.analysis.calibration.spec import DUET, WAYS
from oscope.analysis.calibration.trials import Observed, Trial
from oscope.model.samples import ExperimentResults
from oscope.statistics import effect
from oscope.statistics.effect import Estimate
from oscope.statistics.estimating import median_of
from oscope.statistics.sides import measure

POWER = 0.9
TIMES_S = (1.0, 10.0, 60.0, 600.0)
"""Measuring times of a curve, both sides together."""
INTERLEAVED = WAYS[0]
FEWEST_PAIRS = 5
FEWEST_RUNS = 3
"""Fewer runs do not show how much runs differ."""
MOST_PAIRS = 10_000_000
"""More are not looked for: they would take days."""


@dataclass(frozen=True)
class Entry:
    """What was found of one class of work."""

    subject: str
    metric: str
    pair_s: float
    """Seconds from one pair of blocks to the next."""
    pair_error: float
    """Relative standard error of the pairs' difference, times the square root of the pairs."""
    block_error: float
    """Relative standard error of the median of a run, times the square root of its blocks."""
    run_deviation: float
    """Relative standard deviation of the medians of separate runs; NaN where there were too few, or one that
    is not above 0."""
    runs: int
    way: str = INTERLEAVED
    """How the pairs were measured: interleaved or duet."""

    @property
    def experiment(self) -> str:
        """Name of the experiment."""
        return self.subject.split(" ", 1)[0]

    @property
    def knows_runs(self) -> bool:
        """Whether it is known how much separate runs differ."""
        return self.runs >= FEWEST_RUNS and isfinite(self.run_deviation)

    def pairs_in(self, seconds: float) -> int:
        """Return how many pairs so much time holds."""
        return int(seconds / self.pair_s)

    def interleaved(self, seconds: float) -> float:
        """Return the smallest relative effect found in so many seconds, both sides together; inf: none.

        Of an entry whose way is duet: by a duet.
        """
        return self._of_pairs(self.pairs_in(seconds))

    def separate(self, seconds: float) -> float:
        """Return the smallest relative effect found between two runs that take so long together."""
        blocks = int(seconds / self.pair_s)
        if not self.knows_runs or blocks < FEWEST_PAIRS:
            return inf
        within, between = self.block_error / sqrt(blocks), self.run_deviation
        return max(_mde(sqrt(2) * within, blocks - 1), _mde(sqrt(2) * between, self.runs - 1))

    def pairs_for(self, effect: float) -> int | None:
        """Return how many pairs find the relative difference `effect`; None: more than days hold."""
        low, high = FEWEST_PAIRS, FEWEST_PAIRS
        while self._of_pairs(high) > effect:
            low, high = high, 2 * high
            if high > MOST_PAIRS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._of_pairs(middle) <= effect else (middle, high)
        return high

    def blocks_for(self, effect: float) -> int | None:
        """Return how many blocks a run needs for separate runs to find `effect`; None: no number does."""
        if not self.knows_runs or _mde(sqrt(2) * self.run_deviation, self.runs - 1) > effect:
            return None
        # Within the run as precise as runs are alike, or as is needed, whichever is less.
        for blocks in (FEWEST_PAIRS, *(ceil(FEWEST_PAIRS * 1.1**step) for step in range(1, 160))):
            if _mde(sqrt(2) * self.block_error / sqrt(blocks), blocks - 1) <= effect:
                return blocks
        return None

    def _of_pairs(self, pairs: int) -> float:
        return _mde(self.pair_error / sqrt(pairs), pairs - 1) if pairs >= FEWEST_PAIRS else inf


def _mde(error: float, dof: float) -> float:
    found = Estimate(0.0, 0.0, 0.0, 1.0, error, dof).detectable(effect.LEVEL, POWER)
    return float(np.expm1(min(found, 700.0)))


def observe(a: ExperimentResults, b: ExperimentResults, *, interleaved: bool) -> Observed | None:
    """Return what a pair with one point each shows; None where a side has too few blocks for it."""
    column = a.metrics[a.headline]
    sides = measure(a.points[0], b.points[0], column)
    if sides is None or min(len(side.value) for side in sides[:2]) < FEWEST_PAIRS:
        return None
    first, second, logarithmic = sides
    scale = 1.0 if logarithmic else abs(first.centre) or 1.0
    own = median_of(a.points[0], column, logarithmic)
    _, at_a, at_b = np.intersect1d(first.unit, second.unit, return_indices=True)
    pairs = len(at_a) if interleaved else 0
    pair_s, pair_error = float("nan"), float("nan")
    if pairs >= FEWEST_PAIRS:
        order = np.argsort(first.time[at_a], kind="stable")
        found = effect.paired((second.value[at_b] - first.value[at_a])[order])
        pair_error = float(found.error) / scale * sqrt(pairs)
        pair_s = float(np.ptp(first.time[at_a])) / (pairs - 1)
    return Observed(
        median=first.median,
        pairs=pairs,
        pair_s=pair_s,
        pair_error=pair_error,
        block_error=float(own.error) / scale * sqrt(len(first.value)),
    )


def entries(trials: Iterable[Trial]) -> tuple[Entry, ...]:
    """Return what trials show of each class of work, the pairs of equal sides."""
    by_subject: dict[tuple[str, str, str], list[tuple[Trial, Observed]]] = {}
    for trial in trials:
        if not trial.effect and trial.observed is not None:
            # Separate runs of one side show what those of interleaved ones do: nothing ran beside them.
            way = DUET if trial.way == DUET else INTERLEAVED
            own = by_subject.setdefault((trial.subject, trial.metric, way), [])
            own.append((trial, trial.observed))
    return tuple(_entries(by_subject))


def _entries(by_subject: Mapping[tuple[str, str, str], list[tuple[Trial, Observed]]]) -> Iterator[Entry]:
    for (subject, metric, way), seen in by_subject.items():
        together = [(trial, one) for trial, one in seen if one.pairs >= FEWEST_PAIRS]
        if not together:
            continue
        error = sqrt(float(np.mean([one.pair_error**2 for _, one in together])))
        medians = np.array([one.median for _, one in seen])
        positive = bool((medians > 0).all())
        deviation = float(np.log(medians).std(ddof=1)) if positive and len(medians) > 1 else float("nan")
        yield Entry(
            subject=subject,
            metric=metric,
            pair_s=float(np.median([one.pair_s for _, one in together])),
            pair_error=error * _excess(together),
            block_error=sqrt(float(np.mean([one.block_error**2 for _, one in seen]))),
            run_deviation=deviation,
            runs=len(medians),
            way=way,
        )


def _excess(trials: Iterable[tuple[Trial, Observed]]) -> float:
    """Return by how much more the trials' differences scatter than their errors say; at least 1.

    It counts only where it is beyond what so few trials show by chance (chi-squared, one-sided 5 %).
    """
    scores = [
        np.log(trial.verdicts[OSCOPE].ratio) * sqrt(one.pairs) / one.pair_error
        for trial, one in trials
        if one.pair_error > 0 and trial.verdicts[OSCOPE].ratio > 0
    ]
    squares = float(np.sum(np.square(scores)))
    by_chance = squares <= scipy.stats.chi2.isf(effect.LEVEL, len(scores)) if scores else True
    return 1.0 if by_chance else float(sqrt(squares / len(scores)))


def to_object(found: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return entries as JSON objects, each with the curve that follows from it (null: nothing is found)."""

    def curve(entry: Entry) -> list[dict[str, float | None]]:
        return [
            {
                "seconds": seconds,
                **{
                    way: detectable if np.isfinite(detectable) else None
                    for way, detectable in (
                        (entry.way, entry.interleaved(seconds)),
                        # Runs that had a partner beside them show nothing of those that have none.
                        *((("separate", entry.separate(seconds)),) if entry.way == INTERLEAVED else ()),
                    )
                },
            }
            for seconds in TIMES_S
        ]

    return [{**asdict(entry), "curve": curve(entry)} for entry in found]


def from_object(data: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
    """Read what `to_object` returned, written and read again."""

    def number(each: Mapping[str, Any], name: str) -> float:
        return float("nan") if each[name] is None else float(each[name])

    return tuple(
        Entry(
            each["subject"],
            each["metric"],
            number(each, "pair_s"),
            number(each, "pair_error"),
            number(each, "block_error"),
            number(each, "run_deviation"),
            each["runs"],
            each.get("way", INTERLEAVED),
        )
        for each in data
    )


def duet_is_better(found: Iterable[Entry], experiment: str, seconds: float) -> bool:
    """Say whether a duet finds a smaller effect in so many seconds than interleaved sides.

    By the worst of the classes of work of this experiment that were measured in both ways; False: none was.
    """
    detectable: dict[str, dict[str, float]] = {DUET: {}, INTERLEAVED: {}}
    for entry in found:
        if entry.experiment == experiment:
            detectable[entry.way][entry.subject] = entry.interleaved(seconds)
    both = detectable[DUET].keys() & detectable[INTERLEAVED].keys()
    return bool(both) and max(detectable[DUET][each] for each in both) < max(
        detectable[INTERLEAVED][each] for each in both
    )


def entry_for(found: Iterable[Entry], experiment: str, way: str = INTERLEAVED) -> tuple[Entry, bool] | None:
    """Return what holds for an experiment, and whether that was measured; else the worst of the others.

    None where nothing was calibrated in this way.
    """
    every = tuple(entry for entry in found if entry.way == way)
    own = [entry for entry in every if entry.experiment == experiment]
    if own:
        return max(own, key=lambda entry: entry.pair_error), True
    if not every:
        return None
    return max(every, key=lambda entry: entry.pair_error), False
