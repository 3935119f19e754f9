"""Why it varied: which covariates go with the slow samples, and the share of the variance of each.

The model is linear, since a delay adds to a cost. Covariates that go together are one group, which enters
with its member that goes most with the metric. Groups enter step by step: of those that add to the ones
already entered, beyond what flipping the signs of the blocks' scores gives the best of all candidates (a wild
cluster score test with the smallest p of Westfall and Young 1993), the one that adds most. So no group
masks another. The shares come from a fit of the entered covariates only: the mean gain in R² over all orders
of entry (Lindeman, Merenda and Gold 1980; the Shapley value of R²), less what noise would gain. What differs
between processes beyond that is a variance component of the remainder. Going together is not yet causing: the
sentences say "goes with".

A few extreme samples can hold most of the variance, and a share of it would then rest on them alone. So the
values beyond the `RARE` most extreme ones are drawn in to them, the shares are of the variance that is left,
`Attribution.extreme` says how much that took off, and the extreme samples are listed one by one.
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
from oscope.statistics.decomposition import Moments, collinear_groups, moments, shapley

FEWEST_SAMPLES = 50
MOST_SAMPLES = 20_000
MOST_CAUSES = 8
"""Groups that may enter: the shares take 2 to this power fits."""
LEAST_SHARE = 0.01
LEAST_EXTREME = 0.1
"""The sentence tells of extreme samples that hold at least this share of the variance."""

MEASURED_TIME = frozenset({"user_us", "system_us", "cpu_cycles"})
"""The repetition's own time by another clock: it rises with the metric by definition and is no cause.

It does tell where the rest was spent that no cause explains: on the CPU, in what is measured, or not."""
CPU_TIME = ("user_us", "system_us")
INJECTED = "injected_ns"
"""What a run was disturbed by on purpose (see `oscope.injection`): the truth, which is to be found."""

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
    along: tuple[str, ...]
    """Covariates that rise and fall with this one, or against it, so that they cannot be told apart."""
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

    @property
    def names(self) -> tuple[str, ...]:
        """The covariate and those that cannot be told from it."""
        return (self.name, *self.along)

    @property
    def label(self) -> str:
        """The name for lists and tables: "a (with b, c)"."""
        return _label(self.name, self.along)


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
    own: float
    """Part of `unexplained` that goes with the CPU time of the measured code itself: that ran for longer, and
    nothing around it that is recorded says why. NaN where CPU times are not known."""
    extreme: float
    """Share of the variance that drawing in the few most extreme samples took off, 0 to 1; NaN likewise."""
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

    Drift is looked at only with `started_ns`. `MEASURED_TIME`, constant and mostly missing covariates are
    left out; more than `MOST_SAMPLES` are thinned evenly. Equal input gives equal output.
    """
    everything = np.asarray(values, dtype=float)
    finite = np.isfinite(everything)
    data = everything[finite]
    given = {
        name: np.asarray(column, dtype=float)[finite]
        for name, column in covariates.items()
        if name not in MEASURED_TIME and name != INJECTED
    }
    slow = _slow(data, given, np.flatnonzero(finite))
    if len(data) < FEWEST_SAMPLES or np.ptp(data) == 0:
        why = (
            "the values do not vary"
            if len(data) >= FEWEST_SAMPLES
            else (f"{len(data)} samples are not enough to say why they vary; {FEWEST_SAMPLES} are needed")
        )
        nan = float("nan")
        enough = len(data) >= FEWEST_SAMPLES
        return Attribution(len(data), enough, (), nan, nan, nan, slow, f"No cause named: {why}.")
    cpu_time = [np.asarray(covariates[name], dtype=float)[finite] for name in CPU_TIME if name in covariates]
    if started_ns is not None:
        given["drift"] = np.asarray(started_ns, dtype=float)[finite]
    chosen = np.linspace(0, len(data) - 1, min(len(data), MOST_SAMPLES)).astype(int)
    thin = {name: column[chosen] for name, column in given.items()}
    drawn_in = _drawn_in(data[chosen])
    extreme = 1.0 - float(np.var(drawn_in) / np.var(data[chosen])) if np.ptp(data[chosen]) else 0.0
    causes = _causes(drawn_in, thin, replication.codes(np.asarray(block)[finite][chosen]), seed)
    unexplained = max(0.0, 1.0 - sum(cause.share for cause in causes))
    own = _own(drawn_in, thin, causes, [column[chosen] for column in cpu_time]) * unexplained
    sentence = _verdict(causes, unexplained, extreme)
    return Attribution(len(data), True, causes, unexplained, own, extreme, slow, sentence)


def _own(
    data: Floats, given: Mapping[str, Floats], causes: tuple[Cause, ...], cpu_time: list[Floats]
) -> float:
    """Return the share of what the causes leave that goes with CPU time; NaN where that is not known.

    Only more CPU time with more of the metric counts.
    """
    spent = _prepared(np.sum(cpu_time, axis=0)) if len(cpu_time) == len(CPU_TIME) else None
    if spent is None:
        return float("nan")
    named = [_prepared(given[cause.name]) for cause in causes if cause.name in given]
    design = _stacked([column for column in named if column is not None], len(data))
    rest, spent = _remainder(_standard(data), design), _remainder(spent, design)
    scale = float(np.sqrt((rest @ rest) * (spent @ spent)))
    return max(0.0, float(rest @ spent) / scale) ** 2 if scale > 0 else float("nan")


def _causes(data: Floats, given: Mapping[str, Floats], block_code: Ints, seed: int) -> tuple[Cause, ...]:
    random = np.random.default_rng(seed)
    response = _standard(data)
    columns = {name: column for name, raw in given.items() if (column := _prepared(raw)) is not None}
    groups = collinear_groups(columns, response)
    design = _stacked([columns[group[0]] for group in groups], len(data))
    cluster = _clusters(block_code)
    # Twice, for the two families of tests: covariates and processes.
    p = {j: min(1.0, 2 * each) for j, each in _entered(response, design, cluster, random).items()}
    while True:
        entered = list(p)
        share, draws = _shares(moments(response, design[:, entered], cluster, block_code), random)
        if not entered or share[:-1].min() >= LEAST_SHARE:
            break
        del p[entered[int(share[:-1].argmin())]]
    limits = np.quantile(draws, [0.025, 0.975], axis=0)
    figures = [
        (float(share[i]), float(min(limits[0, i], share[i])), float(max(limits[1, i], share[i])))
        for i in range(len(share))
    ]
    causes = [
        _cause(groups[j], _direction(design[:, j], response), figures[i], p[j]) for i, j in enumerate(entered)
    ]
    process_p = min(1.0, 2 * _process_p(response, design[:, entered], block_code))
    if process_p < LEVEL and share[-1] >= LEAST_SHARE:
        causes.append(_cause(("process",), "differs", figures[-1], process_p))
    return tuple(sorted(causes, key=lambda cause: -cause.share))


def _cause(group: tuple[str, ...], direction: str, figures: tuple[float, float, float], p: float) -> Cause:
    return Cause(group[0], group[1:], *figures, direction, p, _sentence(group, direction, figures))


def _entered(
    response: Floats, design: Floats, cluster: Ints, random: np.random.Generator
) -> dict[int, float]:
    """Return the columns that enter, in order, with their p of "adds nothing to those before it"."""
    signs = random.choice([-1.0, 1.0], size=(FLIPS, int(cluster.max()) + 1))
    entered: dict[int, float] = {}
    while len(entered) < min(MOST_CAUSES, design.shape[1]):
        gain, score = _scores(response, design, list(entered), cluster)
        p = _best_of_all_p(score, signs)
        gain[(2 * p >= LEVEL) | (gain < LEAST_SHARE)] = 0.0
        gain[list(entered)] = 0.0
        if not gain.any():
            break
        chosen = int(gain.argmax())
        # A later step cannot be surer than those before it.
        entered[chosen] = max(float(p[chosen]), *entered.values(), 0.0)
    return entered


def _best_of_all_p(score: Floats, signs: Floats) -> Floats:
    """P of each column's sum of scores, corrected for the best of all columns having been looked for.

    The smallest p of all is compared, not the largest sum, since few blocks make most of a rare cause's sum.
    """
    sums = np.abs(np.vstack([score.sum(axis=0), signs @ score])).round(9)
    alone = stats.rankdata(-sums, method="max", axis=0) / len(sums)
    smallest = np.sort(alone.min(axis=1))
    return np.asarray(np.searchsorted(smallest, alone[0], side="right") / len(sums), dtype=float)


def _scores(response: Floats, design: Floats, entered: list[int], cluster: Ints) -> tuple[Floats, Floats]:
    """Return what each column adds in R² to those entered, and its scores by cluster, of length 1 in all."""
    count = design.shape[1]
    rows = np.column_stack([response, design])
    before = np.column_stack([np.ones(len(response)), design[:, entered]])
    rows = rows - before @ np.linalg.lstsq(before, rows, rcond=None)[0]
    power = (rows[:, 1:] ** 2).sum(axis=0)
    product = rows[:, 1:] * rows[:, :1]
    left = power > 1e-9 * len(response)
    gain = np.where(left, product.sum(axis=0) ** 2 / np.where(left, power, 1.0), 0.0) / len(response)
    score = np.column_stack([np.bincount(cluster, weights=product[:, j]) for j in range(count)])
    length = np.sqrt((score**2).sum(axis=0))
    return gain, np.where(left & (length > 0), score / np.where(length > 0, length, 1.0), 0.0)


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


def _stacked(columns: list[Floats], count: int) -> Floats:
    return np.column_stack(columns) if columns else np.zeros((count, 0))


def _direction(column: Floats, response: Floats) -> str:
    return "more" if float(column @ response) > 0 else "less"


def _label(name: str, along: tuple[str, ...]) -> str:
    return f"{name} (with {', '.join(along)})" if along else name


def _sentence(group: tuple[str, ...], direction: str, figures: tuple[float, float, float]) -> str:
    share, low, high = (f"{100 * figure:.0f}" for figure in figures)
    amount = f"{share} % of the variance (95 % interval {low} to {high} %)"
    name, along = group[0], group[1:]
    if along:
        amount += ": they cannot be told apart in this run"
    if name == "process":
        return f"Processes differ: {amount}."
    if name == "drift":
        told = f" (with {', '.join(along)})" if along else ""
        return f"The values drift {'up' if direction == 'more' else 'down'} over the run{told}: {amount}."
    return f"More {_label(name, along)} goes with {direction}, {amount}."


def _verdict(causes: tuple[Cause, ...], unexplained: float, extreme: float) -> str:
    rest = f"{digits.format_share(unexplained, 0.01)} of the variance stays unexplained"
    if extreme >= LEAST_EXTREME:
        part = digits.format_share(extreme, 0.01)
        rest += f", not counting the {part} of it that the few most extreme samples make"
    if not causes:
        return f"No recorded covariate goes with the variation beyond chance; {rest}."
    named = ", ".join(f"{cause.label}: {100 * cause.share:.0f} %" for cause in causes)
    return f"The variation goes with {named}; {rest}."
