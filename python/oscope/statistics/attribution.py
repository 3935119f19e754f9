"""Why it varied: which covariates go with the slow samples, and the share of the variance of each.

The model is linear, since a delay adds to a cost. Covariates that go together are one group, which enters
with its member that goes most with the metric. Groups enter step by step: of those that add to the ones
already entered, beyond what flipping the signs of the blocks' scores gives the best of all candidates (a wild
cluster score test with the smallest p of Westfall and Young 1993), the one that adds most. So no group
masks another. The shares come from a fit of the entered covariates only: the mean gain in R² over all orders
of entry (Lindeman, Merenda and Gold 1980; the Shapley value of R²), less what noise would gain. A covariate
that another brings about (`oscope.statistics.candidates.TRACES`) enters after it. What differs
between processes beyond that is a variance component of the remainder. Going together is not yet causing: the
sentences say "goes with".

A few extreme samples can hold most of the variance, and a share of it would then rest on them alone. So the
most extreme ones (`RARE`, and `RARE_SHARE` of all) are drawn in to the next, the shares are of the variance
that is left, `Attribution.extreme` says how much that took off, and the extreme ones are listed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from oscope import digits
from oscope.samples import Floats, Ints
from oscope.statistics import replication
from oscope.statistics.candidates import candidates, follows, origins_first, own_time_ns
from oscope.statistics.decomposition import Moments, collinear_groups, moments, shapley
from oscope.statistics.entering import LEAST_SHARE, LEVEL, enter
from oscope.statistics.slow import SlowSample, slow_samples

FEWEST_SAMPLES = 50
MOST_SAMPLES = 20_000
OWN = "own CPU time"
"""What `Attribution.own` is called among the causes."""
LEAST_EXTREME = 0.1
"""The sentence tells of extreme samples that hold at least this share of the variance."""

RARE = 5
RARE_SHARE = 0.01
"""Values beyond the fifth largest (and fifth smallest), and 1 % more, are drawn in: fewer samples are no
evidence, and a host that takes a processor for a while now and then makes the most of a variance by them."""

FEWEST_CLUSTERS = 20
RESAMPLES = 400


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

    def ranked(self) -> list[tuple[tuple[str, ...], float]]:
        """Return what the variation goes with, by its names, and its share, the largest first; with `OWN`."""
        told = [(cause.names, cause.share) for cause in self.causes]
        if self.own >= LEAST_SHARE:
            told.append(((OWN,), self.own))
        return sorted(told, key=lambda pair: -pair[1])


def attribute(
    values: npt.ArrayLike,
    covariates: Mapping[str, npt.ArrayLike],
    block: npt.ArrayLike,
    *,
    started_ns: npt.ArrayLike | None = None,
    duration_ns: npt.ArrayLike | None = None,
    is_rate: bool = False,
    seed: int = 0,
) -> Attribution:
    """Attribute the variation of `values`, in the order taken, to covariates, processes and drift.

    Drift is looked at only with `started_ns`; `duration_ns` is how long each repetition took in all (see
    `oscope.statistics.candidates`). `MEASURED_TIME`, constant and mostly missing covariates are left out;
    more than `MOST_SAMPLES` are thinned evenly. Equal input gives equal output. Of a rate, such as a
    throughput, the reciprocal is explained, since delays add to the time; directions are still the rate's.
    """
    everything = np.asarray(values, dtype=float)
    finite = np.isfinite(everything)
    told = everything[finite]
    turned = is_rate and bool((told > 0).all())
    data = 1 / told if turned else told
    about = {name: np.asarray(column, dtype=float)[finite] for name, column in covariates.items()}
    started, duration = (
        None if each is None else np.asarray(each, dtype=float)[finite] for each in (started_ns, duration_ns)
    )
    plain = {name: forms[0] for name, forms in candidates(about, None, duration).items()}
    slow = slow_samples(data, plain, told, np.flatnonzero(finite))
    if len(data) < FEWEST_SAMPLES or np.ptp(data) == 0:
        why = (
            "the values do not vary"
            if len(data) >= FEWEST_SAMPLES
            else (f"{len(data)} samples are not enough to say why they vary; {FEWEST_SAMPLES} are needed")
        )
        nan = float("nan")
        enough = len(data) >= FEWEST_SAMPLES
        return Attribution(len(data), enough, (), nan, nan, nan, slow, f"No cause named: {why}.")
    chosen = np.linspace(0, len(data) - 1, min(len(data), MOST_SAMPLES)).astype(int)
    drawn_in = _drawn_in(data[chosen])
    thin = _formed(drawn_in, candidates(about, started, duration), chosen)
    extreme = 1.0 - float(np.var(drawn_in) / np.var(data[chosen])) if np.ptp(data[chosen]) else 0.0
    causes = _causes(drawn_in, thin, replication.codes(np.asarray(block)[finite][chosen]), seed)
    causes = tuple(_turned(cause) for cause in causes) if turned else causes
    unexplained = max(0.0, 1.0 - sum(cause.share for cause in causes))
    ran = own_time_ns(about, duration)
    own = _own(drawn_in, thin, causes, None if ran is None else ran[chosen]) * unexplained
    sentence = _verdict(causes, unexplained, extreme)
    return Attribution(len(data), True, causes, unexplained, own, extreme, slow, sentence)


def _own(
    data: Floats, given: Mapping[str, Floats], causes: tuple[Cause, ...], ran_ns: Floats | None
) -> float:
    """Return the share of what the causes leave that goes with CPU time; NaN where that is not known.

    Only more CPU time with more of the metric counts.
    """
    spent = None if ran_ns is None else _prepared(ran_ns)
    if spent is None:
        return float("nan")
    design = _stacked([given[cause.name] for cause in causes if cause.name in given], len(data))
    rest, spent = _remainder(_standard(data), design), _remainder(spent, design)
    scale = float(np.sqrt((rest @ rest) * (spent @ spent)))
    return max(0.0, float(rest @ spent) / scale) ** 2 if scale > 0 else float("nan")


def _formed(data: Floats, forms: Mapping[str, list[Floats]], chosen: Ints) -> dict[str, Floats]:
    """Return each candidate that varies, standardised, in the form that goes most with the metric."""
    found = {}
    for name, columns in forms.items():
        varying = [column for raw in columns if (column := _prepared(raw[chosen])) is not None]
        if varying:
            found[name] = max(varying, key=lambda column: abs(float(column @ data)))
    return found


def _causes(data: Floats, columns: Mapping[str, Floats], block_code: Ints, seed: int) -> tuple[Cause, ...]:
    random = np.random.default_rng(seed)
    response = _standard(data)
    groups = [origins_first(group) for group in collinear_groups(columns, response)]
    later = [{i for i, other in enumerate(groups) if follows(other[0], group[0])} for group in groups]
    design = _stacked([columns[group[0]] for group in groups], len(data))
    cluster = _clusters(block_code)
    # Twice, for the two families of tests: covariates and processes.
    p = {j: min(1.0, 2 * each) for j, each in enter(response, design, cluster, later, random).items()}
    while True:
        entered = list(p)
        after = [{entered.index(i) for i in later[j] if i in p} for j in entered]
        share, draws = _shares(moments(response, design[:, entered], cluster, block_code), after, random)
        if not entered or share[:-1].min() >= LEAST_SHARE:
            break
        del p[entered[int(share[:-1].argmin())]]
    causes = [
        _cause(groups[j], _direction(design[:, j], response), _figures(share, draws, i), p[j])
        for i, j in enumerate(entered)
    ]
    process_p = min(1.0, 2 * _process_p(response, design[:, entered], block_code))
    if process_p < LEVEL and share[-1] >= LEAST_SHARE:
        causes.append(_cause(("process",), "differs", _figures(share, draws, -1), process_p))
    return tuple(sorted(causes, key=lambda cause: -cause.share))


def _figures(share: Floats, draws: Floats, place: int) -> tuple[float, float, float]:
    """Return a share with its interval."""
    told = float(share[place])
    low, high = np.quantile(draws[:, place], [0.025, 0.975])
    return told, float(min(low, told)), float(max(high, told))


def _cause(group: tuple[str, ...], direction: str, figures: tuple[float, float, float], p: float) -> Cause:
    return Cause(group[0], group[1:], *figures, direction, p, _sentence(group, direction, figures))


def _turned(cause: Cause) -> Cause:
    """Return a cause of a time as one of its reciprocal."""
    direction = {"more": "less", "less": "more"}.get(cause.direction, cause.direction)
    sentence = _sentence(cause.names, direction, (cause.share, cause.low, cause.high))
    return replace(cause, direction=direction, sentence=sentence)


def _shares(found: Moments, later: list[set[int]], random: np.random.Generator) -> tuple[Floats, Floats]:
    """Return shares (covariates, then process) and their bootstrap draws, less what noise would gain."""
    count = found.clusters
    once = np.ones((1, count))
    drawn = random.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
    estimate = shapley(found, once, later)[0]
    draws = shapley(found, drawn, later)
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
    rare = min(RARE + int(len(values) * RARE_SHARE), len(values) // 4)
    return np.clip(values, ordered[rare - 1], ordered[-rare])


def _standard(values: Floats) -> Floats:
    centred = values - values.mean()
    deviation = float(centred.std())
    return np.asarray(centred / (deviation or 1.0), dtype=float)


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
