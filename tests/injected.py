"""Runs with injected interference: their samples parted by the truth, and stored runs marked as such."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from oscope.model.samples import Floats
from oscope.runner.injection.spec import Injection


def sides(record: dict[str, Any], cause: str, covariate: str) -> tuple[Floats, Floats]:
    """Return `covariate` of the samples wholly within phases of `cause`, and of those wholly outside."""
    (point,) = record["points"]
    samples = point["samples"]
    values = np.array(samples["covariates"][covariate], dtype=float)
    began = np.array(samples["started_ns"])
    ended = began + np.array(samples["raw"]) * 1e9 / record["environment"]["clock"]["hz"]
    within, outside = np.zeros(len(began), dtype=bool), np.ones(len(began), dtype=bool)
    for phase in record["settings"]["injection"]["phases"]:
        if phase["cause"] == cause:
            within |= (began >= phase["from_ns"]) & (ended <= phase["to_ns"])
            outside &= (ended < phase["from_ns"]) | (began > phase["to_ns"])
    return values[within], values[outside]


def mark_as_injected(store: Path, run: str) -> None:
    """Have a stored run be one with an injected hog, though nothing was injected."""
    with contextlib.closing(sqlite3.connect(store)) as database, database:
        database.execute(
            "UPDATE run SET plan = json_set(plan, '$.injection', json(?)) WHERE id = ?",
            (json.dumps(Injection(causes=("hog",)).to_object()), run),
        )


def processes_below(root: int) -> set[int]:
    """Return the living processes that descend from `root`."""
    parents = {number: parent for number, parent, _ in _living()}
    found = {root}
    while more := {number for number, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def living(numbers: Iterable[int]) -> set[int]:
    """Return those of `numbers` whose processes live, and are not only unburied."""
    return {number for number, _, state in _living() if state not in "ZX"} & set(numbers)


def cpu_s(number: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    user, system = (
        Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[at] for at in (11, 12)
    )
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _living() -> Iterable[tuple[int, int, str]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(entry.name), int(parent), state
