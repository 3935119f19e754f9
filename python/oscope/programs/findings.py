"""What a bench found: a figure for each command, and the comparison with the first, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oscope.analysis.waiting import OF_THE_WALL, waiting_note
from oscope.figures.analysed import Analysed, measured
from oscope.figures.answer_text import counted, emulation, listed
from oscope.function_worker import NAME as FUNCTION_EXPERIMENT
from oscope.model.errors import OscopeError, UsageError
from oscope.model.factors import Level
from oscope.model.formatting import format_interval, format_value
from oscope.model.revision import FACTOR, Revision, Revisions
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.programs.experiment import name_point
from oscope.programs.functions import FUNCTION
from oscope.programs.spec import EXPERIMENT
from oscope.programs.start_overhead import about_ns, start_notes
from oscope.programs.verdicts import TIMES, verdict
from oscope.statistics import Comparison, Summary, compare_pairs
from oscope.statistics.exit_codes import failed_runs
from oscope.trace.factor import TRACER, UNTRACED, tracer_of

SUBJECTS = ("command", FUNCTION)
"""Factors that name what a bench measures."""
TABLE = ("cpu_ns", "user_ns", "system_ns", "max_rss_bytes")
"""Metrics shown beside the one that is judged."""
SAMPLED = ("user_ns", "system_ns")
"""Metrics that the kernel counts in ticks, and scales to the CPU time."""
WALL_TIME = "time_ns"
"""The metric shown as well where no wall time is judged."""
MOST_FAILING = 5
"""Commands whose failures are reported; of further ones the number."""
NEAR_CALL = 1.5
"""A function that takes less than so many times a call that does nothing is little more than called."""


@dataclass(frozen=True)
class ProgramRow:
    """One command, or function of Python, with its parameters."""

    point: PointSamples
    name: str
    """It with its parameters."""
    summary: Summary | None
    """Of the metric that is judged; None where no run counts."""
    medians: Mapping[str, float | None]
    """Medians of `WALL_TIME` and `TABLE`; None for what not every run that counts has."""
    revision: Revision | None = None
    """The commit that it measures, in a bench of revisions."""

    @property
    def parameters(self) -> dict[str, Level]:
        """The levels beside the command or function."""
        return {name: level for name, level in self.point.factors.items() if name != self.subject}

    @property
    def subject(self) -> str:
        """What is measured: command or function."""
        return next(name for name in SUBJECTS if name in self.point.factors)

    @property
    def command(self) -> str:
        """The name of the command or function, without parameters."""
        return str(self.point.factors[self.subject])


@dataclass(frozen=True)
class Findings:
    """What is shown of a bench."""

    results: Analysed
    experiment: ExperimentResults
    rows: tuple[ProgramRow, ...]
    comparison: Comparison | None
    """The others against the first, in the order of the rows; None with one command."""
    start_ns: float | None
    """Median time of a trivial program, from its start to its end."""
    shell_ns: float | None
    traced: tuple[str, ...] = ()
    """What a tracer costs each command, in words, with its interval."""
    call_ns: float | None = None
    """Median time of a call that does nothing, where functions were measured."""

    @property
    def subject(self) -> str:
        """What was measured: command or function."""
        return self.rows[0].subject

    @property
    def table(self) -> tuple[str, ...]:
        """The metrics shown beside the one that is judged, of those that what was measured has."""
        names = TABLE if self.metric in OF_THE_WALL else (WALL_TIME, *TABLE)
        return tuple(name for name in names if name in self.experiment.metrics)

    @property
    def metric(self) -> str:
        """The metric that is judged."""
        return self.experiment.headline

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found: a sentence for each comparison, or one command's time; then tracing's cost."""
        return (*self._verdicts(), *(f"cost of tracing: {each}" for each in self.traced))

    def _verdicts(self) -> tuple[str, ...]:
        measured_rows = [row for row in _untraced(self.rows) if row.summary is not None]
        if self.comparison is not None:
            rows = {tuple(row.point.factors.items()): row for row in self.rows}
            others = [rows[tuple(each.factors.items())] for each in self.comparison.rows]
            return tuple(
                verdict(each, reference(other, measured_rows).name, other.name, self.comparison.threshold)
                for each, other in zip(self.comparison.rows, others, strict=True)
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
            *filter(None, [emulation([self.experiment])]),
            *self._failures(),
            *revision_notes(self.experiment),
            *self._where_traced(),
            *self._starts(),
            *self._ticks(),
            *filter(None, [waiting_note(self.experiment)]),
            *self._energy(),
            *self._pairs(),
            *(self.comparison.caveats if self.comparison else ()),
        )

    def _where_traced(self) -> list[str]:
        return [f"oscope show {self.experiment.run_id} has what was traced"] if self.traced else []

    def _failures(self) -> list[str]:
        """Say which commands' runs failed, and are counted since that was asked for."""
        sentences = list(filter(None, (failed_runs(row.point, row.name) for row in self.rows)))
        more = len(sentences) - MOST_FAILING
        further = [f"{counted(more, 'further command')} failed, too"] if more > 0 else []
        return ["; ".join([*sentences[:MOST_FAILING], *further])] if sentences else []

    def _pairs(self) -> list[str]:
        """Say why a difference is another one than that of the two medians in the table."""
        unlike = [row for row in (self.comparison.rows if self.comparison else ()) if row.is_unlike_medians]
        if not unlike:
            return []
        ratios = listed([f"{row.ratio_of_medians:.3g}" for row in unlike])
        what = "the ratio" if len(unlike) == 1 else "ratios"
        return [f"compared block by block; {what} of the medians in the table: {ratios}"]

    def _starts(self) -> list[str]:
        sentences = start_notes(_untraced(self.rows), alone=len(self.rows) == 1)
        if self.call_ns is not None:
            sentences.append(
                f"calling a function that does nothing takes {about_ns(self.call_ns)}, measured in this run; "
                "it is part of each time above"
            )
            for row in self.rows:
                if row.summary is not None and self._near_call(row):
                    sentences.append(
                        f"{row.name} takes little more than such a call: its own work hardly shows"
                    )
        return sentences

    def _ticks(self) -> list[str]:
        """Say that a time of no tick is not one of zero."""
        sampled = [row.medians[name] for row in self.rows for name in SAMPLED if name in self.table]
        if not any(value == 0 for value in sampled):
            return []
        return [
            "user and system are sampled at ticks of the kernel: a mode that no tick met may have taken time"
        ]

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

    def _near_call(self, row: ProgramRow) -> bool:
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
        lacking = experiment.metrics[experiment.headline].null_when
        raise OscopeError(
            skipped
            or f"no command has {experiment.headline} in every run"
            + (f": there is no value {lacking}" if lacking else ""),
            remedy=f"oscope show {experiment.run_id} has the details",
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


def answers(results: Results, experiment: ExperimentResults) -> tuple[str, ...]:
    """Return the sentences on a bench, as it printed them; none for another experiment."""
    if experiment.experiment not in (EXPERIMENT, FUNCTION_EXPERIMENT):
        return ()
    try:
        return find(replace(results, experiments=(experiment,))).sentences
    except OscopeError:
        return ()


def _untraced(rows: Sequence[ProgramRow]) -> list[ProgramRow]:
    return [row for row in rows if tracer_of(row.point.factors) == UNTRACED]


def _cost_of_tracing(
    experiment: ExperimentResults, rows: Sequence[ProgramRow], threshold: float
) -> tuple[str, ...]:
    """Compare each traced command with itself, in words."""
    plain = {_without_tracer(row): row for row in _untraced(rows)}
    found = []
    for row in rows:
        base = plain.get(_without_tracer(row))
        if base is None or base is row:
            continue
        comparison = _compare_pairs(experiment, [(base, row)], threshold)
        if comparison is not None:
            found += [verdict(each, base.name, row.name, threshold) for each in comparison.rows]
    return tuple(found)


def _without_tracer(row: ProgramRow) -> tuple[tuple[str, Level], ...]:
    return tuple(each for each in row.point.factors.items() if each[0] != TRACER.name)


def _row(results: Analysed, experiment: ExperimentResults, point: PointSamples) -> ProgramRow:
    name = name_point({name: level for name, level in point.factors.items() if name != FACTOR})
    known = revisions(experiment)
    revision = None if known is None else known.of(point.factors)
    if revision is not None:
        # Of one command alone the revisions say all.
        alone = (
            set(point.factors) <= {"command", FACTOR, TRACER.name} and len(experiment.levels("command")) == 1
        )
        others = {name: level for name, level in point.factors.items() if name not in ("command", FACTOR)}
        name = name_point({"command": revision.label, **others}) if alone else f"{name} at {revision.label}"
    return ProgramRow(
        point,
        name,
        results.summary(experiment, point, experiment.headline),
        {name: _median([point], name) for name in (WALL_TIME, *TABLE)},
        revision,
    )


def revisions(experiment: ExperimentResults) -> Revisions | None:
    """Return the revisions that a run measured; None where it measured none."""
    found = experiment.settings.get("revisions")
    return None if found is None else Revisions.from_object(found)


def revision_notes(experiment: ExperimentResults) -> tuple[str, ...]:
    """Return a line for each revision of a run, how they were built, and what a bisection found.

    None for a run of something else.
    """
    known = revisions(experiment)
    if known is None:
        return ()
    how = "built by " + known.build if known.build is not None else "nothing was built"
    found = (experiment.settings.get("bisection") or {}).get("sentences", ())
    return (
        *(f"{side.short}: {_called(side)}{side.subject}" for side in known.sides),
        how,
        *(f"bisection: {sentence}" for sentence in found),
    )


def _called(side: Revision) -> str:
    return "" if side.commit.startswith(side.name) else f"{side.name}, "


def reference(row: ProgramRow, measured_rows: Sequence[ProgramRow]) -> ProgramRow:
    """Return the row that another is compared with: the first; of revisions the first of the same command."""
    if row.revision is None:
        return measured_rows[0]
    return next(each for each in measured_rows if _without_revision(each) == _without_revision(row))


def _without_revision(row: ProgramRow) -> dict[str, Level]:
    return {name: level for name, level in row.point.factors.items() if name != FACTOR}


def _median(points: Sequence[PointSamples], metric: str) -> float | None:
    values = np.concatenate([np.zeros(0), *(measured(point, metric)[0] for point in points)])
    return float(np.median(values)) if len(values) else None


def _compare(
    experiment: ExperimentResults, rows: Sequence[ProgramRow], threshold: float
) -> Comparison | None:
    """Compare each row with the one that it is measured against; None where there is none."""
    pairs = [(first, row) for row in rows if (first := reference(row, rows)) is not row]
    return _compare_pairs(experiment, pairs, threshold) if pairs else None


def _compare_pairs(
    experiment: ExperimentResults, pairs: Sequence[tuple[ProgramRow, ProgramRow]], threshold: float
) -> Comparison | None:
    points = [(first.point, other.point) for first, other in pairs]
    try:
        return compare_pairs(experiment, points, experiment.headline, threshold=threshold)
    except UsageError:
        # A metric that is 0 everywhere, such as major faults, has no ratio.
        return None


def _alone(row: ProgramRow, summary: Summary, metric: str, experiment: ExperimentResults) -> str:
    """Say what the only command takes."""
    low, high = summary.ci95 or (None, None)
    size = format_interval(summary.median, low, high, experiment.metrics[metric].shown_unit)
    return f"{row.name} takes {size}" if metric in TIMES else f"{row.name}: {metric} is {size}"
