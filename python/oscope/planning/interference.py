"""Which repetitions were affected by others, and are therefore repeated.

A repetition is affected by interference where what others took of its time is more than `MOST_LOST` of what
it measured:

- what the hypervisor took of the CPU (`steal_ticks`);
- where the measured thread is alone in its workload (see `oscope.probe.catalogue.Workload.alone`), the time
  for which it was ready and waited for its CPU (`run_delay_ns`), and `SWITCH_NS` for each time that it was
  taken off it (`involuntary_switches`). Where a workload has other threads, they may be what it waited for.

The covariates are of the whole repetition, with what it prepares outside the measured region. So one may
count as affected whose measured region was not, which costs a further repetition, and nothing else.

No affected sample is left out: dropping samples by what is associated with their cost gives another figure
than the machine's. As many more are taken in the same block as were affected by interference. Whether they
are is decided by samples that are there already, and they are like any other sample of that block. So they
move no mean (Wald's equation: the mean of a sum that stops by what it has seen), and where the interference
has passed meanwhile the block's median is of unaffected samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from oscope.model.factors import Level
from oscope.model.samples import COUNTED, ExperimentResults, Floats
from oscope.planning.plan import Plan, PlannedExperiment, counts_instructions
from oscope.trace.factor import UNTRACED, tracer_of

MANY = 0.2
"""Part of an experiment's samples from which on the first screen reports it."""
ENOUGH = 10
"""Samples of which such a part is no chance."""
MOST_LOST = 0.01
"""Part of the measured time that others may take: beyond it, it is as large as what runs are to find."""

SWITCH_NS = 1e4
"""What it costs to be taken off the CPU once, besides the wait: above all that caches are filled anew, some
µs to 1000 µs by how much is used of them (Li, Ding, Shen, "Quantifying the cost of context switch", 2007)."""

LOST_NS: Mapping[str, float] = {"steal_ticks": 1e7, "run_delay_ns": 1.0, "involuntary_switches": SWITCH_NS}
"""Covariate -> time that one of its unit took."""

WORDS: Mapping[str, str] = {
    "steal_ticks": "the hypervisor took the CPU",
    "run_delay_ns": "the thread waited for its CPU",
    "involuntary_switches": "the thread was taken off its CPU",
}

ANYWHERE = ("steal_ticks",)
"""What shows interference whatever the workload does."""


def telling(plan: Plan, experiment: PlannedExperiment, factors: Mapping[str, Level]) -> tuple[str, ...]:
    """Return the covariates that show whether a repetition at this point was affected by others.

    None where nothing is repeated: where that was not asked for; beside tracers, whose effect is found
    by comparing figures that come about alike; where instructions are counted; where the run has causes that
    disturb the machine on purpose (a delay in the measured region is none).
    """
    if not plan.again or counts_instructions(experiment):
        return ()
    if any(tracer_of(point) != UNTRACED for point in experiment.points):
        return ()
    if plan.injection is not None and plan.injection["causes"]:
        return ()
    return tuple(LOST_NS) if experiment.workload.is_alone(factors) else ANYWHERE


def find(
    covariates: Mapping[str, Floats], duration_ns: Floats, told_by: tuple[str, ...]
) -> tuple[tuple[int, str], ...]:
    """Return the index of each affected repetition, with the covariate that took the most of its time.

    `duration_ns` is what each measured, NaN for those that failed, which are not affected but failed. A
    covariate that is not known took nothing. Of repetitions in a row that share a reading of the covariates,
    which have the very same `counted_ns`, the first stands for all: which one was affected is not known.
    """
    names = [name for name in told_by if name in covariates]
    if not names:
        return ()
    lost = np.nan_to_num(np.stack([covariates[name] * LOST_NS[name] for name in names]))
    affected = lost.sum(axis=0) > MOST_LOST * duration_ns
    if COUNTED in covariates:
        counted = covariates[COUNTED]
        affected[1:] &= counted[1:] != counted[:-1]
    hit = np.flatnonzero(affected)
    return tuple((int(index), names[int(np.argmax(lost[:, index]))]) for index in hit)


def remark(results: ExperimentResults) -> str | None:
    """Return how many samples interference affected and how many were repeated; None where none was."""
    first, of = _affected(results)
    again = sum(len(point.again) for point in results.points)
    if not first and not again:
        return None
    affected_again = sum(len(point.interference) for point in results.points) - first.total()
    by = ", ".join(f"{WORDS[name]}: {count}" for name, count in first.most_common())
    return (
        f"samples affected by interference: {first.total()} of {of} ({by}); repeated: {again}, "
        f"of these affected again: {affected_again}; all are kept, and count"
    )


def warning(results: Sequence[ExperimentResults]) -> str | None:
    """Return in how many experiments interference affected many samples; None where in none."""
    found = [_affected(each) for each in results]
    many = sum(of >= ENOUGH and by.total() >= MANY * of for by, of in found)
    what = f"during {100 * MANY:g} % of the samples or more"
    where = f" in {many} of {len(found)} experiments" if len(found) > 1 else ""
    return f"others took the CPU {what}{where}: repeat it when idle" if many else None


def _affected(results: ExperimentResults) -> tuple[Counter[str], int]:
    """Return how many samples of the plan were affected, by covariate, and how many the plan has."""
    found: Counter[str] = Counter()
    for point in results.points:
        more = set(point.again)
        found.update(name for index, name in point.interference if index not in more)
    return found, sum(len(point) - len(point.again) for point in results.points)
