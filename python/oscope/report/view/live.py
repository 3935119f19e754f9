"""A run while it goes on: where it stands, and each point's samples as they are committed.

Another process is measuring, so reading is cheap: once a second at most, however many pages ask; with SQLite
nothing is read unless the file changed; of the samples only those that are new are read, and of these only
the headline metric. Intervals, which take a bootstrap, follow when the run has ended.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import sqlalchemy as sa

from oscope.figures import plots
from oscope.figures.analysed import level_text
from oscope.figures.answer_text import with_unit
from oscope.model.document import Figure
from oscope.model.formatting import Scale
from oscope.planning.plan import PlannedExperiment
from oscope.storage import schema
from oscope.storage.store import Store

LEAST_INTERVAL_S = 1.0
"""Between two looks into the store."""
PACE_S = 30.0
"""Of the newest samples, from which the time left is estimated."""
SILENT_S = 60.0
"""Without a sample for so long, a run may have been killed."""
MOST_ROWS = 40
"""Points that a figure shows."""
MOST_SAMPLES = 60
"""Samples that a figure shows of a point: the browser draws on the machine that is measured."""
NUMBER_LETTERS = 32
"""A number in JSON is never longer."""


@dataclass
class LivePoint:
    """A point and what has been read of it."""

    id: int
    label: str
    values: array[float] = field(default_factory=lambda: array("d"))
    """Of the headline metric, those that are finite."""
    samples: int = 0
    last: tuple[int, int] = (-1, -1)
    """Block and repetition of the newest sample read."""


@dataclass
class LiveExperiment:
    """An experiment and how far it is."""

    planned: PlannedExperiment
    points: list[LivePoint]
    again: int = 0
    """Samples that repeat others after interference."""
    skipped: int = 0
    """Points that cannot be measured."""
    started: list[int] = field(default_factory=list)
    """When each sample began, CLOCK_REALTIME in ns, ascending."""
    version: int = 0
    """The look that last found something new."""

    @property
    def samples(self) -> int:
        """How many were read."""
        return len(self.started)

    @property
    def total(self) -> int | None:
        """How many there will be; None where a precision or the time decides."""
        if self.planned.blocks is None:
            return None
        return self.planned.reps * (len(self.points) - self.skipped) + self.again

    def seconds_left(self, now_ns: int) -> float | None:
        """Return the time left at the pace of the newest samples; None where it is not known."""
        if self.total is None or self.samples < 2:
            return None
        first = bisect_left(self.started, self.started[-1] - int(PACE_S * 1e9))
        span, count = self.started[-1] - self.started[first], self.samples - 1 - first
        if span <= 0 or count <= 0:
            return None
        left = max(0, self.total - self.samples) * span / count
        return max(0.0, left - max(0, now_ns - self.started[-1])) / 1e9


class LiveRun:
    """A run that is read as it grows; for several threads."""

    def __init__(self, place: str | Path | None, run_id: str) -> None:
        """Follow the run `run_id` of the store at `place`; UsageError where there is none."""
        self.status = "unfinished"
        self.version = 0
        """Rises with each look that finds something new."""
        self.asked = time.monotonic()
        self._store = Store.read(place, read_only=True)
        # UsageError where there is no such run.
        self.run_id = self._store.resolve(run_id)
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._event = 0
        self._data_version: object = None
        self.plan = self._store.plan(self.run_id)
        ids = self._store.point_ids(self.run_id)
        self._can_resume = self.plan.build is None
        """Blocks of interleaved runs are pairs: none of them is resumed."""
        self.experiments = {
            each.name: LiveExperiment(each, _points(each, ids)) for each in self.plan.experiments
        }
        self._by_id = {
            point.id: (experiment, point)
            for experiment in self.experiments.values()
            for point in experiment.points
        }

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            self._store.close()

    def refresh(self) -> None:
        """Read what is new, unless that was done within the last second."""
        with self._lock:
            self.asked = now = time.monotonic()
            if now - self._looked < LEAST_INTERVAL_S:
                return
            self._looked = now
            with self._store.reading() as connection:
                if not self._has_changed(connection):
                    return
                found = self._read_events(connection)
                found |= self._read_samples(connection)
            self.version += found

    def _has_changed(self, connection: sa.Connection) -> bool:
        """Say whether another process may have written since the last look."""
        if connection.dialect.name != "sqlite":
            return True
        version = connection.exec_driver_sql("PRAGMA data_version").scalar()
        changed = version != self._data_version
        self._data_version = version
        return changed

    def _read_events(self, connection: sa.Connection) -> bool:
        table = schema.event
        query = (
            sa.select(table.c.id, table.c.point_id, table.c.kind, table.c.data)
            .where(table.c.run_id == self.run_id, table.c.id > self._event)
            .where(table.c.kind.in_(("status", "again", "skipped", "interleaved")))
            .order_by(table.c.id)
        )
        rows = connection.execute(query).all()
        for number, point_id, kind, data in rows:
            self._event = number
            if kind == "status":
                self.status = orjson.loads(data)
                continue
            if kind == "interleaved":
                self._can_resume = False
                continue
            experiment, _ = self._by_id[point_id]
            if kind == "again":
                experiment.again += orjson.loads(data)["count"]
            else:
                experiment.skipped += 1
        return bool(rows)

    def _read_samples(self, connection: sa.Connection) -> bool:
        new: set[str] = set()
        for point_id, block, rep in connection.execute(_NEWEST, {"run": self.run_id}):
            experiment, point = self._by_id[point_id]
            if block is not None and (block, rep) > point.last:
                _extend(experiment, point, connection)
                new.add(experiment.planned.name)
        for name in new:
            self.experiments[name].started.sort()
            self.experiments[name].version = self.version + 1
        return bool(new)

    def current(self) -> LiveExperiment | None:
        """Return the experiment of the newest sample; None where there is no sample yet."""
        begun = [each for each in self.experiments.values() if each.started]
        return max(begun, key=lambda each: each.started[-1], default=None)

    def state(self, known: int, name: str | None = None) -> dict[str, Any]:
        """Return where the run stands, as an object for JSON.

        The figure is that of the experiment `name`, or of the one being measured; it is left out where a page
        that knows the look `known` has it already.
        """
        with self._lock:
            shown = self.experiments.get(name or "") or self.current()
            state = self._progress()
            if shown is not None and shown.version > known:
                drawn = figure(shown)
                state["figure"] = {"traces": drawn.traces, "layout": drawn.layout}
            if shown is not None:
                state["shown"] = shown.planned.name
                state["title"] = shown.planned.title or shown.planned.name
            return state

    def _progress(self) -> dict[str, Any]:
        every = list(self.experiments.values())
        totals = [each.total for each in every]
        current = self.current()
        now_ns = time.time_ns()
        return {
            "version": self.version,
            "status": self.status,
            "samples": sum(each.samples for each in every),
            "total": None if None in totals else sum(total or 0 for total in totals),
            "share": _share(every),
            "words": self._words(current, now_ns),
            "experiments": [
                {
                    "name": each.planned.name,
                    "samples": each.samples,
                    "total": each.total,
                    "points": sum(point.samples > 0 for point in each.points),
                    "of_points": len(each.points),
                    "is_current": each is current,
                }
                for each in every
            ],
        }

    def _words(self, current: LiveExperiment | None, now_ns: int) -> str:
        """Say what is measured now, and how long it takes, where that is known."""
        if current is None:
            return "No sample yet."
        silent_s = (now_ns - current.started[-1]) / 1e9
        if silent_s > SILENT_S and self.plan.spread_s is None:
            remedy = f"oscope run --resume {self.run_id}" if self._can_resume else "begin the comparison anew"
            return f"No sample for {_duration(silent_s)}. If the run was killed: {remedy}"
        names = list(self.experiments)
        place = names.index(current.planned.name) + 1
        words = f"Measuring {current.planned.name}"
        words += f", experiment {place} of {len(names)}" if len(names) > 1 else ""
        return f"{words}{self._left(current, now_ns)}."

    def _left(self, current: LiveExperiment, now_ns: int) -> str:
        if self.plan.spread_s is not None:
            return f"; the blocks are spread over {_duration(self.plan.spread_s)}"
        left = current.seconds_left(now_ns)
        if left is not None:
            of_it = " of this experiment" if len(self.experiments) > 1 else ""
            return f"; about {_duration(left)}{of_it} left"
        if self.plan.budget_s is not None:
            first = min(each.started[0] for each in self.experiments.values() if each.started)
            left = max(0.0, self.plan.budget_s - (now_ns - first) / 1e9)
            return f"; at most {_duration(left)} left"
        return ""


def _newest() -> sa.Select[Any]:
    """Return the statement that gives, of each point of a run, block and repetition of its newest sample.

    A look into the key a point, in one statement: what is not new is not read.
    """
    point, sample = schema.point, schema.sample

    def newest(column: sa.ColumnElement[Any]) -> sa.ScalarSelect[Any]:
        return (
            sa.select(column)
            .where(sample.c.point_id == point.c.id)
            .order_by(sample.c.block.desc(), sample.c.rep.desc())
            .limit(1)
            .scalar_subquery()
        )

    return sa.select(point.c.id, newest(sample.c.block), newest(sample.c.rep)).where(
        point.c.run_id == sa.bindparam("run")
    )


_NEWEST = _newest()


def _points(planned: PlannedExperiment, ids: Mapping[tuple[str, int], int]) -> list[LivePoint]:
    kinds = {parameter.name: parameter.type for parameter in planned.workload.parameters}
    names = dict.fromkeys(name for factors in planned.points for name in factors)
    varied = [name for name in names if len({factors.get(name) for factors in planned.points}) > 1]
    return [
        LivePoint(
            ids[planned.name, number],
            " · ".join(level_text(factors[name], kinds.get(name)) for name in varied if name in factors)
            or planned.name,
        )
        for number, factors in enumerate(planned.points)
    ]


def _extend(experiment: LiveExperiment, point: LivePoint, connection: sa.Connection) -> None:
    """Read the samples of a point that are newer than what is known of it."""
    table = schema.sample
    block, rep = point.last
    query = (
        sa.select(
            table.c.block,
            table.c.rep,
            table.c.started_ns,
            sa.func.substr(table.c["values"], 1, NUMBER_LETTERS),
        )
        .where(table.c.point_id == point.id, table.c.block >= block)
        .where(sa.or_(table.c.block > block, table.c.rep > rep))
        .order_by(table.c.block, table.c.rep)
    )
    for each_block, each_rep, started_ns, text in connection.execute(query):
        point.last = (each_block, each_rep)
        point.samples += 1
        experiment.started.append(started_ns)
        # The headline is the first of the values; a failed sample has none.
        value = text[1:].partition(",")[0].rstrip("]")
        if value not in ("", "null"):
            point.values.append(float(value))


def figure(experiment: LiveExperiment) -> Figure:
    """Return the samples and medians of each point so far."""
    headline = experiment.planned.metrics[0]
    unit = next(m.unit for m in experiment.planned.workload.metrics if m.name == headline)
    points = [point for point in experiment.points if point.values][:MOST_ROWS]
    medians = [float(np.median(np.frombuffer(point.values))) for point in points]
    scale = Scale.choose(medians, [abs(each) / 100 for each in medians], unit)
    dots = [
        plots.Dot(
            point.label,
            median / scale.factor,
            None,
            plots.thin(np.frombuffer(point.values), MOST_SAMPLES) / scale.factor,
        )
        for point, median in zip(points, medians, strict=True)
    ]
    return plots.strips(experiment.planned.title, with_unit(headline, scale.unit), dots)


def _share(experiments: Sequence[LiveExperiment]) -> float | None:
    """Return how much of the run is done: experiments count alike, since samples take so different a time.

    None where it is not known.
    """
    parts = [
        1.0 if total == 0 else min(1.0, each.samples / total)
        for each in experiments
        if (total := each.total) is not None
    ]
    return sum(parts) / len(parts) if parts and len(parts) == len(experiments) else None


def _duration(seconds: float) -> str:
    """Return a duration as a person says it, `40 s` or `3 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class LiveRuns:
    """The runs that are followed: each by one reader, however many pages show it."""

    IDLE_S = 30.0
    """A run that no page asked about for so long is let go of."""

    def __init__(self, place: str | Path | None) -> None:
        """Follow runs of the store at `place`."""
        self._place = place
        self._runs: dict[str, LiveRun] = {}
        self._lock = threading.Lock()

    def get(self, run_id: str) -> LiveRun:
        """Return the run, read up to now."""
        with self._lock:
            now = time.monotonic()
            for other in [
                key for key, run in self._runs.items() if now - run.asked > self.IDLE_S and key != run_id
            ]:
                self._runs.pop(other).close()
            run = self._runs.get(run_id)
            if run is None:
                run = self._runs[run_id] = LiveRun(self._place, run_id)
        run.refresh()
        return run

    def close(self) -> None:
        """Let go of all of them."""
        with self._lock:
            for run in self._runs.values():
                run.close()
            self._runs.clear()
