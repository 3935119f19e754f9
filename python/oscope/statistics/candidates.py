"""What of each covariate may be a cause, before it is tried against the metric, and what comes along.

A repetition that is slow for a reason of its own has more timer ticks and sees more of its neighbours' work,
since it lasts longer. So a count that goes on by itself (`GROWING`) is taken by its rate, and ticks
(`TICKING`) also by how many are more than usual in that time. What is looked at only for a moment, or counted
in coarse steps (`SOUNDINGS`), is noisy, while the load that it shows lasts: it is averaged over a short
time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import scipy

from oscope.model.samples import COUNTED, Floats
from oscope.statistics.core_clock import CORE_LOADS

MEASURED_TIME = frozenset({"user_us", "system_us", "cpu_cycles", COUNTED})
"""The repetition's own time by another clock: it rises with the metric by definition and is no cause.

It does tell where the rest was spent that no cause explains: on the CPU, in what is measured, or not."""
NO_CAUSES = MEASURED_TIME | {CORE_LOADS}
"""What is left out: how long a load takes that waits for nobody is slowed down by the same causes."""
INJECTED = "injected_ns"
"""The interference injected into a run (see `oscope.runner.injection`): the truth, which is to be found."""

GROWING = frozenset(
    {
        "interrupts",
        "timer_interrupts",
        "reschedule_interrupts",
        "device_interrupts",
        "steal_ticks",
        "neighbour_ns",
        "memory_pressure_us",
        "io_pressure_us",
    }
)
"""Counts of a CPU or of the machine, which grow while the repetition lasts."""

TICKING = frozenset({"timer_interrupts"})
"""Which of these go on evenly. Each that comes in addition takes as long, whatever else a repetition does."""

SOUNDINGS = frozenset({"memory_wait_ns", "runnable_others", "neighbour_ns"})
AROUND_NS = 50e6
"""A sounding is averaged with those begun so long before and after it. Loads that matter last longer."""
BEYOND = 3.0
"""A sounding further from the median than so many robust deviations is winsorized."""

MOST_BESIDE = 0.2
"""Part of the measured time that what is counted besides may be, where a wait is taken off it."""

_OFF_THE_CPU = ("involuntary_switches", "run_delay_ns", "reschedule_interrupts", "interrupts")
_FOR_INPUT = (
    "voluntary_switches",
    "io_pressure_us",
    "minor_faults",
    "memory_wait_ns",
    "neighbour_ns",
    "runnable_others",
    "device_interrupts",
    *_OFF_THE_CPU,
)
TRACES: Mapping[str, tuple[str, ...]] = {
    # A running thread is moved by one that takes its CPU (migration_cpu_stop, kernel/sched/core.c).
    "migrations": ("cpu", "cpu_changed", *_OFF_THE_CPU),
    # Who reads from a device sleeps until its interrupt, and waits for a CPU; the pages evict others' lines.
    "block_inputs": _FOR_INPUT,
    "major_faults": _FOR_INPUT,
    # Kinds of interrupts are parts of their sum. The sounding of the memory is interrupted as anything else.
    "timer_interrupts": ("interrupts", "memory_wait_ns"),
    "device_interrupts": ("interrupts",),
    "reschedule_interrupts": ("interrupts",),
    # Neighbours that load the memory run. That they run does not show by which way they act.
    "memory_wait_ns": ("runnable_others", "neighbour_ns"),
    # Who works with a thread of another CPU sleeps until that has run, and is woken by its interrupt. And a
    # thread is taken off its CPU where another one is ready to run.
    "runnable_others": ("voluntary_switches", "involuntary_switches", "reschedule_interrupts"),
    "neighbour_ns": ("voluntary_switches", "reschedule_interrupts"),
}
"""What comes along with a covariate wherever that is the cause, by how the kernel works."""


def follows(trace: str, origin: str) -> bool:
    """Say whether `trace` is what `origin` brings about, and not the other way round."""
    return trace in TRACES.get(origin, ()) and origin not in TRACES.get(trace, ())


def origins_first(group: tuple[str, ...]) -> tuple[str, ...]:
    """Put the members that are a trace of another one last; else the order stays."""
    return tuple(sorted(group, key=lambda name: any(follows(name, other) for other in group)))


def candidates(
    covariates: Mapping[str, Floats], started_ns: Floats | None, duration_ns: Floats | None
) -> dict[str, list[Floats]]:
    """Return what may be a cause, each in the forms in which it may act: as it is, averaged, or by its trace.

    The rates need `duration_ns`, the averages `started_ns`, which is itself the candidate `drift`.
    """
    found = {
        name: [column] for name, column in covariates.items() if name not in NO_CAUSES and name != INJECTED
    }
    if duration_ns is not None:
        time = counted_time_ns(covariates, duration_ns)
        found |= {name: [_rate(covariates[name], time)] for name in GROWING & found.keys()}
        for name in TICKING & found.keys():
            found[name].append(_more_than_usual(covariates[name], time))
    if started_ns is not None:
        for name in SOUNDINGS & found.keys():
            found[name].append(_averaged(found[name][0], started_ns))
        found["drift"] = [started_ns]
    waits = _waits_of_moves(covariates)
    if waits is not None:
        found["migrations"].append(waits)
        found["run_delay_ns"] = [covariates["run_delay_ns"] - waits]
    return found


def forms_of_a_count(forms: list[Floats], count: Floats | None, data: Floats) -> list[Floats]:
    """Return the forms of a count (of `GROWING`) that hold more than the time that it is set in relation to.

    Of a count that is the same in nearly all samples, a rate is the inverse of that time, and what is more
    than usual its negative: both fall where the metric, a time, rises. So a count goes with less of it only
    if it does so itself.
    """
    if count is None:
        return []
    falls = float(count @ data) < 0
    return [form for form in forms if falls or float(form @ data) > 0]


def counted_time_ns(covariates: Mapping[str, Floats], duration_ns: Floats) -> Floats:
    """Return for how long the counts of a CPU or of the machine (`GROWING`) were taken."""
    counted = covariates.get(COUNTED)
    return duration_ns + _beside(covariates, duration_ns) if counted is None else counted


def excess_counts(
    covariates: Mapping[str, Floats], names: Collection[str], duration_ns: Floats
) -> dict[str, Floats]:
    """Return how far each count (of `GROWING`) is above what its time brings on average, over its error.

    These are Pearson residuals of a Poisson process, but for a common factor: a slow repetition that lasts
    long counts more, and is not out of the ordinary for it.
    """
    time = counted_time_ns(covariates, duration_ns)
    error = np.sqrt(np.where(time > 0, time, np.nan))
    return {name: _more_than_usual(covariates[name], time) / error for name in names}


def _waits_of_moves(covariates: Mapping[str, Floats]) -> Floats | None:
    """Return the wait of each repetition with a move of the thread, else 0; None where no wait is a move's.

    A thread that is moved waits for the other CPU, for how long differs from move to move. That waits are
    the moves' own, and did not merely coincide, is taken from most of them being longer than most others.
    """
    moves, waited = covariates.get("migrations"), covariates.get("run_delay_ns")
    if moves is None or waited is None or not np.isfinite(waited).all():
        return None
    moved = moves > 0
    if not moved.any() or moved.all() or np.median(waited[moved]) <= np.quantile(waited[~moved], 0.75):
        return None
    return np.where(moved, waited, 0.0)


def _beside(covariates: Mapping[str, Floats], duration_ns: Floats) -> float:
    """Return the time beside the measured region for which the covariates are counted, the same each time.

    A workload may prepare each repetition: its thread then ran and waited for longer than was measured.
    """
    needed = ("user_us", "system_us", "run_delay_ns")
    if not covariates.keys() >= set(needed):
        return 0.0
    known = [covariates[name][np.isfinite(covariates[name])] for name in needed]
    user, system, waited = (float(column.mean()) if len(column) else 0.0 for column in known)
    return max(0.0, 1000 * (user + system) + waited - float(np.nanmean(duration_ns)))


def _more_than_usual(count: Floats, time_ns: Floats) -> Floats:
    """Return by how much a count is more than its time brings on average.

    That a long repetition has more of it is taken off, if it goes on evenly, as a clock's ticks do; of a
    count that does not, nothing but the time would be left.
    """
    known = np.isfinite(count) & np.isfinite(time_ns)
    time = float(time_ns[known].sum())
    return count - float(count[known].sum()) / time * time_ns if time > 0 else count


def _rate(count: Floats, duration_ns: Floats) -> Floats:
    """Return the count per time; NaN where there was none."""
    rate = np.full(len(count), np.nan)
    np.divide(count, duration_ns, out=rate, where=duration_ns > 0)
    return rate


def _averaged(soundings: Floats, started_ns: Floats) -> Floats:
    """Return the mean of the soundings within `AROUND_NS` of each; NaN where there is none."""
    order = np.argsort(started_ns, kind="stable")
    time, values = started_ns[order], soundings[order]
    known = np.isfinite(values)
    if not known.any():
        return soundings
    median = float(np.median(values[known]))
    limit = BEYOND * float(scipy.stats.median_abs_deviation(values[known], scale="normal"))
    winsorized = np.clip(values, median - limit, median + limit) if limit > 0 else values
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, winsorized, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    first = np.searchsorted(time, time - AROUND_NS, side="left")
    last = np.searchsorted(time, time + AROUND_NS, side="right")
    number = counts[last] - counts[first]
    mean = np.full(len(values), np.nan)
    np.divide(sums[last] - sums[first], number, out=mean, where=number > 0)
    averaged = np.empty_like(mean)
    averaged[order] = mean
    return averaged


def own_time_ns(covariates: Mapping[str, Floats], duration_ns: Floats | None) -> Floats | None:
    """Return the time for which the measuring thread ran, in each repetition; None where it is not known.

    A thread that did not sleep ran whenever it did not wait for a CPU, which is known to the nanosecond. The
    kernel's account (`user_us` and `system_us`) is brought up to date at its ticks, milliseconds apart.
    """
    user, system = covariates.get("user_us"), covariates.get("system_us")
    counted = None if user is None or system is None else 1000 * (user + system)
    waited, slept = covariates.get("run_delay_ns"), covariates.get("voluntary_switches")
    if duration_ns is None or waited is None or slept is None:
        return counted
    if _beside(covariates, duration_ns) > MOST_BESIDE * float(np.nanmean(duration_ns)):
        # Who knows whether it waited in the measured region.
        return counted
    return np.where(slept == 0, duration_ns - waited, np.nan if counted is None else counted)
