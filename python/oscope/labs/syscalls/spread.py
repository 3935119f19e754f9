"""How times are distributed, which value stands for them, and what makes them vary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from oscope import questions as q
from oscope.figures import method, variation
from oscope.figures.answer_text import share
from oscope.figures.variation import NAMED, Attributed
from oscope.labs.syscalls.cost import BARE, STYLES, by_style
from oscope.statistics.attribution import FEWEST_SAMPLES, LEAST_EXTREME, Attribution
from oscope.statistics.shape import FEWEST_FOR_MODES
from oscope.statistics.summary import FEWEST_FOR_SHAPE

EXPERIMENTS = ("syscall.cost", "process.create")


def judged_points(results: q.Analysed) -> list[tuple[str, q.Point]]:
    """Return the points whose variation is asked for, by name."""
    found: list[tuple[str, q.Point]] = []
    if cost := q.Run.of(results, "syscall.cost"):
        found += [(point.label(("call", "style")), point) for point in cost.points("time_ns")]
    if create := q.Run.of(results, "process.create"):
        names, order = create.experiment.varied() or ("how",), create.experiment.points
        sides = {who: create.points(f"{who}_ns", how="fork") for who in ("child", "parent")}
        fork = [(f"{each.label(names)}, {who}", each) for who, points in sides.items() for each in points]
        found += sorted(fork, key=lambda row: order.index(row[1].samples))
    return found


# ---- percentiles, modes, tail

PERCENTS = (1.0, 25.0, 75.0, 95.0, 99.0, 99.9)
NAMES = {"child_ns": "fork, child runs", "parent_ns": "fork, parent returns"}

Series = Sequence[tuple[str, q.Point]]


def _spread(results: q.Analysed) -> Mapping[str, Series]:
    cost, create = q.Run.of(results, "syscall.cost"), q.Run.of(results, "process.create")
    calls = cost.points("time_ns", style="single") if cost else []
    fork = [
        (name, point)
        for metric, name in NAMES.items()
        for point in (create.points(metric, how="fork", resident=0)[:1] if create else ())
    ]
    return {"single calls": [(each.level("call"), each) for each in calls], "fork": fork}


def _heaviest(_: q.Run, every: Series) -> str:
    """Say which tail is the heaviest, by the highest percentile that all distributions have."""
    judged = [(name, point.summary) for name, point in every if point.summary.n >= FEWEST_FOR_MODES]
    if not judged:
        return f"Too few samples to say how the times are spread: {FEWEST_FOR_MODES} of a point are needed."
    for percent, rare in ((99.0, "one sample in a hundred"), (95.0, "one sample in twenty")):
        if not all(percent in summary.percentiles and summary.median > 0 for _, summary in judged):
            continue
        name, summary = max(judged, key=lambda each: each[1].percentiles[percent][0] / each[1].median)
        most, low, high = (figure / summary.median for figure in summary.percentiles[percent])
        subject = f"The heaviest tail is that of “{name}”" if len(judged) > 1 else f"“{name}” has a tail"
        # Not rounded by so lopsided an interval: that would leave a bare 1.
        return f"{subject}: {rare} takes {most:.3g} times [{low:.3g}, {high:.3g}] the median or more."
    several = sum(len(summary.modes) > 1 for _, summary in judged)
    return f"{several} of {q.counted(len(judged), 'distribution')} have more than one mode."


def _step(_: q.Run, series: Series) -> str | None:
    step = max(point.summary.resolution for _, point in series)
    if not any(point.summary.resolution > 0.01 * point.summary.median for _, point in series):
        return None
    return (
        f"The clock advances in steps of {q.format_value(step, step / 10, 'ns')} here, so single calls fall "
        "on few values; peaks no more than two steps apart are not counted as modes."
    )


def _figure(what: str, series: Series) -> q.Figure:
    scale = q.shared_scale([point.summary for _, point in series], "ns")
    values = {name: q.measured(each.samples, each.metric)[0] / scale.factor for name, each in series}
    marks = [
        (f"{name}: mode, {q.format_share(mode.share, 0.01)}", mode.location / scale.factor)
        for name, point in series
        if len(point.summary.modes) > 1
        for mode in point.summary.modes
    ]
    dotted = " Dotted: the modes of distributions that have several." if marks else ""
    note = f"A steep rise is a mode; a long flat end is the tail.{dotted}"
    title = f"Distribution of the time of {what}"
    return q.plots.distribution(title, f"time [{scale.unit}]", values, marks=marks, note=note)


def _table(_: q.Run, series: Series) -> q.Table:
    known = {percent for _, point in series for percent in point.summary.percentiles if percent in PERCENTS}
    percents = ["median" if percent == 50 else f"p{percent:g}" for percent in sorted({*known, 50.0})]
    return q.TableOf[tuple[str, q.Point]](
        "Percentiles",
        *q.items(""),
        q.count("n", lambda row: row[1].summary.n),
        q.stat("{}", lambda row: row[1].summary, "ns", "min", *percents, "max"),
        q.text("modes (share)", lambda row: _modes(row[1].summary)),
        note="A percentile is given only where at least 5 samples lie beyond it.",
    ).of(series)


def _modes(summary: q.Summary) -> str:
    if len(summary.modes) < 2:
        return "one" if summary.n >= FEWEST_FOR_MODES else "too few samples"
    text = q.Scale.of(summary.median, q.uncertainty(summary), "ns").with_unit
    return ", ".join(f"{text(mode.location)} ({q.format_share(mode.share, 0.01)})" for mode in summary.modes)


SHAPE = q.Question(
    title="How the times are spread",
    experiment=EXPERIMENTS,
    rows=lambda run: [row for series in _spread(run.results).values() for row in series],
    headline=_heaviest,
    text=_step,
    tables=_table,
    figures=lambda run, _: [_figure(name, found) for name, found in _spread(run.results).items() if found],
    missing=lambda _: "",
)

# ---- which value should represent the cost


def _represents(_: q.Run, rows: Series) -> str:
    judged = [point for _, point in rows if point.summary.n >= FEWEST_FOR_SHAPE]
    if not judged:
        return f"Too few samples to judge the distributions: {FEWEST_FOR_SHAPE} of a point are needed."
    (first, most), *others = Counter(point.summary.representative for point in judged).most_common()
    shown = f"{first} represent" if first == "modes" else f"{first} represents"
    if not others:
        each = "the distribution" if most == 1 else f"each of {most} distributions"
        return f"The {shown} {each}."
    parts = [f"the {shown} {most}", *(f"the {name} {number}" for name, number in others)]
    return f"Of {len(judged)} distributions, {q.listed(parts)}."


ESTIMATOR: q.Question[tuple[str, q.Point]] = q.Question(
    title="Which value stands for the cost",
    experiment=EXPERIMENTS,
    rows=lambda run: [row for row in judged_points(run.results) if not row[1].factors.get("resident", 0)],
    headline=_represents,
    text="The mean is right for a total; it represents one call only where the distribution is symmetric.",
    tables=q.TableOf(
        "The distributions, and what represents them",
        q.text("what", lambda row: row[0]),
        q.count("n", lambda row: row[1].summary.n),
        q.number("skewness", lambda row: row[1].summary.skewness),
        q.text("outliers", lambda row: q.format_share(row[1].summary.outliers, 0.01), numeric=True),
        q.count("modes", lambda row: len(row[1].summary.modes)),
        q.number("autocorrelation", lambda row: row[1].summary.autocorrelation),
        q.text("stands for the cost", lambda row: row[1].summary.representative),
        q.text("why", lambda row: row[1].summary.reason),
        note="Outliers: beyond Tukey's fences, each side by its own half. Autocorrelation: lag 1, in a "
        "process.",
    ),
    missing=lambda _: "",
)

# ---- the original report's four guesses at what makes its times vary

TIMER = ("timer_interrupts", "interrupts")
CACHES = ("cache_misses",)
NEGLIGIBLE = 0.1
"""Share of the standard deviation below which an offset explains nothing: 1 % of the variance."""


def _guesses(results: q.Analysed, attributions: Mapping[str, Attribution]) -> q.Table:
    rows = [
        ["the counters of the cores are not synchronised", _unsynchronised(results)],
        ["timer interrupts", _covariate(results, attributions, TIMER)],
        ["pipelining", _pipelining(results)],
        ["caches", _covariate(results, attributions, CACHES)],
    ]
    return q.Table("Four guesses of the original report", ["guess", "what was measured here"], rows)


def _any(results: q.Analysed) -> q.ExperimentResults:
    return next(each for each in reversed(results.experiments) if each.experiment in EXPERIMENTS)


def _unsynchronised(results: q.Analysed) -> str:
    """Compare the measured offset of the counters with the spread of fork's child, read on two CPUs."""
    experiment = results.get("process.create") or _any(results)
    found = method.offsets(experiment)
    if not found:
        unavailable = experiment.environment.get("unavailable") or {}
        return f"Not measured, because {unavailable.get('tsc_offsets') or 'only one CPU is allowed'}."
    text = f"{method.offsets_text(found)}; the offset is taken off wherever readings on two CPUs are compared"
    fork = experiment.point(how="fork", resident=0)
    summary = results.summary(experiment, fork, "child_cycles") if fork else None
    if summary is None or not summary.std:
        return f"{text}. Whether fork's spread is larger is not measured: there are no cycles of its child."
    part = max(abs(each.ticks) + each.error for each in found) / summary.std
    small = "too little to explain it" if part < NEGLIGIBLE else "not negligible beside it"
    return (
        f"{text}. With its error it is at most {part:.2g} of the standard deviation of fork's child "
        f"({q.format_value(summary.std, summary.std / 100, 'cycles')}): {small}."
    )


def _covariate(results: q.Analysed, attributions: Mapping[str, Attribution], names: tuple[str, ...]) -> str:
    """Say how much of the variance is associated with the first of `names` that was recorded.

    Where it is associated only together with covariates beside `names`, that is no answer, and says so.
    """
    points = [point for name in EXPERIMENTS if (own := results.get(name)) for point in own.points]
    known = {name for point in points for name, found in point.covariates.items() if np.isfinite(found).any()}
    recorded = next((name for name in names if name in known), None)
    if recorded is None:
        return f"Not measured, because {_why(_any(results), names)}."
    judged = {where: found for where, found in attributions.items() if found.enough}
    if not judged:
        return "Not decided: no point has enough samples."
    hits = [(cause, at) for at, found in judged.items() for cause in found.causes if recorded in cause.names]
    if not hits:
        return (
            f"No: {recorded} was recorded with each sample; at none of {len(judged)} points is it associated "
            "with the time beyond chance and beyond what other covariates explain."
        )
    alone = [(cause, at) for cause, at in hits if not {*cause.names} - {*names}]
    strongest, where = max(alone or hits, key=lambda hit: hit[0].share)
    at = len({place for _, place in alone or hits})
    verdict = "Yes" if alone else "Not separable from other covariates"
    return (
        f"{verdict}, at {at} of {len(judged)} points; most at “{where}”, where "
        f"{share(strongest.share, strongest.low, strongest.high)} of the variance is associated "
        f"with {strongest.label}."
    )


def _why(experiment: q.ExperimentResults, names: tuple[str, ...]) -> str:
    counters = (experiment.environment.get("counters") or {}).get("unavailable") or {}
    unavailable = experiment.environment.get("unavailable") or {}
    reasons = [str(where[name]) for name in names for where in (counters, unavailable) if where.get(name)]
    return reasons[0] if reasons else f"this probe does not record {' or '.join(names)}"


def _pipelining(results: q.Analysed) -> str:
    """Compare single calls, whose serialised readings let nothing overlap, with calls in a loop."""
    run = q.Run.of(results, "syscall.cost")
    call = next(iter(by_style(run, call=BARE) if run else ()), None)
    difference, base = (call.difference(*STYLES), call.at("loop")) if call else (None, None)
    if difference is None or base is None or difference.ci95 is None:
        return "Not measured, because getppid was not run both in a loop and by itself."
    opening = "Calls in a loop may overlap and single ones, between serialised readings, may not"
    if not q.excludes_zero(difference):
        step = difference.resolution
        least = f" beyond half the clock's step of {q.format_value(step, step / 10, 'ns')}" if step else ""
        found = f"{q.median(difference, 'ns')} of {q.median(base, 'ns')}"
        return f"{opening}, but no difference{least} was found: {found}."
    return (
        f"{opening}: getppid by itself differs by {q.median(difference, 'ns')} from its "
        f"{q.median(base, 'ns')} in a loop, which shifts every call alike and is no source of variation."
    )


# ---- attribution to the recorded covariates


def _largest(run: q.Run, every: Sequence[Attributed]) -> str:
    judged = [each for each in every if each.judged]
    if not judged:
        return f"Too few samples to say what makes the times vary: {FEWEST_SAMPLES} of a point are needed."
    totals = variation.totals(judged)
    rest = variation.mean_unexplained(judged)
    if not totals:
        points = q.counted(len(judged), "point")
        return f"No recorded covariate is associated with the variance beyond chance at any of {points}."
    name, share = next(iter(totals.items()))
    where = f"on average over {len(judged)} points" if len(judged) > 1 else f"at “{judged[0].name}”"
    return (
        f"{q.capital(where)}, {100 * share:.0f} % of the variance is associated with "
        f"{variation.gloss(run.results, name)}; unexplained: {100 * rest:.0f} %."
    )


def _others(_: q.Run, every: Sequence[Attributed]) -> str | None:
    share = 100 * sum(list(variation.totals([each for each in every if each.judged]).values())[1:])
    return f"Associated with other covariates, on average: {share:.0f} %." if round(share) else None


def _thin(_: q.Run, every: Sequence[Attributed]) -> list[str]:
    few = [each.name for each in every if not each.found.enough]
    which = q.listed(few) if len(few) <= NAMED else f"{q.counted(len(few), 'point')} of {len(every)}"
    return [f"Too few samples to judge ({FEWEST_SAMPLES} are needed): {which}."] if few else []


def _extreme(_: q.Run, every: Sequence[Attributed]) -> str | None:
    """Name the points whose shares leave out much of the variance, that of the few most extreme samples."""
    much = [each for each in every if each.found.extreme >= LEAST_EXTREME]
    if not much:
        return None
    most = max(much, key=lambda each: each.found.extreme)
    return (
        f"At {q.counted(len(much), 'point')} of {len(every)} winsorizing cut "
        f"{q.format_share(LEAST_EXTREME)} off the variance or more, most at “{most.name}” "
        f"({q.format_share(most.found.extreme)}): shares are of what is left; the tail is explained apart."
    )


CAUSES: q.Question[Attributed] = q.Question(
    title="What makes the times vary",
    experiment=EXPERIMENTS,
    rows=lambda run: [
        variation.attributed(run.results, point.run.experiment, point.samples, point.metric, name)
        for name, point in judged_points(run.results)
    ],
    headline=_largest,
    text=(
        "Variance is shared among covariates (mean gain in R² over all orders), processes and drift.",
        "Shares are of samples that did not select the covariate, winsorized; association need not be cause.",
        _others,
        _thin,
        _extreme,
    ),
    tables=lambda run, every: [
        _guesses(run.results, {each.name: each.found for each in every}),
        variation.table(every),
        *variation.tails(every),
        *variation.slow(every),
        *variation.glossary(run.results, every),
    ],
    figures=lambda _, every: variation.figure(every),
    missing=lambda _: "",
)
