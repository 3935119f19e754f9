"""What a bench found: a figure for each command, and the comparison with the first, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from oscope.figures.analysed import Analysed, measured
from oscope.function_worker import NAME as FUNCTION_EXPERIMENT
from oscope.model.errors import OscopeError, UsageError
from oscope.model.factors import Level
from oscope.model.formatting import format_interval, format_share, format_value
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.programs.experiment import EXPERIMENT, name_point
from oscope.programs.functions import FUNCTION
from oscope.statistics import ComparedMetric, Comparison, Summary, compare_with
from oscope.trace.factor import TRACER, UNTRACED, tracer_of

TABLE = ("cpu_ns", "user_ns", "system_ns", "max_rss_bytes")
"""Metrics shown beside the one that is judged."""
TIMES = ("time_ns", "net_ns", "cpu_ns", "user_ns", "system_ns")
NEAR_START = 1.1
"""A command that takes less than so many times the start of a trivial program does little but start."""
NEAR_CALL = 1.5
"""A function that takes less than so many times a call that does nothing is little more than called."""
LARGE = 2.0
"""From this ratio on, a difference is written as a multiple."""


@dataclass(frozen=True)
class Row:
    """One command, or function of Python, with its parameters."""

    point: PointSamples
    name: str
    """It with its parameters."""
    summary: Summary | None
    """Of the metric that is judged; None where no run counts."""
    medians: Mapping[str, float | None]
    """Medians of `TABLE`."""

    @property
    def parameters(self) -> dict[str, Level]:
        """The levels beside the command or function."""
        return {name: level for name, level in self.point.factors.items() if name != self.subject}

    @property
    def subject(self) -> str:
        """What is measured: command or function."""
        return "command" if "command" in self.point.factors else FUNCTION

    @property
    def command(self) -> str:
        """The name of the command or function, without parameters."""
        return str(self.point.factors[self.subject])


@dataclass(frozen=True)
class Findings:
    """What is shown of a bench."""

    results: Analysed
    experiment: ExperimentResults
    rows: tuple[Row, ...]
    comparison: Comparison | None
    """The others against the first, in the order of the rows; None with one command."""
    start_ns: float | None
    """Median time of a trivial program, from its start to its end."""
    shell_ns: float | None
    traced: tuple[str, ...] = ()
    """What a tracer costs each command, in words."""
    call_ns: float | None = None
    """Median time of a call that does nothing, where functions were measured."""

    @property
    def subject(self) -> str:
        """What was measured: command or function."""
        return self.rows[0].subject

    @property
    def table(self) -> tuple[str, ...]:
        """The metrics of `TABLE` that what was measured has."""
        return tuple(name for name in TABLE if name in self.experiment.metrics)

    @property
    def metric(self) -> str:
        """The metric that is judged."""
        return self.experiment.headline

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, a sentence for each comparison; for one command its time."""
        measured_rows = [row for row in _untraced(self.rows) if row.summary is not None]
        if self.comparison is not None:
            names = {tuple(row.point.factors.items()): row.name for row in self.rows}
            first = measured_rows[0].name
            return tuple(
                verdict(each, first, names[tuple(each.factors.items())], self.comparison.threshold)
                for each in self.comparison.rows
            )
        return tuple(
            _alone(row, row.summary, self.metric, self.experiment)
            for row in measured_rows
            if row.summary is not None
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader has to know beside: the start, what is lost in it, what was left out."""
        return (
            *self.traced,
            *self._starts(),
            *self._energy(),
            *(self.comparison.caveats if self.comparison else ()),
        )

    def _starts(self) -> list[str]:
        told = []
        if self.start_ns is not None:
            told.append(
                f"start overhead: a program that does nothing (true) takes {_about(self.start_ns)}, "
                "measured in this run; it is part of each time above"
            )
            for row in _untraced(self.rows):
                times = measured(row.point, "net_ns" if self.shell_ns is not None else "time_ns")[0]
                if len(times) and float(np.median(times)) < NEAR_START * self.start_ns:
                    told.append(
                        f"{row.name} takes no longer than such a start: its own work does not show; "
                        "have it do more, or repeat it within one command"
                    )
        if self.call_ns is not None:
            told.append(
                f"calling a function that does nothing takes {_about(self.call_ns)}, measured in this run; "
                "it is part of each time above"
            )
            for row in self.rows:
                if row.summary is not None and self._near_call(row):
                    told.append(f"{row.name} takes little more than such a call: its own work hardly shows")
        if self.shell_ns is not None:
            told.append(
                f"the shell's own start takes {_about(self.shell_ns)}: net_ns is without it, time_ns with it"
            )
        return told

    def _energy(self) -> list[str]:
        points = self.experiment.points
        if "energy_j" not in self.experiment.metrics:
            return []
        idle_w = _median(points, "idle_w")
        if idle_w is None:
            return ["energy: not measured (no RAPL here)"]
        floor = f"the idle machine takes {format_value(idle_w, 0.05 * idle_w, 'W')}, measured in this run"
        if _median(points, "energy_j") is None:
            return [f"energy: not measured (the runs are shorter than 20 ms); {floor}"]
        return [f"energy: of the whole machine, all that runs meanwhile included; {floor}"]

    def _near_call(self, row: Row) -> bool:
        times = measured(row.point, "time_ns")[0]
        return (
            self.call_ns is not None and len(times) > 0 and float(np.median(times)) < NEAR_CALL * self.call_ns
        )


def find(results: Results, threshold: float = 0.01) -> Findings:
    """Return what a bench found; OscopeError where it has no measured command."""
    analysed = Analysed.of(results)
    experiment = analysed.get(EXPERIMENT) or analysed.get(FUNCTION_EXPERIMENT)
    if experiment is None:
        raise UsageError(f"the run has no {EXPERIMENT}", remedy="name a run of oscope bench")
    rows = tuple(_row(analysed, experiment, point) for point in experiment.points)
    usable = [row for row in rows if row.summary is not None]
    if not usable:
        skipped = next((point.skipped for point in experiment.points if point.skipped), None)
        raise OscopeError(
            skipped or "no run of a command counts", remedy=f"oscope show {experiment.run_id} has the details"
        )
    return Findings(
        analysed,
        experiment,
        rows,
        _compare(experiment, _untraced(usable), threshold),
        _median(experiment.points, "start_ns"),
        _median(experiment.points, "shell_ns"),
        _cost_of_tracing(experiment, usable, threshold),
        _median(experiment.points, "call_ns"),
    )


def _untraced(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if tracer_of(row.point.factors) == UNTRACED]


def _cost_of_tracing(experiment: ExperimentResults, rows: Sequence[Row], threshold: float) -> tuple[str, ...]:
    """Compare each traced command with itself, in words."""
    plain = {_without_tracer(row): row for row in _untraced(rows)}
    found = []
    for row in rows:
        base = plain.get(_without_tracer(row))
        if base is None or base is row:
            continue
        comparison = _compare(experiment, [base, row], threshold)
        if comparison is not None:
            found += [verdict(each, base.name, row.name, threshold) for each in comparison.rows]
    if found:
        found.append(f"oscope show {experiment.run_id} has what was traced")
    return tuple(found)


def _without_tracer(row: Row) -> tuple[tuple[str, Level], ...]:
    return tuple(each for each in row.point.factors.items() if each[0] != TRACER.name)


def _row(results: Analysed, experiment: ExperimentResults, point: PointSamples) -> Row:
    return Row(
        point,
        name_point(point.factors),
        results.summary(experiment, point, experiment.headline),
        {name: _median([point], name) for name in TABLE},
    )


def _median(points: Sequence[PointSamples], metric: str) -> float | None:
    values = np.concatenate([np.zeros(0), *(measured(point, metric)[0] for point in points)])
    return float(np.median(values)) if len(values) else None


def _compare(experiment: ExperimentResults, rows: Sequence[Row], threshold: float) -> Comparison | None:
    if len(rows) < 2:
        return None
    try:
        return compare_with(
            experiment,
            rows[0].point,
            [row.point for row in rows[1:]],
            experiment.headline,
            threshold=threshold,
        )
    except UsageError:
        # A metric that is 0 everywhere, such as major faults, has no ratio.
        return None


def verdict(row: ComparedMetric, first: str, name: str, threshold: float) -> str:
    """Say in a sentence how the command `name` differs from `first`."""
    what = "" if row.metric in ("time_ns", "net_ns") else f" in {row.metric}"
    if row.different == "yes":
        if not isfinite(row.ratio):
            return f"{name} differs from {first}{what}: by {row.difference:g} {row.unit}"
        return f"{name} {_difference(row)} {first}{what}"
    if not isfinite(row.detectable):
        return f"no difference found between {name} and {first}{what}: there is too little to tell"
    if row.different == "no":
        return f"{name} and {first} do not differ{what} by more than {format_share(threshold)}"
    found = "would have been found" if row.detectable < LARGE else "could have been missed"
    return (
        f"no difference found between {name} and {first}{what}; one of {format_share(row.detectable)} {found}"
    )


def _difference(row: ComparedMetric) -> str:
    """Return `is 1.83 % [1.6, 2.1] faster than`, or the like for a multiple or another metric."""
    low, high = row.ci95
    timed = row.metric in TIMES
    if timed and row.ratio <= 1 / LARGE and low > 0:
        return f"is {_times(1 / row.ratio, 1 / high, 1 / low)} times as fast as"
    if row.ratio >= LARGE:
        verb, how = ("takes", "long") if timed else ("uses", "much")
        return f"{verb} {_times(row.ratio, low, high)} times as {how} as"
    less = row.ratio < 1
    ends = sorted(100 * (1 - end if less else end - 1) for end in (low, high))
    size = _percent(100 * abs(row.ratio - 1), *ends)
    if timed:
        return f"is {size} {'faster' if less else 'slower'} than"
    return f"uses {size} {'less' if less else 'more'} than"


def _percent(value: float, low: float, high: float) -> str:
    decimals = _decimals(high - low)
    return f"{value:.{decimals}f} % [{low:.{decimals}f}, {high:.{decimals}f}]"


def _times(value: float, low: float, high: float) -> str:
    decimals = _decimals(high - low)
    return f"{value:.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"


def _decimals(width: float) -> int:
    """Return the decimals that an interval so wide allows: two digits of it."""
    if not isfinite(width) or width <= 0:
        return 2
    return int(min(max(1 - np.floor(np.log10(width)), 0), 4))


def _alone(row: Row, summary: Summary, metric: str, experiment: ExperimentResults) -> str:
    """Say what the only command takes."""
    low, high = summary.ci95 or (None, None)
    size = format_interval(summary.median, low, high, experiment.metrics[metric].shown_unit)
    return f"{row.name} takes {size}" if metric in TIMES else f"{row.name}: {metric} is {size}"


def _about(value_ns: float) -> str:
    """Write a time with two or three digits."""
    return format_value(value_ns, 0.05 * value_ns, "ns")
