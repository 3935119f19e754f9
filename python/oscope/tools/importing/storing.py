"""Puts what another tool measured into the store, as a run that says what it lacks."""

from __future__ import annotations

import time
from typing import Any

import orjson

from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe.catalogue import Parameter, Workload
from oscope.storage.store import Happening, Store
from oscope.tools.importing.value import BENCHMARK, Imported, Reading


def store(found: Imported, name: str, file: str, store: Store) -> str:
    """Store what was `found` in a file called `file` as the experiment `name`; return the run's id."""
    plan = _plan(found, name)
    environment = {
        "imported": {"tool": found.tool, "about": found.about, "file": file, "lacks": list(found.lacks)},
    }
    about = f" ({found.about})" if found.about else ""
    note = f"imported from {found.tool}{about}, which lacks {', '.join(found.lacks)}"
    happenings = [Happening("environment", environment)]
    happenings += [Happening("note", text) for text in (note, *found.notes)]
    run_id = store.create_run(plan, happenings)
    ids = store.point_ids(run_id)
    metrics = [metric.name for metric in found.metrics]
    now = time.time_ns()
    rows = [
        {"point_id": ids[name, number], "rep": rep, "started_ns": now, **_row(reading, metrics)}
        for number, series in enumerate(found.series)
        for rep, reading in enumerate(series.readings)
    ]
    store.add(run_id, rows, [Happening("status", "done")])
    return run_id


def _plan(found: Imported, name: str) -> Plan:
    names = tuple(series.name for series in found.series)
    parameter = Parameter(BENCHMARK, "choice", names[0], names, doc="The name that the tool gives it.")
    workload = Workload(
        name=f"imported.{found.tool}",
        version=1,
        purpose=f"What {found.tool} measured",
        timing_model=f"as {found.tool} times it; raw is the time of all iterations in ns, where there is one",
        parameters=(parameter,),
        metrics=found.metrics,
    )
    experiment = PlannedExperiment(
        name=name,
        title=f"What {found.tool} measured",
        question=f"What did {found.tool} measure?",
        metrics=tuple(metric.name for metric in found.metrics),
        points=tuple({BENCHMARK: each} for each in names),
        reps=max(1, *(len(series.readings) for series in found.series)),
        blocks=max(1, *(len({r.block for r in series.readings}) for series in found.series)),
        min_time_ns=1,
        workload=workload,
    )
    return Plan(0, "full", f"imported from {found.tool}", None, None, (experiment,))


def _row(reading: Reading, metrics: list[str]) -> dict[str, Any]:
    time_ns = reading.metrics.get("time_ns")
    raw = None if time_ns is None else round(time_ns * reading.iterations)
    return {
        "block": reading.block,
        "process": 1 + reading.block,
        "boot": 0,
        "raw": raw,
        "iterations": reading.iterations,
        "correction": 0.0,
        "failed": reading.failed,
        "values": orjson.dumps([reading.metrics.get(metric) for metric in metrics]).decode(),
    }
