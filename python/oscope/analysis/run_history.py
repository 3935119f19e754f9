"""The stored runs of an experiment in order of time, and from which run on something changed.

Runs that must not be compared (`oscope.statistics.pairing.refuse_unlike`) are never in one line: other
machines, guests of another make, clocks and versions of the workload each have their own. Kernels may change
within a line; the place is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oscope.model.errors import UsageError
from oscope.model.factors import Level, meaningful
from oscope.model.samples import Column, ExperimentResults
from oscope.statistics.changes import Change, enough, search
from oscope.statistics.machines import KERNEL, kernel_name, kernel_parts, told_apart
from oscope.statistics.pairing import is_alike
from oscope.statistics.summary import summarise_point
from oscope.storage.store import RunEntry

SCHEMA = "oscope.history/1"

_WATCHED: Mapping[str, tuple[str, ...]] = {
    "boot": ("boot_id",),
    "CPU model": ("cpu", "model"),
    "microcode": ("cpu", "microcode"),
    "governor": ("cpu", "governor"),
    "turbo": ("cpu", "turbo"),
    "SMT": ("cpu", "smt"),
    "CPUs": ("cpu", "logical"),
    "CPUs allowed": ("cpu", "allowed"),
    "mitigations": ("cpu", "mitigations"),
    "memory": ("memory", "total_bytes"),
    "transparent huge pages": ("memory", "thp"),
    "swap": ("memory", "swap_total_bytes"),
    "hypervisor": ("hypervisor",),
    "clock source": ("clocksource",),
    "CPU limit": ("cgroup", "cpu_max"),
    "memory limit": ("cgroup", "memory_max"),
    "C library": ("libc",),
    "guest memory": ("guest", "memory_bytes"),
    "kernel options": ("guest", "kernel_options"),
    "QEMU": ("guest", "qemu"),
    "Oscope": ("laboratory", "oscope"),
    "commit of Oscope": ("laboratory", "git_commit"),
    "probe": ("laboratory", "probe_sha256"),
    "program": ("program", "sha256"),
    "Python": ("laboratory", "python"),
}
"""What is looked at where a series changed: its name, and its place in the environment."""
_ABBREVIATED = frozenset({"boot", "commit of Oscope", "probe", "program"})
_LETTERS = 12
"""Of a digest, enough to tell it from others."""


@dataclass(frozen=True)
class Value:
    """What one run gave for one metric of one point."""

    n: int
    median: float
    """In the metric's unit; NaN where the run has no value."""
    ci95: tuple[float, float] | None


@dataclass(frozen=True)
class Series:
    """One metric at one point, over the runs of a line."""

    factors: Mapping[str, Level]
    metric: Column
    values: tuple[Value, ...]
    """One a run of the line."""
    changes: tuple[Change, ...]
    is_searched: bool
    """Whether there were runs enough for a change to be found."""
    r: float = float("nan")
    """Correlation of a run with the one before, changes apart; NaN where not searched."""
    is_autocorrelated: bool = False
    """Whether `r` is larger than independent runs give."""


@dataclass
class Line:
    """Runs that may be compared, in order of time."""

    runs: list[ExperimentResults]
    """Without their samples."""
    values: list[tuple[int, Mapping[str, Level], str, Value]] = field(default_factory=list)
    """What each point gave: the place of its run, its factors, the metric and the value."""
    series: tuple[Series, ...] = ()

    @property
    def name(self) -> str:
        """What all of its runs have in common."""
        first = self.runs[0]
        guest = first.environment.get("guest")
        parts = [
            f"machine {first.environment.get('machine') or 'unknown'}",
            f"guest, {guest.get('accelerator')}" if guest else "",
            f"clock {(first.environment.get('clock') or {}).get('kind') or 'unknown'}",
            f"order of the points {order}" if (order := first.settings.get("order")) else "",
            f"{first.workload} version {first.workload_version}",
        ]
        return ", ".join(filter(None, parts))

    def kernel_changes(self) -> dict[int, str]:
        """Return the places of the runs whose kernel is another than the run's before, with what changed."""
        found = {}
        for place in range(1, len(self.runs)):
            differences = _unlike(*(kernel_parts(run) for run in self.runs[place - 1 : place + 1]))
            if differences:
                found[place] = "; ".join(f"{name} {a} → {b}" for name, (a, b) in differences.items())
        return found

    def changed_environment(self, series: Series, change: Change) -> dict[str, tuple[str, str]]:
        """Return what of the environment differs between the runs on both sides of a change."""
        before = next(p for p in range(change.at - 1, -1, -1) if np.isfinite(series.values[p].median))
        return environment_changes(self.runs[before], self.runs[change.at])


def without_injection(entries: Sequence[RunEntry]) -> tuple[list[RunEntry], list[RunEntry]]:
    """Return the runs that are clean measurements, and those with injected interference: no level of theirs.

    Raises UsageError where interference was injected into all.
    """
    clean = [entry for entry in entries if not entry.has_injection]
    injected = [entry for entry in entries if entry.has_injection]
    if injected and not clean:
        raise UsageError(left_out(len(injected)), remedy="measure without --inject")
    return clean, injected


def left_out(count: int) -> str:
    """Say how many runs are left out since interference was injected into them."""
    runs = "1 run" if count == 1 else f"{count} runs"
    return f"{runs} with injected interference {'is' if count == 1 else 'are'} left out"


def collect(runs: Iterable[ExperimentResults], metric: str | None = None) -> tuple[Line, ...]:
    """Return the lines of an experiment's runs, given in order of time, each with its changes.

    Samples are let go of as soon as a run is summarised. No `metric`: the headline's. The rate of false
    positives, 5 %, is that of all lines together. Raises UsageError for a metric that no run has.
    """
    lines: list[Line] = []
    names: dict[str, None] = {}
    for run in runs:
        names |= dict.fromkeys(run.metrics)
        chosen = run.headline if metric is None else metric
        if chosen in run.metrics:
            _add(lines, run, chosen)
    if not lines:
        raise UsageError(
            f"no run has a metric {metric!r}" if names else "no run has samples",
            remedy=f"there is {', '.join(names)}" if names else "measure with oscope run",
        )
    searched = sum(enough(len(line.runs)) for line in lines)
    for line in lines:
        line.series = tuple(_series(line, max(1, searched)))
    return tuple(lines)


def environment_changes(a: ExperimentResults, b: ExperimentResults) -> dict[str, tuple[str, str]]:
    """Return what is recorded of the environment of both and differs: its name, then A's and B's."""
    sides = [{**kernel_parts(run), **_watched(run.environment)} for run in (a, b)]
    return _unlike(*sides)


def _watched(environment: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, path in _WATCHED.items():
        value: Any = environment
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping):
            value = "; ".join(f"{key}: {each}" for key, each in sorted(value.items()))
        if value is not None:
            text = str(value)
            dirty = "-dirty" if text.endswith("-dirty") else ""
            found[name] = text[:_LETTERS] + dirty if name in _ABBREVIATED else text
    return found


def _unlike(a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return what differs, as far as it does; what one side does not show is no difference."""
    return {name: told_apart(a[name], b[name]) for name in a if name in b and a[name] != b[name]}


def _add(lines: list[Line], run: ExperimentResults, metric: str) -> None:
    """Add a run to the line that it may be compared with, or begin another."""
    bare = replace(run, points=())
    line = next((line for line in lines if _belongs(bare, line.runs[0])), None)
    if line is None:
        line = Line([])
        lines.append(line)
    for point in run.points:
        if len(point):
            found = summarise_point(run, point, metric)
            value = Value(found.n, found.median, found.ci95)
            line.values.append((len(line.runs), point.factors, metric, value))
    line.runs.append(bare)


def _belongs(run: ExperimentResults, first: ExperimentResults) -> bool:
    """Say whether a run may be compared with the first one of a line.

    Counts of instructions may depend on the order of the points, which older runs drew from their seed.
    """
    orders = (run.settings.get("order"), first.settings.get("order"))
    return is_alike(first, run, frozenset({KERNEL})) and orders[0] == orders[1]


def _rows(line: Line) -> list[tuple[Mapping[str, Level], str, tuple[Value, ...]]]:
    """Return the factors and the metric of each point, and its values by the place of their run.

    A factor of another run has its default in a run of which it is none; an earlier Oscope's points have
    levels without a meaning, too.
    """
    names = {name for _, factors, _, _ in line.values for name in factors}
    conditions = {name: each for run in line.runs for name, each in run.conditions.items()}
    known = {name: level for run in line.runs for name, level in run.defaults.items()}
    nothing = Value(0, float("nan"), None)
    rows: dict[tuple[frozenset[tuple[str, Level]], str], tuple[Mapping[str, Level], list[Value]]] = {}
    for place, factors, metric, value in line.values:
        own = meaningful(line.runs[place].levels_of(factors, names), conditions, known)
        key = (frozenset(own.items()), metric)
        rows.setdefault(key, (own, [nothing] * len(line.runs)))[1][place] = value
    return [(factors, metric, tuple(values)) for (_, metric), (factors, values) in rows.items()]


def _series(line: Line, looks: int) -> Iterator[Series]:
    rows = [row for row in _rows(line) if any(np.isfinite(value.median) for value in row[2])]
    if not rows:
        return
    table = np.array([[value.median for value in values] for _, _, values in rows])
    for (factors, metric, values), found in zip(rows, search(table, looks=looks), strict=True):
        count = sum(np.isfinite(value.median) for value in values)
        yield Series(
            factors,
            _column(line.runs, metric),
            values,
            found.changes,
            enough(int(count), looks),
            found.r,
            found.is_autocorrelated,
        )


def _column(runs: Sequence[ExperimentResults], metric: str) -> Column:
    return next(run.metrics[metric] for run in runs if metric in run.metrics)


def to_object(experiment: str, lines: Sequence[Line], injected: Sequence[RunEntry] = ()) -> dict[str, Any]:
    """Return it as an object for JSON (`oscope.history/1`); a run without a value has null.

    `injected` are the runs that are left out since interference was injected into them.
    """
    return {
        "schema": SCHEMA,
        "experiment": experiment,
        "lines": [_line_object(line) for line in lines],
        "left_out": [entry.id for entry in injected],
    }


def _line_object(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "runs": [
            {
                "id": run.run_id,
                "started": run.started,
                "status": run.status,
                "kernel": kernel_name(run) or kernel_parts(run).get("kernel release"),
            }
            for run in line.runs
        ],
        "kernel_changes": [{"run": line.runs[p].run_id, "what": t} for p, t in line.kernel_changes().items()],
        "series": [_series_object(line, series) for series in line.series],
    }


def _series_object(line: Line, series: Series) -> dict[str, Any]:
    return {
        "factors": dict(series.factors),
        "metric": series.metric.name,
        "unit": series.metric.unit,
        "better": series.metric.better,
        "median": [value.median for value in series.values],
        "ci95": [value.ci95 for value in series.values],
        "n": [value.n for value in series.values],
        "enough_runs": series.is_searched,
        "autocorrelation": series.r if np.isfinite(series.r) else None,
        "autocorrelated": series.is_autocorrelated,
        "changes": [
            {
                "run": line.runs[change.at].run_id,
                "started": line.runs[change.at].started,
                "before": change.before,
                "after": change.after,
                "difference_ci95": None
                if change.logarithmic
                else [change.estimate.low, change.estimate.high],
                "ratio": change.ratio[0],
                "ratio_ci95": list(change.ratio[1:]),
                "p": change.p,
                "environment": {
                    name: list(pair) for name, pair in line.changed_environment(series, change).items()
                },
            }
            for change in series.changes
        ],
    }
