"""Why it varied: which covariates are associated with the variance of a metric, and the share of each.

The model is linear, since a delay adds to a cost. Collinear covariates are one group, which enters with the
member that is most correlated with the metric. Groups enter step by step: of those that add to the ones
already entered, beyond what flipping the signs of the blocks' scores gives the best of all candidates (a wild
cluster score test with the smallest p of Westfall and Young 1993), the one that adds most. So no group
masks another. The shares come from a fit of the entered covariates only: the mean gain in R² over all orders
of entry (Lindeman, Merenda and Gold 1980; the Shapley value of R²), less what noise would gain, in samples
that did not select the covariate (`oscope.statistics.splitting`). A covariate that another brings about
(`oscope.statistics.candidates.TRACES`) enters after it. What differs between processes beyond that is a
variance component of the remainder; its share is corrected for selection only with `FEWEST_CLUSTERS`
processes. Association is not yet a cause: the sentences say "goes with".

A few extreme samples can hold most of the variance, and a share of it would then rest on them alone. So the
most extreme ones (`RARE`, and `RARE_SHARE` of all) are winsorized: set to the next value. The shares are of
the variance that is left, and `Attribution.extreme` says how much that took off. The samples of the upper
tail are explained by themselves (`Attribution.tail`, `oscope.statistics.tail`), and the slowest are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oscope.model import formatting
from oscope.model.samples import Floats, Ints
from oscope.statistics import replication
from oscope.statistics.candidates import (
    GROWING,
    candidates,
    follows,
    forms_of_a_count,
    origins_first,
    own_time_ns,
)
from oscope.statistics.decomposition import Moments, collinear_groups, moments, products, shapley
from oscope.statistics.processes import batches, by_block, differing_p, process_margins
from oscope.statistics.splitting import Halves, halves, held_out, margins, stability
from oscope.statistics.stepwise_selection import LEAST_SHARE, LEVEL, enter
from oscope.statistics.tail import Measured, Tail, tail_of
from oscope.statistics.tail_samples import SlowSample, slow_samples

FEWEST_SAMPLES = 50
MOST_SAMPLES = 20_000
OWN = "own CPU time"
"""What `Attribution.own` is called among the causes."""
LEAST_EXTREME = 0.1
"""The sentence mentions extreme samples that hold at least this share of the variance."""

RARE = 5
RARE_SHARE = 0.01
"""Values beyond the fifth largest (and fifth smallest), and 1 % more, are winsorized: fewer samples are no
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
    """95 % interval of the share, by a bootstrap over blocks; it allows for the correction for selection."""
    direction: str
    """"more" if the metric rises with the covariate, "less" if it falls, "differs" for processes."""
    p: float
    """Corrected for the number of covariates looked at."""
    sentence: str
    stability: float = float("nan")
    """Share of random halves of the samples that would have named it, had all samples been like them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The covariate and those that cannot be distinguished from it."""
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
    """Share of the variance that winsorizing the few most extreme samples took off, 0 to 1; NaN likewise."""
    slow: tuple[SlowSample, ...]
    sentence: str
    tail: Tail | None = None
    """The samples beyond the upper limit of the values used; None if there are none, or not `enough`."""

    def ranked(self) -> list[tuple[tuple[str, ...], float]]:
        """Return the covariates associated with the variance and their shares, largest first; with `OWN`."""
        shares = [(cause.names, cause.share) for cause in self.causes]
        if self.own >= LEAST_SHARE:
            shares.append(((OWN,), self.own))
        return sorted(shares, key=lambda pair: -pair[1])


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
    `oscope.statistics.candidates`). `NO_CAUSES`, constant and mostly missing covariates are left out;
    more than `MOST_SAMPLES` are thinned evenly. Equal input gives equal output. Of a rate, such as a
    throughput, the reciprocal is explained, since delays add to the time; directions are still the rate's.
    """
    everything = np.asarray(values, dtype=float)
    finite = np.isfinite(everything)
    reported = everything[finite]
    turned = is_rate and bool((reported > 0).all())
    data = 1 / reported if turned else reported
    about = {name: np.asarray(column, dtype=float)[finite] for name, column in covariates.items()}
    started, duration = (
        None if each is None else np.asarray(each, dtype=float)[finite] for each in (started_ns, duration_ns)
    )
    plain = {name: forms[0] for name, forms in candidates(about, None, duration).items()}
    slow = slow_samples(data, plain, reported, np.flatnonzero(finite))
    if len(data) < FEWEST_SAMPLES or np.ptp(data) == 0:
        why = (
            "the values do not vary"
            if len(data) >= FEWEST_SAMPLES
            else f"{_samples(len(data))} not enough to say why they vary; {FEWEST_SAMPLES} are needed"
        )
        nan = float("nan")
        enough = len(data) >= FEWEST_SAMPLES
        return Attribution(len(data), enough, (), nan, nan, nan, slow, f"No cause named: {why}.")
    chosen = np.linspace(0, len(data) - 1, min(len(data), MOST_SAMPLES)).astype(int)
    winsorized = _winsorized(data[chosen])
    thin = _formed(winsorized, candidates(about, started, duration), about, chosen)
    extreme = 1.0 - float(np.var(winsorized) / np.var(data[chosen])) if np.ptp(data[chosen]) else 0.0
    causes = _causes(winsorized, thin, replication.codes(np.asarray(block)[finite][chosen]), seed)
    causes = tuple(_turned(cause) for cause in causes) if turned else causes
    unexplained = max(0.0, 1.0 - sum(cause.share for cause in causes))
    ran = own_time_ns(about, duration)
    own = _own(winsorized, thin, causes, None if ran is None else ran[chosen]) * unexplained
    sentence = _verdict(causes, unexplained, extreme)
    code = replication.codes(np.asarray(block)[finite])
    measured = Measured(data, reported, np.flatnonzero(finite), about, plain, duration)
    tail = tail_of(measured, _limits(data)[1], code, seed)
    return Attribution(len(data), True, causes, unexplained, own, extreme, slow, sentence, tail)


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


def _formed(
    data: Floats, forms: Mapping[str, list[Floats]], about: Mapping[str, Floats], chosen: Ints
) -> dict[str, Floats]:
    """Return each candidate that varies, standardised, in the form that goes most with the metric."""
    found = {}
    for name, columns in forms.items():
        varying = [column for raw in columns if (column := _prepared(raw[chosen])) is not None]
        if name in GROWING:
            varying = forms_of_a_count(varying, _prepared(about[name][chosen]), data)
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
    sums = products(response, design, cluster)
    half = halves(cluster, block_code, np.random.default_rng([seed, 1]))
    steps = enter(sums, later, random)
    beyond = {step.column: margins(sums, step, half) for step in steps}
    while True:
        entered = [step.column for step in steps]
        after = [{entered.index(i) for i in later[j] if i in entered} for j in entered]
        found = moments(response, design[:, entered], cluster, block_code)
        shares = _shares(found, after, half, random)
        share = [shares.corrected(i, beyond[j]) for i, j in enumerate(entered)]
        if not entered or min(share) >= LEAST_SHARE:
            break
        del steps[int(np.argmin(share))]
    causes = [
        # Twice, for the two families of tests: covariates and processes.
        _cause(
            groups[step.column],
            _direction(design[:, step.column], response),
            shares.figures(i, beyond[step.column]),
            min(1.0, 2 * step.p),
        )
        for i, step in enumerate(steps)
    ]
    batch, of_block = batches(_remainder(response, design[:, entered]), block_code)
    process_p = min(1.0, 2 * differing_p(batch, of_block))
    if process_p < LEVEL:
        # Half of a few processes does not show how all of them differ.
        margin = None
        if len(np.unique(block_code)) >= FEWEST_CLUSTERS:
            margin = process_margins(batch, of_block, by_block(half, cluster, block_code))
        figures = shares.figures(-1, margin)
        if figures.share >= LEAST_SHARE:
            causes.append(_cause(("process",), "differs", figures, process_p))
    return tuple(sorted(causes, key=lambda cause: -cause.share))


class _Figures(NamedTuple):
    """A share with its interval, and how many halves of the samples select its covariate."""

    share: float
    low: float
    high: float
    stability: float


def _cause(group: tuple[str, ...], direction: str, figures: _Figures, p: float) -> Cause:
    share, low, high, stable = figures
    sentence = _sentence(group, direction, (share, low, high))
    return Cause(group[0], group[1:], share, low, high, direction, p, sentence, stable)


def _turned(cause: Cause) -> Cause:
    """Return a cause of a time as one of its reciprocal."""
    direction = {"more": "less", "less": "more"}.get(cause.direction, cause.direction)
    sentence = _sentence(cause.names, direction, (cause.share, cause.low, cause.high))
    return replace(cause, direction=direction, sentence=sentence)


@dataclass(frozen=True)
class _Shares:
    """Shares of the covariates, then of the processes, each less what noise would gain."""

    plain: Floats
    """By all samples: too large where they were selected for it."""
    draws: Floats
    """By bootstrap resamples of the clusters."""
    held: Floats
    """By the half that did not select, for each split."""

    def corrected(self, place: int, margin: Floats | None) -> float:
        """Return the share that samples show which did not select the covariate; without margins, `plain`."""
        if margin is None:
            return float(self.plain[place])
        return max(0.0, held_out(self.held[:, place], margin))

    def figures(self, place: int, margin: Floats | None) -> _Figures:
        """Return the corrected share. Its interval holds that of the draws before and after the correction.

        The correction is itself an estimate, and the interval of the draws knows nothing of it.
        """
        share = self.corrected(place, margin)
        moved = np.clip(self.draws[:, place] + share - self.plain[place], 0.0, 1.0)
        ends = [np.quantile(draws, [0.025, 0.975]) for draws in (moved, self.draws[:, place])]
        low, high = np.min(ends), np.max(ends)
        stable = float("nan") if margin is None else stability(margin)
        return _Figures(share, float(min(low, share)), float(max(high, share)), stable)


def _shares(found: Moments, later: list[set[int]], half: Halves, random: np.random.Generator) -> _Shares:
    count = found.clusters
    drawn = random.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
    others = (~half).astype(float)
    every = shapley(found, np.concatenate([np.ones((1, count)), drawn, others]), later)
    estimate, draws, held = every[0], every[1 : RESAMPLES + 1], every[RESAMPLES + 1 :]
    # The bootstrap's own excess over the estimate is what sampling adds to a share (Efron and Tibshirani
    # 1993, 10.6); it is larger where there are fewer samples.
    excess = np.maximum(draws.mean(axis=0) - estimate, 0.0)
    held = held - excess * (count / others.sum(axis=1, keepdims=True))
    return _Shares(np.maximum(estimate - excess, 0.0), np.maximum(draws - 2 * excess, 0.0), held)


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
    filled = _winsorized(np.where(known, raw, np.median(raw[known])))
    return _standard(filled) if np.ptp(filled) > 1e-12 * np.abs(filled).max() else None


def _winsorized(values: Floats) -> Floats:
    return np.clip(values, *_limits(values))


def _limits(values: Floats) -> tuple[float, float]:
    """Return the values beyond which the most extreme on either side are set to these."""
    ordered = np.sort(values)
    rare = min(RARE + int(len(values) * RARE_SHARE), len(values) // 4)
    return float(ordered[rare - 1]), float(ordered[-rare])


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
        companions = f" (with {', '.join(along)})" if along else ""
        return (
            f"The values drift {'up' if direction == 'more' else 'down'} over the run{companions}: {amount}."
        )
    return f"More {_label(name, along)} goes with {direction}, {amount}."


def _verdict(causes: tuple[Cause, ...], unexplained: float, extreme: float) -> str:
    rest = f"{formatting.format_share(unexplained, 0.01)} of the variance stays unexplained"
    if extreme >= LEAST_EXTREME:
        part = formatting.format_share(extreme, 0.01)
        rest += f", not counting the {part} of it that the few most extreme samples make"
    if not causes:
        return f"No recorded covariate is associated with the variance beyond chance; {rest}."
    named = ", ".join(f"{cause.label}: {100 * cause.share:.0f} %" for cause in causes)
    return f"Covariates associated with the variance: {named}; {rest}."


def _samples(count: int) -> str:
    return f"{count} sample is" if count == 1 else f"{count} samples are"
