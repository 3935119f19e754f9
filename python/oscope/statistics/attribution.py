"""Why it varied: which covariates go with the slow samples, and the share of the variance of each.

The model is linear, since a delay adds to a cost. The share of a covariate is its mean gain in R² over all
orders in which the covariates could enter (Lindeman, Merenda and Gold 1980; the Shapley value of R²), less
what noise would gain. What differs between processes beyond that is a variance component of the remainder. A
covariate is named as a cause only if the sum over a block of covariate x remainder has the same sign in more
blocks than flipping signs by chance would give (a wild cluster score test), corrected by Holm, and its share
is at least `LEAST_SHARE`. Going together is not yet causing: the sentences say "goes with".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from oscope import digits
from oscope.samples import Floats, Ints
from oscope.statistics import replication
from oscope.statistics.decomposition import Moments, moments, shapley
from oscope.statistics.effect import holm

FEWEST_SAMPLES = 50
MOST_SAMPLES = 20_000
MOST_COVARIATES = 8
LEAST_SHARE = 0.01
RARE = 5
"""Values beyond the fifth largest (and fifth smallest, and 0.1 %) are drawn in: fewer samples are no
evidence."""

FEWEST_CLUSTERS = 20
RESAMPLES = 400
FLIPS = 1999
LEVEL = 0.05

SLOW_SAMPLES = 10
SLOW_BEYOND = 3.0
"""A sample is slow if it exceeds the median by so many robust deviations (1.4826 MAD)."""


@dataclass(frozen=True)
class Cause:
    """A covariate that goes with the metric."""

    name: str
    """The covariate, or `process` (differs between processes) or `drift` (changes with time)."""
    share: float
    """Share of the variance, 0 to 1."""
    low: float
    high: float
    """95 % interval of the share, by a bootstrap over blocks."""
    direction: str
    """"more" if the metric rises with the covariate, "less" if it falls, "differs" for processes."""
    p: float
    """Corrected for the number of covariates looked at."""
    sentence: str


@dataclass(frozen=True)
class SlowSample:
    """One of the slowest samples and what was out of the ordinary in it."""

    index: int
    """Position in the values given."""
    value: float
    excess: float
    """Above the median, in the metric's unit."""
    causes: tuple[str, ...]
    """Covariates beyond the 1st or 99th percentile of the ordinary samples, the most extreme first."""


@dataclass(frozen=True)
class Attribution:
    """Which covariates go with the variation of a metric."""

    n: int
    enough: bool
    """False below `FEWEST_SAMPLES` finite samples: then nothing is claimed."""
    causes: tuple[Cause, ...]
    """Largest share first; only those that are claimed."""
    unexplained: float
    """Share of the variance that no named cause accounts for; NaN where there are not enough samples."""
    slow: tuple[SlowSample, ...]
    sentence: str


def attribute(
    values: npt.ArrayLike,
    covariates: Mapping[str, npt.ArrayLike],
    block: npt.ArrayLike,
    *,
    started_ns: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Attribution:
    """Attribute the variation of `values`, in the order taken, to covariates, processes and drift.

    Drift is looked at only with `started_ns`.
    Constant and mostly missing covariates are left out; more than `MOST_SAMPLES` are thinned evenly. Equal
    input gives equal output.
    """
    everything = np.asarray(values, dtype=float)
    finite = np.isfinite(everything)
    data = everything[finite]
    given = {name: np.asarray(column, dtype=float)[finite] for name, column in covariates.items()}
    slow = _slow(data, given, np.flatnonzero(finite))
    if len(data) < FEWEST_SAMPLES or np.ptp(data) == 0:
        why = (
            "the values do not vary"
            if len(data) >= FEWEST_SAMPLES
            else (f"{len(data)} samples are not enough to say why they vary; {FEWEST_SAMPLES} are needed")
        )
        return Attribution(
            len(data), len(data) >= FEWEST_SAMPLES, (), float("nan"), slow, f"No cause named: {why}."
        )
    if started_ns is not None:
        given["drift"] = np.asarray(started_ns, dtype=float)[finite]
    chosen = np.linspace(0, len(data) - 1, min(len(data), MOST_SAMPLES)).astype(int)
    thin = {name: column[chosen] for name, column in given.items()}
    causes = _causes(data[chosen], thin, replication.codes(np.asarray(block)[finite][chosen]), seed)
    unexplained = max(0.0, 1.0 - sum(cause.share for cause in causes))
    return Attribution(len(data), True, causes, unexplained, slow, _verdict(causes, unexplained))


def _causes(data: Floats, given: Mapping[str, Floats], block_code: Ints, seed: int) -> tuple[Cause, ...]:
    random = np.random.default_rng(seed)
    response = _standard(_drawn_in(data))
    columns = {name: column for name, raw in given.items() if (column := _prepared(raw)) is not None}
    names = sorted(columns, key=lambda name: (-abs(float(columns[name] @ response)), name))[:MOST_COVARIATES]
    design = np.column_stack([columns[name] for name in names]) if names else np.zeros((len(data), 0))
    cluster = _clusters(block_code)
    found = moments(response, design, cluster, block_code)
    share, draws = _shares(found, random)
    tests = [_score_p(response, design, j, cluster, random) for j in range(len(names))]
    # All covariates looked at count, also those that the screening dropped.
    raw_p = np.array(
        [*tests, *([1.0] * (len(columns) - len(names))), _process_p(response, design, block_code)]
    )
    corrected = holm(raw_p)[[*range(len(names)), -1]]
    limits = np.quantile(draws, [0.025, 0.975], axis=0)
    causes = []
    for j, name in enumerate([*names, "process"]):
        if corrected[j] >= LEVEL or share[j] < LEAST_SHARE:
            continue
        direction = "differs" if name == "process" else _direction(columns[name], response)
        low, high = min(limits[0, j], share[j]), max(limits[1, j], share[j])
        causes.append(
            Cause(
                name,
                float(share[j]),
                float(low),
                float(high),
                direction,
                float(corrected[j]),
                _sentence(name, direction, (float(share[j]), float(low), float(high))),
            )
        )
    return tuple(sorted(causes, key=lambda cause: -cause.share))


def _shares(found: Moments, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Return shares (covariates, then process) and their bootstrap draws, less what noise would gain."""
    count = found.clusters
    once = np.ones((1, count))
    drawn = random.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
    estimate = shapley(found, once)[0]
    draws = shapley(found, drawn)
    # The bootstrap's own excess over the estimate is what sampling adds to a share (Efron and Tibshirani
    # 1993, 10.6).
    excess = np.maximum(draws.mean(axis=0) - estimate, 0.0)
    return np.maximum(estimate - excess, 0.0), np.maximum(draws - 2 * excess, 0.0)


def _score_p(
    response: Floats, design: Floats, column: int, cluster: Ints, random: np.random.Generator
) -> float:
    """P of "adds nothing to the other covariates", by flipping the signs of the blocks' scores."""
    others = np.column_stack([np.ones(len(response)), np.delete(design, column, axis=1)])
    both = np.column_stack([response, design[:, column]])
    residual = both - others @ np.linalg.lstsq(others, both, rcond=None)[0]
    if float(np.var(residual[:, 1])) < 1e-9:
        return 1.0
    score = np.bincount(cluster, weights=residual[:, 0] * residual[:, 1])
    signs = random.choice([-1.0, 1.0], size=(FLIPS, len(score)))
    beyond = np.abs(signs @ score) >= abs(score.sum()) * (1 - 1e-12)
    return (1 + int(beyond.sum())) / (1 + FLIPS)


def _process_p(response: Floats, design: Floats, block_code: Ints) -> float:
    """P of "processes do not differ" in what the covariates leave, by Kruskal-Wallis over batches.

    Batches of neighbours, not samples, so that autocorrelated repetitions do not pass for differing
    processes.
    """
    blocks = int(block_code.max()) + 1
    if blocks < 2:
        return 1.0
    remainder = _remainder(response, design)
    order = np.argsort(block_code, kind="stable")
    parts = np.split(remainder[order], np.cumsum(np.bincount(block_code))[:-1])
    groups = [
        [float(np.median(batch)) for batch in np.array_split(part, min(4, len(part)))] for part in parts
    ]
    if sum(map(len, groups)) <= blocks:
        return 1.0
    return float(stats.kruskal(*groups).pvalue)


def _remainder(response: Floats, design: Floats) -> Floats:
    full = np.column_stack([np.ones(len(response)), design])
    return np.asarray(response - full @ np.linalg.lstsq(full, response, rcond=None)[0], dtype=float)


def _clusters(block_code: Ints) -> Ints:
    """Blocks, joined to at most `MOST_CLUSTERS`; with too few blocks, stretches of neighbours within them."""
    blocks = int(block_code.max()) + 1
    if blocks >= FEWEST_CLUSTERS:
        count = min(blocks, replication.MOST_CLUSTERS)
        return block_code * count // blocks
    stretches = -(-FEWEST_CLUSTERS // blocks)
    order = np.argsort(block_code, kind="stable")
    size = np.bincount(block_code)
    position = np.empty(len(block_code), dtype=np.int64)
    position[order] = np.arange(len(block_code)) - np.repeat(np.cumsum(size) - size, size)
    return replication.codes(block_code * stretches + position * stretches // size[block_code])


def _prepared(raw: Floats) -> Floats | None:
    """Standardise a covariate, gaps filled by its median; None if it is constant or mostly missing."""
    known = np.isfinite(raw)
    if known.mean() < 0.5:
        return None
    filled = _drawn_in(np.where(known, raw, np.median(raw[known])))
    return _standard(filled) if np.ptp(filled) > 1e-12 * np.abs(filled).max() else None


def _drawn_in(values: Floats) -> Floats:
    ordered = np.sort(values)
    rare = min(RARE + len(values) // 1000, len(values) // 4)
    return np.clip(values, ordered[rare - 1], ordered[-rare])


def _standard(values: Floats) -> Floats:
    centred = values - values.mean()
    deviation = float(centred.std())
    return np.asarray(centred / (deviation or 1.0), dtype=float)


def _slow(data: Floats, given: Mapping[str, Floats], origin: Ints) -> tuple[SlowSample, ...]:
    """List the slowest samples, the slowest first, with the covariates that were extraordinary in them."""
    if len(data) < FEWEST_SAMPLES:
        return ()
    middle = float(np.median(data))
    deviation = float(stats.median_abs_deviation(data, scale="normal"))
    slow = data > middle + SLOW_BEYOND * deviation
    worst = np.argsort(-data, kind="stable")[:SLOW_SAMPLES]
    ordinary = {name: column[~slow & np.isfinite(column)] for name, column in given.items()}
    limits = {
        name: (*np.quantile(c, [0.01, 0.99]), np.median(c), np.std(c))
        for name, c in ordinary.items()
        if len(c)
    }
    listed = []
    for i in worst[slow[worst]]:
        strange = {}
        for name, (low, high, centre, spread) in limits.items():
            x = given[name][i]
            if x < low or x > high:
                strange[name] = abs(x - centre) / spread if spread > 0 else float("inf")
        causes = tuple(sorted(strange, key=lambda name: (-strange[name], name)))
        listed.append(SlowSample(int(origin[i]), float(data[i]), float(data[i]) - middle, causes))
    return tuple(listed)


def _direction(column: Floats, response: Floats) -> str:
    return "more" if float(column @ response) > 0 else "less"


def _sentence(name: str, direction: str, figures: tuple[float, float, float]) -> str:
    share, low, high = (f"{100 * figure:.0f}" for figure in figures)
    amount = f"{share} % of the variance (95 % interval {low} to {high} %)"
    if name == "process":
        return f"Processes differ: {amount}."
    if name == "drift":
        return f"The values drift {'up' if direction == 'more' else 'down'} over the run: {amount}."
    return f"More {name} goes with {direction}: {amount}."


def _verdict(causes: tuple[Cause, ...], unexplained: float) -> str:
    rest = f"{digits.format_share(unexplained, 0.01)} of the variance stays unexplained"
    if not causes:
        return f"No recorded covariate goes with the variation beyond chance; {rest}."
    named = ", ".join(f"{cause.name} ({100 * cause.share:.0f} %)" for cause in causes)
    return f"The variation goes with {named}; {rest}."
