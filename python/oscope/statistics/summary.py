"""The summary of one metric at one point: estimators, their interval, and what the samples look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor, log10
from typing import Literal

import numpy as np
import numpy.typing as npt

from oscope.model.clocks import counted
from oscope.model.samples import ExperimentResults, Floats, Ints, PointSamples
from oscope.statistics import interval, order, replication, shape
from oscope.statistics.interrupt_filter import without_interference
from oscope.statistics.replication import Clusters, Level
from oscope.statistics.shape import Drift, Mode
from oscope.statistics.warmup import Warmup, find_warmup

Representative = Literal["median", "mean", "minimum", "modes"]

PERCENTS = (1.0, 5.0, 25.0, 75.0, 90.0, 95.0, 99.0, 99.9)
SAMPLES_BEYOND = 5
"""A percentile is given only if so many samples lie beyond it: p99 from 500 on, p95 from 100, p99.9 from
5000."""

NEARLY_SYMMETRIC = 0.5
"""Skewness (absolute) up to which a distribution counts as symmetric (Bulmer, Principles of Statistics,
1979)."""

UNMEASURED = "failed or unmeasured samples left out."
"""End of the note on samples without a value."""

FEW_OUTLIERS = 0.01
FEWEST_FOR_SHAPE = 10
_NAN = float("nan")


@dataclass(frozen=True)
class Summary:
    """What the samples of one metric at one point say. Values are in its unit; shares run from 0 to 1.

    The median and its interval are there at once. Everything else is computed when it is first asked for.
    """

    n: int
    """Finite values; failed and unmeasured samples are left out and reported in `notes`."""
    median: float
    ci95: tuple[float, float] | None
    """95 % interval of the median; None where nothing was repeated."""
    resolution: float
    """The clock's step in the metric's unit, by which `ci95` is widened; 0 where it is not known."""
    data: Floats = field(compare=False, repr=False)
    """The finite values, in the order taken."""
    code: Ints = field(compare=False, repr=False)
    """The process of each value, numbered from 0 by first appearance."""
    found: Clusters = field(compare=False, repr=False)
    """What was resampled for `ci95`."""
    left_out: int = 0
    """Samples without a finite value."""
    remarks: tuple[str, ...] = ()
    """Notes on how the samples were chosen, for the end of `notes`."""

    @property
    def blocks(self) -> int:
        """Processes that gave values."""
        return int(self.code.max()) + 1 if self.n else 0

    @property
    def level(self) -> Level:
        """The level that was resampled for `ci95`."""
        return self.found.level

    @property
    def mean(self) -> float:
        """NaN without a value, as every figure."""
        if not self.n:
            return _NAN
        # The mean of equal values would round to one beside them.
        return float(self.data.mean()) if np.ptp(self.data) else float(self.data[0])

    @property
    def std(self) -> float | None:
        """Sample standard deviation (n - 1); None below two samples."""
        if self.n < 2:
            return None
        return float(self.data.std(ddof=1)) if np.ptp(self.data) else 0.0

    @property
    def minimum(self) -> float:
        """The least value."""
        return float(self.data.min()) if self.n else _NAN

    @property
    def maximum(self) -> float:
        """The greatest value."""
        return float(self.data.max()) if self.n else _NAN

    @cached_property
    def effective_n(self) -> float:
        """Independent samples that would tell as much (see `replication.effective_size`)."""
        return replication.effective_size(self.data, self.found) if self.n else 0.0

    @cached_property
    def autocorrelation(self) -> float:
        """Lag 1, between repetitions of the same process."""
        return replication.lag_one(self.data, self.code) if self.n else _NAN

    @cached_property
    def skewness(self) -> float:
        """Of the sample, bias left in."""
        return _skewness(self.data) if self.n else _NAN

    @cached_property
    def outliers(self) -> float:
        """Share of outliers (see `shape.outlier_share`)."""
        return shape.outlier_share(self.data, self.resolution) if self.n else _NAN

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        """Peaks that the samples support and the clock can tell apart."""
        if not self.n:
            return ()
        return shape.resolved(shape.modes(self.data, self.effective_n), self.data, self.resolution)

    @cached_property
    def drift(self) -> Drift:
        """Change over the run."""
        return shape.drift(self.data, self.code) if self.n else Drift(_NAN, _NAN, False)

    @cached_property
    def _start(self) -> Warmup | None:
        return find_warmup(self.data, self.code) if self.n else None

    @property
    def warmup(self) -> int:
        """Repetitions at the start of a process that differ from the others; they are not left out."""
        return 0 if self._start is None else self._start.repetitions

    @cached_property
    def percentiles(self) -> Mapping[float, tuple[float, float, float]]:
        """Percent -> (value, low, high), where there are samples enough."""
        return _percentiles(self.data, interval.binned(self.data, self.found)) if self.n else {}

    @property
    def representative(self) -> Representative:
        """The estimator that stands for the cost; `reason` says why."""
        return self._choice[0]

    @property
    def reason(self) -> str:
        """Why `representative` stands for the cost, in one sentence with the figures it rests on."""
        return self._choice[1]

    @cached_property
    def _choice(self) -> tuple[Representative, str]:
        if not self.n:
            return "median", "Nothing was measured."
        return _representative(self.skewness, self.outliers, self.modes, self.n)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the samples and the interval, a sentence each."""
        left_out = (f"{self.left_out} {UNMEASURED}",) if self.left_out else ()
        of_interval = _notes(self) if self.n else ()
        start = () if self._start is None else (self._start.note,)
        return (*left_out, *of_interval, *start, *self.remarks)

    @property
    def ess(self) -> int:
        """`effective_n` as it is shown: to two digits, since few clusters do not tell it better."""
        if self.effective_n < 1:
            return 0
        beyond = max(floor(log10(self.effective_n)) - 1, 0)
        return min(int(round(self.effective_n, -beyond)), self.n)

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width over the median, as `--precision` means it; None where there is none."""
        if self.ci95 is None or not np.isfinite(self.median) or self.median == 0:
            return None
        return (self.ci95[1] - self.ci95[0]) / 2 / abs(self.median)


def summarise_point(experiment: ExperimentResults, point: PointSamples, metric: str) -> Summary:
    """Summarise one metric of a point; its boots count as the highest level when there are several.

    A count of instructions is exact, so that its step widens nothing; what interrupts do to it is reported
    in a note.
    """
    column = experiment.metrics[metric]
    [(kept, tally)] = without_interference(column, point)
    step = 0.0 if counted(column.unit) else experiment.resolution(point, metric)
    found = summarise(kept.metrics[metric], kept.block, boot=kept.boot, seed=experiment.seed, resolution=step)
    if tally is None or tally.note is None:
        return found
    return replace(found, remarks=(f"{tally.note}.",))


def summarise(
    values: npt.ArrayLike,
    block: npt.ArrayLike,
    *,
    boot: npt.ArrayLike | None = None,
    seed: int = 0,
    resolution: float = 0.0,
    kind: interval.Range = "amount",
) -> Summary:
    """Summarise `values`, given in the order taken, whose processes are named by `block` and boots by `boot`.

    `resolution` is the clock's step in the unit of the values: half of it is added to the interval at both
    ends, since repetition does not refine it, and peaks a step or two apart are the clock's. `kind` says
    whether values can be below zero. Without any finite value n is 0 and every figure is NaN.
    """
    everything = np.asarray(values, dtype=float)
    finite = np.isfinite(everything)
    data = everything[finite]
    blocks = replication.codes(np.asarray(block)[finite])
    found = replication.clusters(data, blocks, None if boot is None else np.asarray(boot)[finite])
    limits = interval.median_interval(interval.binned(data, found), seed, kind) if len(data) else None
    return Summary(
        n=len(data),
        median=order.median(data) if len(data) else _NAN,
        ci95=interval.widened(limits, resolution / 2),
        resolution=resolution,
        data=data,
        code=blocks,
        found=found,
        left_out=int((~finite).sum()),
    )


def _skewness(data: Floats) -> float:
    """Sample skewness (bias left in); 0 for constant or few values, where it is not defined.

    As `scipy.stats.skew`, which takes longer to check its arguments than to compute.
    """
    if len(data) < 3 or np.ptp(data) <= 1e-12 * max(abs(float(data[0])), 1e-300):
        return 0.0
    centred = data - data.mean()
    # In units of its largest, or the powers of very small values are 0.
    centred /= np.abs(centred).max()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def _percentiles(data: Floats, bins: interval.Binned) -> dict[float, tuple[float, float, float]]:
    given = {}
    for percent in PERCENTS:
        share = percent / 100
        if len(data) * min(share, 1 - share) < SAMPLES_BEYOND - 1e-9:
            continue
        limits = interval.quantile_interval(bins, share)
        if limits is not None:
            value = float(np.quantile(data, share))
            given[percent] = (value, min(limits[0], value), max(limits[1], value))
    return given


def _representative(
    skewness: float, outliers: float, modes: tuple[Mode, ...], count: int
) -> tuple[Representative, str]:
    """Which value should stand for the cost, and why, in one sentence with the figures it rests on."""
    if count < FEWEST_FOR_SHAPE:
        return (
            "median",
            (
                f"The median: {count} {'sample is' if count == 1 else 'samples are'} too few to judge the "
                "shape, and one outlier moves a mean."
            ),
        )
    if len(modes) > 1:
        places = ", ".join(f"{m.location:.4g} ({m.share:.0%})" for m in modes)
        return (
            "modes",
            f"The modes, each with its share: {len(modes)}, at {places}; the median is that of all together.",
        )
    if abs(skewness) <= NEARLY_SYMMETRIC and outliers <= FEW_OUTLIERS:
        return (
            "mean",
            f"The mean: one mode, skewness {skewness:.2g} and {outliers:.1%} outliers leave it undistorted.",
        )
    return (
        "median",
        (
            f"The median: one mode, but skewness {skewness:.2g} and {outliers:.1%} outliers would pull "
            "the mean; a minimum would hide what a call usually costs."
        ),
    )


def _notes(summary: Summary) -> tuple[str, ...]:
    notes, found, ci95, count = [], summary.found, summary.ci95, summary.n
    if ci95 is None:
        notes.append("One sample: it has no interval.")
    elif found.level == "repetition":
        notes.append("One process: the interval rests on repetitions and does not show how processes differ.")
        if summary.effective_n < 0.8 * count:
            notes.append(
                f"Repetitions are autocorrelated: {count} equal {summary.effective_n:.0f} independent ones; "
                f"the interval resamples {found.count} batches of neighbours."
            )
    elif found.units < interval.SHARES_FROM and ci95[0] < ci95[1]:
        notes.append(
            f"Only {found.units} {replication.PLURAL[found.level]}: the interval is wide for that reason."
        )
    is_few, data, step = found.count < interval.SHARES_FROM, summary.data, summary.resolution
    if ci95 is not None and is_few and (ci95[0] < data.min() - step or ci95[1] > data.max() + step):
        # The range of 4 samples covers the median with a probability of 87.5 % only.
        beyond = (
            f"The interval reaches beyond all samples: it is Student's t over {found.count} medians, "
            "since so few samples often lie on one side of the median."
        )
        notes[-1:] = [" ".join([*notes[-1:], beyond])]
    return tuple(notes)
