"""The original report's four guesses at what makes its times vary, each judged by what was measured here."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oscope.figures import method
from oscope.figures.analysed import Analysed, paired_difference
from oscope.figures.words import excludes_zero, median, share
from oscope.model.document import Table
from oscope.model.formatting import format_value
from oscope.model.samples import ExperimentResults
from oscope.statistics.attribution import Attribution

TIMER = ("timer_interrupts", "interrupts")
CACHES = ("cache_misses",)
NEGLIGIBLE = 0.1
"""Share of the standard deviation below which an offset explains nothing: 1 % of the variance."""


def table(results: Analysed, attributions: Mapping[str, Attribution]) -> Table:
    """Return the four guesses with their answers."""
    rows = [
        ["the counters of the cores are not synchronised", _unsynchronised(results)],
        ["timer interrupts", _covariate(results, attributions, TIMER)],
        ["pipelining", _pipelining(results)],
        ["caches", _covariate(results, attributions, CACHES)],
    ]
    return Table("Four guesses of the original report", ["guess", "what was measured here"], rows)


def _any(results: Analysed) -> ExperimentResults:
    return next(
        each
        for each in reversed(results.experiments)
        if each.experiment in ("process.create", "syscall.cost")
    )


def _unsynchronised(results: Analysed) -> str:
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
        f"({format_value(summary.std, summary.std / 100, 'cycles')}): {small}."
    )


def _covariate(results: Analysed, attributions: Mapping[str, Attribution], names: tuple[str, ...]) -> str:
    """Say how much of the variance is associated with the first of `names` that was recorded."""
    experiments = [
        each for each in results.experiments if each.experiment in ("syscall.cost", "process.create")
    ]
    recorded = [
        name
        for name in names
        if any(
            np.isfinite(point.covariates.get(name, np.zeros(0))).any()
            for each in experiments
            for point in each.points
        )
    ][:1]
    if not recorded:
        return f"Not measured, because {_why(_any(results), names)}."
    judged = {where: found for where, found in attributions.items() if found.enough}
    if not judged:
        return "Not decided: no point has enough samples."
    hits = [
        (cause, where)
        for where, found in judged.items()
        for cause in found.causes
        if set(cause.names) & set(recorded)
    ]
    if not hits:
        return (
            f"No: {recorded[0]} was recorded with each sample; at none of {len(judged)} points is it "
            "associated with the time beyond chance and beyond what other covariates explain."
        )
    strongest, where = max(hits, key=lambda hit: hit[0].share)
    at = len({place for _, place in hits})
    return (
        f"Yes, at {at} of {len(judged)} points; most at “{where}”, where "
        f"{share(strongest.share, strongest.low, strongest.high)} of the variance is associated "
        f"with {strongest.label}."
    )


def _why(experiment: ExperimentResults, names: tuple[str, ...]) -> str:
    counters = (experiment.environment.get("counters") or {}).get("unavailable") or {}
    unavailable = experiment.environment.get("unavailable") or {}
    reasons = [str(where[name]) for name in names for where in (counters, unavailable) if where.get(name)]
    return reasons[0] if reasons else f"this probe does not record {' or '.join(names)}"


def _pipelining(results: Analysed) -> str:
    """Compare single calls, whose serialised readings let nothing overlap, with calls in a loop."""
    cost = results.get("syscall.cost")
    loop, single = (cost.point(call="getppid", style=style) if cost else None for style in ("loop", "single"))
    difference = paired_difference(cost, loop, single, "time_ns") if cost and loop and single else None
    base = results.summary(cost, loop, "time_ns") if cost and loop else None
    if difference is None or base is None or difference.ci95 is None:
        return "Not measured, because getppid was not run both in a loop and by itself."
    kind = (cost.environment.get("clock") or {}).get("kind") if cost else None
    serialised = (
        "The readings are serialised (lfence), so that no call overlaps its own timing. "
        if kind == "tsc"
        else ""
    )
    opening = f"{serialised}Calls in a loop may overlap and single ones may not"
    if not excludes_zero(difference):
        step = difference.resolution
        least = f" beyond half the clock's step of {format_value(step, step / 10, 'ns')}" if step else ""
        found = f"{median(difference, 'ns')} of {median(base, 'ns')}"
        return f"{opening}, but no difference{least} was found: {found}."
    return (
        f"{opening}: getppid by itself differs by {median(difference, 'ns')} from its {median(base, 'ns')} "
        "in a loop. That shifts every call alike and is no source of variation between calls."
    )
