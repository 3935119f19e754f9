"""Invented fleets in a store, for tests of what judges fleets: runs of hosts of known cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

import invented_runs
from oscope.model.host import Host
from oscope.planning.plan import Plan, PlannedExperiment, on_host
from oscope.probe.catalogue import Metric, Parameter, Workload
from oscope.storage.fleets import FLEET, FLEET_ROUND
from oscope.storage.store import Store, StoredEvent

COSTS = {"getppid": 100.0, "read": 250.0}
BLOCKS, REPS = 10, 6


def plan() -> Plan:
    """Return the plan of one experiment with two points."""
    metric = Metric("time_ns", "ns", better="less", doc="time of a call")
    workload = Workload(
        name="syscall.cost",
        version=1,
        purpose="Times a system call",
        timing_model="a loop",
        parameters=(Parameter("call", "choice", "getppid", tuple(COSTS), doc="Which call."),),
        metrics=(metric,),
    )
    experiment = PlannedExperiment(
        name="syscall.cost",
        title="System calls",
        question="What does a call cost?",
        metrics=(metric.name,),
        points=tuple({"call": call} for call in COSTS),
        reps=BLOCKS * REPS,
        blocks=BLOCKS,
        min_time_ns=1,
        workload=workload,
    )
    return Plan(1, "full", "local", None, None, (experiment,))


def store_fleet(
    store: Store,
    name: str,
    hosts: int,
    *,
    seed: int,
    factors: Mapping[str, float] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Store a fleet's measurement of hosts n0, n1, ...; the first half of them has the label rack r0.

    `factors` of the cost and `settings` of the CPU are by host. Samples vary by 1 %, blocks by 0.5 %.
    """
    random = np.random.default_rng(seed)
    for index in range(hosts):
        host = Host(f"n{index}", f"n{index}", {"rack": f"r{2 * index // hosts}"})
        environment = {
            **invented_runs.ENVIRONMENT,
            "machine": f"{index:016x}",
            "host": {"name": host.name, "labels": host.labels},
            "cpu": {"governor": "performance"} | dict((settings or {}).get(host.name, {})),
        }
        member = {"fleet": name, "host": host.to_object(), "rounds": 1}
        run_id = store.create_run(
            on_host(plan(), host), [StoredEvent(FLEET, member), StoredEvent("environment", environment)]
        )
        rows = []
        for (_, number), key in store.point_ids(run_id).items():
            cost = list(COSTS.values())[number] * (factors or {}).get(host.name, 1.0)
            for block in range(BLOCKS):
                middle = cost * (1 + random.normal(0, 0.005))
                rows += [_row(key, block, rep, middle * (1 + random.normal(0, 0.01))) for rep in range(REPS)]
        store.add(run_id, rows, [StoredEvent(FLEET_ROUND, 1), StoredEvent("status", "done")])


def _row(key: int, block: int, rep: int, value: float) -> dict[str, Any]:
    return {
        "point_id": key,
        "block": block,
        "rep": rep,
        "process": 1 + block,
        "boot": 0,
        "started_ns": 1_700_000_000_000_000_000 + (block * REPS + rep) * 1_000_000,
        "raw": round(value * 1000),
        "iterations": 1000,
        "correction": 0.0,
        "failed": None,
        "values": json.dumps([value]),
    }
