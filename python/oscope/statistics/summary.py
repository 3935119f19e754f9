"""The summary of one metric at one point: estimators, their interval, and what the samples look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor, log10
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from oscope.model.clocks import counted
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.statistics import interval, replication, shape
from oscope.statistics.interrupt_filter import undisturbed
from oscope.statistics.replication import Clusters, Level
from oscope.statistics.shape import Drift, Mode
from oscope.statistics.warmup import find_warmup

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
_PLURAL: Mapping[Level, str] = {"boot": "boots", "process": "processes", "repetition": "repetitions"}


@dataclass(frozen=True)
class Summary:
    """What the samples of one metric at one point say. Values are in its unit; shares run from 0 to 1."""

    n: int
    """Finite values; failed and unmeasured samples are left out and reported in `notes`."""
    blocks: int
    mean: float
    median: float
    std: float | None
    """Sample standard deviation (n - 1); None below two samples."""
    minimum: float
    maximum: float
    ci95: tuple[float, float] | None
    """95 % interval of the median; None where nothing was repeated."""
    representative: Representative
    """The estimator that stands for the cost; `reason` says why."""
    reason: str
    level: Level
    """The level that was resampled for `ci95`."""
    effective_n: float
    """Independent samples that would tell as much (see `replication.effective_size`)."""
    autocorrelation: float
    """Lag 1, between repetitions of the same process."""
    skewness: float
    outliers: float
    modes: tuple[Mode, ...]
    drift: Drift
    warmup: int
    """Repetitions at the start of a process that differ from the others; they are not left out."""
    percentiles: Mapping[float, tuple[float, float, float]]
    """Percent -> (value, low, high), where there are samples enough."""
    notes: tuple[str, ...]
    resolution: float = 0.0
    """The clock's step in the metric's unit, by which `ci95` is widened; 0 where it is not known."""

    @property
    def worth(self) -> int:
        """`effective_n` as it is shown: to two digits, since few clusters do not tell it better."""
        if self.effective_n < 1:
            return 0
        beyond = max(floor(log10(self.effective_n)) - 1, 0)
        return min(int(round(self.effective_n, -beyond)), self.n)

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width over the median, as `--precision` means it; None where there is none."""
        return relative_half_width(self.median, self.ci95)


@dataclass(frozen=True)
class Middle:
    """The part of a summary that a column of medians shows, in the metric's unit."""

    median: float
    std: float | None
    """Sample standard deviation (n - 1); None below two samples."""
    ci95: tuple[float, float] | None
    """95 % interval of the median; None where nothing was repeated."""


def relative_half_width(median: float, ci95: interval.Interval | None) -> float | None:
    """Return half the interval's width over the median, or None where there is none."""
    if ci95 is None or not np.isfinite(median) or median == 0:
        return None
    return (ci95[1] - ci95[0]) / 2 / abs(median)


def summarise_point(experiment: ExperimentResults, point: PointSamples, metric: str) -> Summary:
    """Summarise one metric of a point; its boots count as the highest level when there are several.

    A count of instructions is exact, so that its step widens nothing; what interrupts do to it is reported
    in a note.
    """
    column = experiment.metrics[metric]
    [(kept, tally)] = undisturbed(column, point)
    step = 0.0 if counted(column.unit) else experiment.resolution(point, metric)
    found = summarise(kept.metrics[metric], kept.block, boot=kept.boot, seed=experiment.seed, resolution=step)
    if tally is None or tally.note is None:
        return found
    return replace(found, notes=(*found.notes, f"{tally.note}."))


def median_of_point(
    experiment: ExperimentResults, point: PointSamples, metric: str
) -> tuple[int, float, interval.Interval | None]:
    """Return n, the median and its 95 % interval as `summarise_point` has them, in a tenth of the time."""
    data, middle = _middle(experiment, point, metric)
    return len(data), middle.median, middle.ci95


def middle_of_point(experiment: ExperimentResults, point: PointSamples, metric: str) -> Middle:
    """Return what a column of medians shows, as `summarise_point` has it, in a tenth of the time."""
    return _middle(experiment, point, metric)[1]


def _middle(experiment: ExperimentResults, point: PointSamples, metric: str) -> tuple[Floats, Middle]:
    column = experiment.metrics[metric]
    [(kept, _)] = undisturbed(column, point)
    finite = np.isfinite(kept.metrics[metric])
    data = kept.metrics[metric][finite]
    if not len(data):
        return data, Middle(float("nan"), None, None)
    found = replication.clusters(data, replication.codes(kept.block[finite]), kept.boot[finite])
    step = 0.0 if counted(column.unit) else experiment.resolution(point, metric)
    ci95 = interval.median_interval(interval.binned(data, found), experiment.seed)
    return data, Middle(float(np.median(data)), _deviation(data), interval.widened(ci95, step / 2))


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
    left_out = int((~finite).sum())
    if not len(data):
        return _nothing(left_out)
    blocks = replication.codes(np.asarray(block)[finite])
    boots = None if boot is None else np.asarray(boot)[finite]
    found = replication.clusters(data, blocks, boots)
    effective = replication.effective_size(data, found)
    bins = interval.binned(data, found)
    autocorrelation = replication.lag_one(data, blocks)
    skewness = _skewness(data)
    outliers = shape.outlier_share(data)
    modes = shape.resolved(shape.modes(data, effective), data, resolution)
    start = find_warmup(data, blocks)
    representative, reason = _representative(skewness, outliers, modes, len(data))
    ci95 = interval.widened(interval.median_interval(bins, seed, kind), resolution / 2)
    return Summary(
        n=len(data),
        blocks=int(blocks.max()) + 1,
        # The mean of equal values would round to one beside them.
        mean=float(data.mean()) if np.ptp(data) else float(data[0]),
        median=float(np.median(data)),
        std=_deviation(data),
        minimum=float(data.min()),
        maximum=float(data.max()),
        ci95=ci95,
        representative=representative,
        reason=reason,
        level=found.level,
        effective_n=effective,
        autocorrelation=autocorrelation,
        skewness=skewness,
        outliers=outliers,
        modes=modes,
        drift=shape.drift(data, blocks),
        warmup=0 if start is None else start.repetitions,
        percentiles=_percentiles(data, bins),
        notes=(
            *_notes(found, effective, ci95, (len(data), left_out)),
            *(() if start is None else (start.note,)),
        ),
        resolution=resolution,
    )


def _deviation(data: Floats) -> float | None:
    if len(data) < 2:
        return None
    return float(data.std(ddof=1)) if np.ptp(data) else 0.0


def _skewness(data: Floats) -> float:
    """Sample skewness (bias left in); 0 for constant or few values, where it is not defined.

    As `scipy.stats.skew`, which takes longer to check its arguments than to compute.
    """
    if len(data) < 3 or np.ptp(data) <= 1e-12 * max(abs(float(data[0])), 1e-300):
        return 0.0
    centred = data - data.mean()
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
            f"The median: {count} samples are too few to judge the shape, and one outlier moves a mean.",
        )
    if len(modes) > 1:
        places = ", ".join(f"{m.location:.4g} ({m.share:.0%})" for m in modes)
        return (
            "modes",
            f"The modes, each with its share: {len(modes)}, at {places}; no one value stands for all.",
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


def _notes(
    found: Clusters, effective: float, ci95: interval.Interval | None, counts: tuple[int, int]
) -> tuple[str, ...]:
    notes, (count, left_out) = [], counts
    if left_out:
        notes.append(f"{left_out} {UNMEASURED}")
    if found.level == "repetition":
        notes.append("One process: the interval rests on repetitions and does not show how processes differ.")
        if effective < 0.8 * count:
            notes.append(
                f"Repetitions are autocorrelated: {count} equal {effective:.0f} independent ones; "
                f"the interval resamples {found.count} batches of neighbours."
            )
    elif found.units < interval.SHARES_FROM and ci95 is not None and ci95[0] < ci95[1]:
        notes.append(f"Only {found.units} {_PLURAL[found.level]}: the interval is wide for that reason.")
    return tuple(notes)


def _nothing(left_out: int) -> Summary:
    """Summary of no values at all."""
    nan = float("nan")
    return Summary(
        n=0,
        blocks=0,
        mean=nan,
        median=nan,
        std=None,
        minimum=nan,
        maximum=nan,
        ci95=None,
        representative="median",
        reason="Nothing was measured.",
        level="repetition",
        effective_n=0.0,
        autocorrelation=nan,
        skewness=nan,
        outliers=nan,
        modes=(),
        drift=Drift(nan, nan, False),
        warmup=0,
        percentiles={},
        notes=(f"{left_out} {UNMEASURED}",) if left_out else (),
    )


def load_library() -> None:
    """Load what the summaries need of scipy, which takes half a second: before anything is timed.

    Scipy loads its parts when they are first used.
    """
    _ = (scipy.stats.bootstrap, scipy.signal.find_peaks)
