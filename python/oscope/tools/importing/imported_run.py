"""Puts what another tool measured into the store, as a run that says what it lacks."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe.catalogue import Metric, Parameter, Workload
from oscope.storage.store import Store, StoredEvent
from oscope.tools.importing.value import BENCHMARK, Imported, Reading, Series


def store(found: Imported, name: str, file: str, store: Store) -> str:
    """Store what was `found` in a file called `file` as the experiment `name`; return the run's id.

    What has no value of the headline, as a bandwidth has no time, is an experiment of its own.
    """
    parts = _parts(found, name)
    experiments = tuple(_experiment(found, *part) for part in parts.items())
    plan = Plan(0, "full", f"imported from {found.tool}", None, None, experiments)
    environment: dict[str, dict[str, Any]] = {
        "imported": {"tool": found.tool, "about": found.about, "file": file, "lacks": list(found.lacks)},
    }
    environment["imported"]["sha256"] = digest(found)
    about = f" ({found.about})" if found.about else ""
    note = f"imported from {found.tool}{about}, which lacks {', '.join(found.lacks)}"
    happenings = [StoredEvent("environment", environment)]
    happenings += [StoredEvent("note", text) for text in (note, *found.notes)]
    run_id = store.create_run(plan, happenings)
    ids = store.point_ids(run_id)
    now = time.time_ns()
    rows = [
        {"point_id": ids[part, number], "rep": rep, "started_ns": now, **_row(reading, metrics)}
        for part, (metrics, those) in parts.items()
        for number, series in enumerate(those)
        for rep, reading in enumerate(series.readings)
    ]
    store.add(run_id, rows, [StoredEvent("status", "done")])
    return run_id


def digest(found: Imported) -> str:
    """Return the SHA-256 of what a file holds, however the file is called."""
    return hashlib.sha256(repr(found).encode()).hexdigest()


Part = tuple[Sequence[Metric], Sequence[Series]]


def _parts(found: Imported, name: str) -> dict[str, Part]:
    """Return the experiments by their names: the series of the same factors and the same first metric.

    Others than the first are called after these, as `lmbench.bytes_per_s.size`.
    """
    # What has no value at all, such as an event that perf could not count, is shown as not measured.
    parts: dict[tuple[str, ...], list[Series]] = {}
    for series in found.series:
        metric = (_with_values(found.metrics, [series]) or found.metrics)[0].name
        parts.setdefault((metric, *series.levels), []).append(series)
    if len(parts) == 1:
        return {name: (found.metrics, found.series)}
    order = [metric.name for metric in found.metrics]
    ordered = sorted(parts.items(), key=lambda part: (len(part[0]), order.index(part[0][0])))
    return {
        ".".join((name, *key)) if number else name: (_with_values(found.metrics, own) or found.metrics, own)
        for number, (key, own) in enumerate(ordered)
    }


def _with_values(metrics: Sequence[Metric], found: Sequence[Series]) -> Sequence[Metric]:
    readings = [reading.metrics for series in found for reading in series.readings]
    return [metric for metric in metrics if any(each.get(metric.name) is not None for each in readings)]


def _experiment(imported: Imported, name: str, part: Part) -> PlannedExperiment:
    metrics, found = part
    tool = imported.tool
    names = tuple(dict.fromkeys(series.name for series in found))
    doc = "The name that the tool gives it."
    factors = [Parameter(BENCHMARK, "choice", names[0], names, doc=doc)]
    factors += [_with_choices(each, found) for each in imported.parameters if each.name in found[0].levels]
    workload = Workload(
        name=f"imported.{tool}",
        version=1,
        purpose=f"What {tool} measured",
        timing_model=f"as {tool} times it; raw is the time of all iterations in ns, where there is one",
        parameters=tuple(factors),
        metrics=tuple(metrics),
    )
    return PlannedExperiment(
        name=name,
        title=f"What {tool} measured",
        question=f"What did {tool} measure?",
        metrics=tuple(metric.name for metric in metrics),
        points=tuple({BENCHMARK: series.name, **series.levels} for series in found),
        reps=max(1, *(len(series.readings) for series in found)),
        blocks=max(1, *(len({r.block for r in series.readings}) for series in found)),
        min_time_ns=1,
        workload=workload,
    )


def _with_choices(parameter: Parameter, found: Sequence[Series]) -> Parameter:
    if parameter.type != "choice":
        return parameter
    levels = tuple(dict.fromkeys(str(series.levels[parameter.name]) for series in found))
    return replace(parameter, default=levels[0], choices=levels)


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
