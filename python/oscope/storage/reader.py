"""Reads a run out of the store as columns, a million samples in seconds and without an object for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import sqlalchemy as sa

from oscope.model.clocks import counted
from oscope.model.factors import Level
from oscope.model.samples import Column, Columns, ExperimentResults, Floats, Inspected, PointSamples, Results
from oscope.planning import interference
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe.catalogue import Workload
from oscope.statistics.core_clock import CORE_LOADS
from oscope.storage import schema
from oscope.storage.run_settings import settings_of
from oscope.storage.unmeasured import why_unmeasured

_CHUNK = 20_000
_WHOLE = ("block", "process", "boot", "rep", "started_ns", "iterations")
_REAL = ("raw", "correction")
_FIXED = (*_WHOLE, *_REAL)


@dataclass
class _Events:
    """What happened to a run, sorted out by kind; those of a point under its key."""

    run: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    points: dict[int, dict[str, list[Any]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )


def load_results(connection: sa.Connection, run_id: str, only: str | None, columns: Columns) -> Results:
    """Return what was measured in the run `run_id`, which exists, or in its experiment `only`."""
    run = connection.execute(sa.select(schema.run).where(schema.run.c.id == run_id)).one()
    plan = Plan.from_object(orjson.loads(run.plan))
    events = load_events(connection, run_id)
    table = schema.point
    rows = connection.execute(sa.select(table).where(table.c.run_id == run_id).order_by(table.c.id)).all()
    unmeasured = why_unmeasured(plan, run.id, events.run)
    experiments = []
    for experiment in plan.experiments:
        if only not in (None, experiment.name):
            continue
        own = sorted((row for row in rows if row.experiment == experiment.name), key=lambda row: row.number)
        names = {row.id: _names(row, plan, events.points[row.id], columns) for row in own}
        points = tuple(
            _load_point(row, experiment, samples, events.points[row.id], unmeasured)
            for row, samples in zip(own, _read_points(connection, names), strict=True)
        )
        found = _assemble(run, plan, experiment, points, events.run)
        experiments.append(_marked(found, plan, experiment, columns))
    inspections = plan.inspections if only is None else ()
    inspected = (_inspected(run, name, events.run, unmeasured) for name in inspections)
    return Results(tuple(experiments), tuple(inspected))


def _inspected(
    run: sa.Row[Any], name: str, events: Mapping[str, list[Any]], unmeasured: Mapping[str, str | None]
) -> Inspected:
    found = [each for each in events.get("inspection", ()) if each["inspection"] == name]
    # One that was not reached has no event.
    data: dict[str, Any] = found[-1] if found else {"skipped": unmeasured}
    skip = data.get("skipped") or {}
    return Inspected(
        run_id=run.id,
        inspection=name,
        title=data.get("title", name),
        question=data.get("question", ""),
        started=data.get("started", _started(run)),
        environment=join_environment(events),
        result=data.get("result"),
        skipped=skip.get("reason"),
        remedy=skip.get("remedy"),
    )


def _started(run: sa.Row[Any]) -> str:
    return datetime.fromtimestamp(run.started_ns / 1e9, UTC).isoformat(timespec="seconds")


def load_events(connection: sa.Connection, run_id: str) -> _Events:
    """Return what happened to a run, in order."""
    table = schema.event
    query = (
        sa.select(table.c.point_id, table.c.kind, table.c.data)
        .where(table.c.run_id == run_id)
        .order_by(table.c.id)
    )
    events = _Events()
    for point_id, kind, data in connection.execute(query):
        target = events.run if point_id is None else events.points[point_id]
        target[kind].append(orjson.loads(data))
    return events


def _assemble(
    run: sa.Row[Any],
    plan: Plan,
    experiment: PlannedExperiment,
    points: tuple[PointSamples, ...],
    events: Mapping[str, list[Any]],
) -> ExperimentResults:
    workload = experiment.workload
    metrics = {m.name: Column(m.name, m.unit, m.doc, m.better, m.null_when) for m in workload.metrics}
    covariates = {c.name: Column(c.name, c.unit, c.doc) for c in plan.covariates}
    # Counters that this machine has beyond those that every probe describes.
    covariates |= {name: Column(name, "") for p in points for name in p.covariates if name not in covariates}
    return ExperimentResults(
        run_id=run.id,
        experiment=experiment.name,
        workload=workload.name,
        workload_version=workload.version,
        started=_started(run),
        seed=plan.seed,
        points=points,
        metrics={name: metrics[name] for name in experiment.metrics},
        covariates=covariates,
        environment=join_environment(events, experiment.name),
        title=experiment.title,
        question=experiment.question,
        timing_model=workload.timing_model,
        status=events["status"][-1],
        settings=settings_of(plan, experiment, events),
        factor_types={p.name: p.type for p in workload.parameters},
        conditions=workload.conditions,
        defaults=workload.defaults if not experiment.params else _asked_about(workload),
    )


def _asked_about(workload: Workload) -> dict[str, Level]:
    """Return the defaults of the parameters that others depend on, where a plan has levels of its own."""
    every = (condition.parameter for each in workload.conditions.values() for condition in each)
    return {name: workload.defaults[name] for name in every}


def _marked(
    found: ExperimentResults, plan: Plan, experiment: PlannedExperiment, columns: Columns
) -> ExperimentResults:
    """Return `found` with its affected samples marked, where points were repeated after interference."""
    points = []
    for point in found.points:
        told_by = interference.telling(plan, experiment, point.factors)
        duration_ns = found.duration_ns(point)
        if told_by and duration_ns is not None:
            marks = interference.find(point.covariates, duration_ns, told_by)
            points.append(replace(point, interference=marks, covariates=_kept(point, columns)))
        else:
            points.append(point)
    return replace(found, points=tuple(points))


def _kept(point: PointSamples, columns: Columns) -> Mapping[str, Floats]:
    """Return the covariates that were asked for: with the metrics only the one that comparisons need."""
    if columns == "all":
        return point.covariates
    return {name: values for name, values in point.covariates.items() if name == CORE_LOADS}


def join_environment(events: Mapping[str, list[Any]], experiment: str | None = None) -> dict[str, Any]:
    """Return the environment at the start, with that at the end and the laboratory's versions beside it.

    That of an `experiment` measured in guests is its first guest's; nothing is left of that one at the end.
    """
    own = [boot for boot in events.get("boot", []) if boot["experiment"] == experiment]
    here = events.get("environment", [])
    found = [boot["environment"] for boot in own if "environment" in boot] or here
    first = dict(found[0]) if found else {}
    # A program of the user's own has another clock, on the same machine.
    programs = [each for each in events.get("program", []) if each["experiment"] == experiment]
    first |= programs[0]["environment"] if programs else {}
    boots = list(dict.fromkeys(each.get("boot_id") for each in own or here))
    after = events["environment_after"][-1] if events.get("environment_after") and not own else None
    laboratory = events["laboratory"][-1] if events.get("laboratory") else None
    return {**first, "boots": boots, "after": after, "laboratory": laboratory}


@dataclass
class _Samples:
    """All samples of a point as columns."""

    names: list[str]
    """Of the values: the metrics, then the covariates read."""
    values: Floats
    fixed: dict[str, Any]
    failed: list[tuple[int, str]]


def _names(row: sa.Row[Any], plan: Plan, events: Mapping[str, list[Any]], columns: Columns) -> list[str]:
    """Return the names of the values to read, in the order in which a sample has them."""
    names = [*orjson.loads(row.columns), *(name for more in events.get("columns", ()) for name in more)]
    (experiment,) = (each for each in plan.experiments if each.name == row.experiment)
    # Figures of the instructions clock cannot be judged without the interrupts.
    if columns == "metrics" and not any(counted(metric.unit) for metric in experiment.workload.metrics):
        count = len(experiment.metrics)
        needed = {*interference.telling(plan, experiment, experiment.points[row.number]), CORE_LOADS}
        # Covariates that show what was affected by interference, or how fast the core was, are read as
        # well: all up to the last of them.
        return names[: max((at + 1 for at in range(count, len(names)) if names[at] in needed), default=count)]
    return names


def _load_point(
    row: sa.Row[Any],
    experiment: PlannedExperiment,
    samples: _Samples,
    events: Mapping[str, list[Any]],
    unmeasured: Mapping[str, str | None],
) -> PointSamples:
    names, values = samples.names, samples.values
    # Cut by position: a covariate may have a metric's name.
    count = len(experiment.metrics)
    metrics = dict(zip(names[:count], values.T[:count], strict=True))
    columns = dict(zip(names[count:], values.T[count:], strict=True))
    losses = [
        f"block {loss['block']} was lost: {loss['text']}"
        for kind in ("death", "failure")
        for loss in events.get(kind, ())
    ]
    block, rep = samples.fixed["block"], samples.fixed["rep"]
    again = [
        np.flatnonzero((block == order["block"]) & (rep >= order["first_rep"]))
        for order in events.get("again", ())
    ]
    skip = events["skipped"][-1] if events.get("skipped") else None
    if skip is None and not len(values):
        skip = {"reason": losses[-1], "remedy": "measure more blocks"} if losses else unmeasured
    return PointSamples(
        factors=experiment.points[row.number],
        metrics=metrics,
        covariates=columns,
        failed=tuple(samples.failed),
        again=tuple(int(index) for found in again for index in found),
        notes=(*events.get("note", ()), *losses),
        skipped=skip["reason"] if skip else None,
        remedy=skip["remedy"] if skip else None,
        traces=tuple(events.get("trace", ())),
        **samples.fixed,
    )


def _read_points(connection: sa.Connection, names: Mapping[int, list[str]]) -> Iterator[_Samples]:
    """Yield the samples of each point, in their order; small points are read many at a time.

    A query costs as much as reading hundreds of samples, and a fleet has many points of few samples.
    """
    key = schema.sample.c.point_id
    query = sa.select(key, sa.func.count()).where(key.in_(list(names))).group_by(key)
    counts: dict[int, int] = dict(connection.execute(query).all())
    batch: list[int] = []
    size = 0
    for point_id in names:
        count = counts.get(point_id, 0)
        if size + count > _CHUNK:
            yield from _read_together(connection, batch, names)
            batch, size = [], 0
        if count > _CHUNK:
            yield _read_samples(connection, point_id, names[point_id], count)
        else:
            batch.append(point_id)
            size += count
    yield from _read_together(connection, batch, names)


def _read_together(
    connection: sa.Connection, points: Sequence[int], names: Mapping[int, list[str]]
) -> Iterator[_Samples]:
    """Yield the samples of points that have few."""
    if not points:
        return
    table = schema.sample
    query = (
        sa.select(*(table.c[name] for name in _FIXED), table.c.failed, table.c["values"], table.c.point_id)
        .where(table.c.point_id.in_(points))
        .order_by(table.c.point_id, table.c.block, table.c.rep)
    )
    rows = [row for chunk in _chunks(connection.execute(query)) for row in chunk]
    columns = list(zip(*rows, strict=True)) or [()] * (len(_FIXED) + 3)
    *fixed, failed, texts, keys = columns
    numbers = {
        name: np.array(column, np.int64 if name in _WHOLE else np.float64)
        for name, column in zip(_FIXED, fixed, strict=True)
    }
    own = np.array(keys, np.int64)
    for point_id in points:
        start, end = np.searchsorted(own, [point_id, point_id + 1]).tolist()
        values = np.full((end - start, len(names[point_id])), np.nan, order="F")
        if end > start:
            _fill(values, texts[start:end])
        yield _Samples(
            names[point_id],
            values,
            {name: column[start:end].copy() for name, column in numbers.items()},
            [(index, text) for index, text in enumerate(failed[start:end]) if text is not None],
        )


def _read_samples(connection: sa.Connection, point_id: int, names: list[str], count: int) -> _Samples:
    table = schema.sample
    fixed: dict[str, Any] = {name: np.empty(count, np.int64) for name in _WHOLE}
    fixed |= {name: np.empty(count, np.float64) for name in _REAL}
    values = np.full((count, len(names)), np.nan, order="F")
    failed: list[tuple[int, str]] = []
    query = (
        sa.select(*(table.c[name] for name in _FIXED), table.c.failed, table.c["values"])
        .where(table.c.point_id == point_id)
        .order_by(table.c.block, table.c.rep)
    )
    start = 0
    for rows in _chunks(connection.execute(query)):
        columns = list(zip(*rows, strict=True))
        end = start + len(rows)
        for name, column in zip(_FIXED, columns, strict=False):
            fixed[name][start:end] = column
        failed += [(start + i, text) for i, text in enumerate(columns[-2]) if text is not None]
        _fill(values[start:end], columns[-1])
        start = end
    return _Samples(names, values, fixed, failed)


def _chunks(result: sa.CursorResult[Any]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Yield the driver's own tuples, many at a time.

    They are plain numbers and texts, and making a Row of each costs a third of the time. The statement must
    not be streamed: SQLAlchemy would have fetched the first rows already.
    """
    while rows := result.cursor.fetchmany(_CHUNK):
        yield rows
    result.close()


def _fill(target: Floats, texts: Sequence[str]) -> None:
    """Decode the values of many samples at once; null and columns that came later are NaN.

    Values beyond the target's columns are cut off unread, which spares most of the time.
    """
    columns = target.shape[1]
    if texts[0].count(",") >= columns:
        texts = ["[" + ",".join(text[1:].split(",", columns)[:columns]) + "]" for text in texts]
    rows = orjson.loads("[" + ",".join(texts) + "]")
    if len({len(row) for row in rows}) == 1:
        target[:, : len(rows[0])] = np.array(rows, dtype=np.float64)
        return
    for index, row in enumerate(rows):
        target[index, : min(len(row), columns)] = np.array(row[:columns], dtype=np.float64)
