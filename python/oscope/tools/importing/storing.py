"""Puts what another tool measured into the store, as a run that says what it lacks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson

from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe.catalogue import Metric, Parameter, Workload
from oscope.storage.store import Happening, Store
from oscope.tools.importing.value import BENCHMARK, Imported, Reading, Series


def store(found: Imported, name: str, file: str, store: Store) -> str:
    """Store what was `found` in a file called `file` as the experiment `name`; return the run's id.

    What has no value of the headline, as a bandwidth has no time, is an experiment of its own.
    """
    parts = _parts(found, name)
    experiments = tuple(_experiment(found.tool, *part) for part in parts.items())
    plan = Plan(0, "full", f"imported from {found.tool}", None, None, experiments)
    environment = {
        "imported": {"tool": found.tool, "about": found.about, "file": file, "lacks": list(found.lacks)},
    }
    about = f" ({found.about})" if found.about else ""
    note = f"imported from {found.tool}{about}, which lacks {', '.join(found.lacks)}"
    happenings = [Happening("environment", environment)]
    happenings += [Happening("note", text) for text in (note, *found.notes)]
    run_id = store.create_run(plan, happenings)
    ids = store.point_ids(run_id)
    now = time.time_ns()
    rows = [
        {"point_id": ids[part, number], "rep": rep, "started_ns": now, **_row(reading, metrics)}
        for part, (metrics, those) in parts.items()
        for number, series in enumerate(those)
        for rep, reading in enumerate(series.readings)
    ]
    store.add(run_id, rows, [Happening("status", "done")])
    return run_id


Part = tuple[Sequence[Metric], Sequence[Series]]


def _parts(found: Imported, name: str) -> dict[str, Part]:
    """Return the experiments by their names: the series whose first metric with a value is the same."""
    by_metric: dict[str, list[Series]] = {}
    for series in found.series:
        own = _with_values(found.metrics, [series]) or found.metrics
        by_metric.setdefault(own[0].name, []).append(series)
    if len(by_metric) == 1:
        # What has no value at all, such as an event that perf could not count, is shown as not measured.
        return {name: (found.metrics, found.series)}
    names = [metric.name for metric in found.metrics]
    return {
        f"{name}.{metric}" if number else name: (_with_values(found.metrics, own) or found.metrics, own)
        for number, (metric, own) in enumerate(sorted(by_metric.items(), key=lambda one: names.index(one[0])))
    }


def _with_values(metrics: Sequence[Metric], found: Sequence[Series]) -> Sequence[Metric]:
    readings = [reading.metrics for series in found for reading in series.readings]
    return [metric for metric in metrics if any(each.get(metric.name) is not None for each in readings)]


def _experiment(tool: str, name: str, part: Part) -> PlannedExperiment:
    metrics, found = part
    names = tuple(series.name for series in found)
    parameter = Parameter(BENCHMARK, "choice", names[0], names, doc="The name that the tool gives it.")
    workload = Workload(
        name=f"imported.{tool}",
        version=1,
        purpose=f"What {tool} measured",
        timing_model=f"as {tool} times it; raw is the time of all iterations in ns, where there is one",
        parameters=(parameter,),
        metrics=tuple(metrics),
    )
    return PlannedExperiment(
        name=name,
        title=f"What {tool} measured",
        question=f"What did {tool} measure?",
        metrics=tuple(metric.name for metric in metrics),
        points=tuple({BENCHMARK: each} for each in names),
        reps=max(1, *(len(series.readings) for series in found)),
        blocks=max(1, *(len({r.block for r in series.readings}) for series in found)),
        min_time_ns=1,
        workload=workload,
    )


def _row(reading: Reading, metrics: Sequence[Metric]) -> dict[str, Any]:
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
        "values": orjson.dumps([reading.metrics.get(metric.name) for metric in metrics]).decode(),
    }
