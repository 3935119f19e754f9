"""Writes a run into the store while it is measured, and keeps where each point stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from oscope.model import clocks
from oscope.model.errors import UsageError
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.planning import interference as disturbed
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe.catalogue import Catalogue
from oscope.probe.wire import Sample
from oscope.runner.events import GuestBooted, Happened, ProcessBegan, RunEvent, SamplesTaken, TurnBegan
from oscope.runner.point_state import PointState
from oscope.storage import schema
from oscope.storage.reader import join_environment, load_events
from oscope.storage.store import Happening, Store

_ALIKE = ("kernel", "accelerator", "cpu_model", "kernel_options", "qemu")
"""Of a guest's record: what has to be the same in all boots of an experiment."""


class Recorder:
    """The run being written. Every method commits before it returns."""

    def __init__(self, store: Store, run_id: str, plan: Plan) -> None:
        """Take up the run `run_id`, which is in the store, where it stands."""
        self._store = store
        self._plan = plan
        self.run_id = run_id
        self.process = 0
        self.boots: list[str | None] = []
        self.finished = 0
        self.total = plan.total
        self.again = 0
        self.inspected: set[str] = set()
        """Inspections that are in the store, also those that were skipped."""
        ids = store.point_ids(run_id)
        covariates = [c.name for c in plan.covariates]
        self.points = {
            experiment.name: [
                PointState(
                    ids[experiment.name, number],
                    experiment,
                    number,
                    [*experiment.metrics, *covariates],
                    told_by=disturbed.telling(plan, experiment, factors),
                )
                for number, factors in enumerate(experiment.points)
            ]
            for experiment in plan.experiments
        }
        self._boot = 0
        self._hz: float | None = None
        self._guests: dict[str, Mapping[str, Any]] = {}
        """The environment of the first guest of each experiment that had one."""
        self._programs: dict[str, str] = {}
        """SHA-256 of the first program of each experiment that is measured by one of the user's own."""

    def append(self, event: RunEvent) -> None:
        """Commit what happened, and have its point stand where it stands now."""
        match event:
            case SamplesTaken():
                self._add_samples(event.point, event.block, event.samples)
            case Happened():
                self.add_event(event.kind, event.data, event.point)
                if event.kind == "program":
                    self._keep_program(event.data)
            case GuestBooted():
                self._add_boot(event.experiment, event.environment)
            case ProcessBegan():
                self._begin_process(event.environment)
            case TurnBegan():
                pass

    def _add_samples(self, point: PointState, block: int, samples: Sequence[Sample]) -> None:
        happenings = self._new_columns(point, samples)
        rows = point.rows(samples, {"block": block, "process": self.process, "boot": self._boot})
        self._store.add(self.run_id, rows, happenings)
        point.taken[block] = point.taken.get(block, 0) + len(rows)
        self.finished += len(rows)
        point.failed += [sample.failed for sample in samples if sample.failed is not None]
        point.keep_disturbed(block, samples, self._hz)

    def _add_boot(self, experiment: PlannedExperiment, environment: Mapping[str, Any]) -> None:
        """Commit that a guest was booted for `experiment`: of the first what it is, of others which boot.

        Raises UsageError where it is not like the first.
        """
        data: dict[str, Any] = {"experiment": experiment.name, "boot_id": environment.get("boot_id")}
        if experiment.name not in self._guests:
            self._guests[experiment.name] = environment
            data["environment"] = dict(environment)
        _check_alike(experiment.name, self._guests[experiment.name], environment)
        self.add_event("boot", data)

    def _keep_program(self, data: Mapping[str, Any]) -> None:
        """Remember what program measures an experiment, and note where a resumed run has another build."""
        name, program = data["experiment"], data["environment"]["program"]
        if self._programs.setdefault(name, program["sha256"]) != program["sha256"]:
            build = f"another build of {program['name']}"
            self.add_event("note", f"{name}: resumed with {build}: its samples may differ for that alone")

    def add_inspection(self, data: Mapping[str, Any]) -> None:
        """Commit what an inspection gave (see `oscope.storage.schema`)."""
        self.add_event("inspection", data)
        self.inspected.add(data["inspection"])

    def _begin_process(self, environment: Mapping[str, Any]) -> None:
        """Count a new probe process, which the next samples are from."""
        boot = environment.get("boot_id")
        if boot not in self.boots:
            self.boots.append(boot)
        self._boot = self.boots.index(boot)
        self.process += 1
        self._hz = clocks.hz_of(environment)

    def results(self, experiment: str) -> ExperimentResults:
        """Return what is there of an experiment so far."""
        return self._store.results(self.run_id, experiment=experiment).experiments[0]

    def add_event(self, kind: str, data: object, point: PointState | None = None) -> None:
        """Commit something that happened to the run, or to a point (see `oscope.storage.schema`)."""
        self._store.add(self.run_id, (), [Happening(kind, data, point.id if point is not None else None)])
        if point is not None:
            self._apply(point, kind, data)

    def _apply(self, point: PointState, kind: str, data: Any) -> None:
        point.apply(kind, data)
        # What is repeated comes in addition.
        if kind == "again" and self.total is not None:
            self.total += data["count"]
            self.again += data["count"]

    def restore(self) -> dict[str, Any]:
        """Read from the store how far the run came; return its environment, as a record has it.

        Raises UsageError where no command can measure the rest.
        """
        states = {point.id: point for points in self.points.values() for point in points}
        table = schema.sample
        counts = (
            sa.select(table.c.point_id, table.c.block, sa.func.count(), sa.func.max(table.c.process))
            .where(
                table.c.point_id.in_(sa.select(schema.point.c.id).where(schema.point.c.run_id == self.run_id))
            )
            .group_by(table.c.point_id, table.c.block)
        )
        with self._store.reading() as connection:
            events = load_events(connection, self.run_id)
            _check_measured_alone(self._plan, events.run)
            _check_not_refused(events.run)
            for point_id, block, number, process in connection.execute(counts):
                states[point_id].taken[block] = number
                self.finished += number
                self.process = max(self.process, process)
        booted = [*events.run["environment"], *events.run["boot"]]
        self.boots = list(dict.fromkeys(each.get("boot_id") for each in booted))
        self._guests = {
            boot["experiment"]: boot["environment"] for boot in events.run["boot"] if "environment" in boot
        }
        for each in events.run["program"]:
            self._programs.setdefault(each["experiment"], each["environment"]["program"]["sha256"])
        self.inspected = {each["inspection"] for each in events.run["inspection"]}
        for point_id, happened in events.points.items():
            for kind, each in happened.items():
                for data in each:
                    self._apply(states[point_id], kind, data)
        for name, points in self.points.items():
            if any(point.told_by for point in points):
                for point, known in zip(points, self.results(name).points, strict=True):
                    _restore_disturbed(point, known)
        return join_environment(events.run)

    def _new_columns(self, point: PointState, samples: Sequence[Sample]) -> list[Happening]:
        """Lengthen the point's row by covariates that no earlier sample had, such as a counter."""
        covariates = frozenset(point.columns[len(point.experiment.metrics) :])
        new = sorted({name for s in samples for name in s.covariates.keys() - covariates})
        point.columns += new
        return [Happening("columns", new, point.id)] if new else []


def _restore_disturbed(state: PointState, known: PointSamples) -> None:
    for index, name in known.disturbed:
        state.disturbed.setdefault(int(known.block[index]), Counter())[name] += 1


def _check_alike(experiment: str, former: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise UsageError where two guests of an experiment are of different make, as after a host's restart."""
    for part in _ALIKE:
        before, after = (each["guest"][part] for each in (former, now))
        if before != after:
            raise UsageError(
                f"{experiment}: the run was begun in guests with another {part} ({before}, now {after})",
                remedy="begin a new run",
            )


def _check_measured_alone(plan: Plan, events: Mapping[str, list[Any]]) -> None:
    """Raise UsageError for one side of a comparison, and for what another tool measured."""
    if events["interleaved"] or plan.build is not None:
        raise UsageError(
            "the run was interleaved with another, which cannot be resumed",
            remedy="compare as far as they go with oscope compare, or begin anew",
        )
    if any("imported" in each for each in events["environment"]):
        raise UsageError("the run was imported, and cannot be resumed", remedy="import a newer file")


def _check_not_refused(events: Mapping[str, list[Any]]) -> None:
    """Raise UsageError for a run that asks for what the probe refuses each time."""
    for refused in events["refused"]:
        if refused["final"]:
            raise UsageError(
                f"the run cannot be resumed, since the probe refused it: {refused['reason']}",
                remedy=refused["remedy"] or "begin a new run without that",
            )


def check_resumable(
    plan: Plan, catalogue: Catalogue, former: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Raise UsageError where going on would mix figures that are not alike."""
    # A run that was made for a host before the host was reached has none.
    if former["laboratory"] is not None:
        if former.get("machine") != now.get("machine"):
            remedy = "resume it there, or begin a new one"
            raise UsageError("the run was begun on another machine", remedy=remedy)
        if former.get("clock", {}).get("kind") != now.get("clock", {}).get("kind"):
            raise UsageError("the run was begun with another clock", remedy="begin a new one")
    for experiment in plan.experiments:
        program = experiment.program
        known = catalogue.workloads if program is None else catalogue.programs[program].workloads
        current = known.get(experiment.workload.name)
        if current is None or current.version != experiment.workload.version:
            who = "the probe" if program is None else program.name
            raise UsageError(
                f"{who} measures {experiment.workload.name} differently now", remedy="begin a new run"
            )
