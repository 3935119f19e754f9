"""Where one point of a run stands: what was taken of it, and what happened to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from oscope.model.factors import Factors
from oscope.model.samples import COUNTED
from oscope.planning import interference as disturbed
from oscope.planning.plan import PlannedExperiment
from oscope.probe.wire import Sample
from oscope.trace.factor import TRACER

LOSSES = ("death", "failure")
"""Kinds of events that close a block: its missing samples are not tried again, out of the block's order."""


@dataclass
class PointState:
    """Where one point of a run stands."""

    id: int
    experiment: PlannedExperiment
    number: int
    columns: list[str]
    """Names of the values in a sample's row: the metrics, then the covariates."""
    taken: dict[int, int] = field(default_factory=dict)
    """Samples there are of each block."""
    closed: set[int] = field(default_factory=set)
    """Blocks whose missing samples were lost and are not tried again."""
    iterations: int | None = None
    """The loop count found in the first block."""
    deaths: int = 0
    failures: int = 0
    skipped: bool = False
    notes: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    """Reasons of the samples that failed since this process began."""
    told_by: tuple[str, ...] = ()
    """Covariates that show whether a sample was affected by interference; none where nothing is repeated."""
    disturbed: dict[int, Counter[str]] = field(default_factory=dict)
    """Affected samples of each block, by the covariate that shows it."""
    again: dict[int, int] = field(default_factory=dict)
    """Samples that each block gets beyond those planned, because of affected ones."""

    @property
    def factors(self) -> Factors:
        """The point's levels."""
        return self.experiment.points[self.number]

    @property
    def params(self) -> Mapping[str, Any]:
        """What the probe is asked with."""
        if self.experiment.params:
            return self.experiment.params[self.number]
        return {name: level for name, level in self.factors.items() if name != TRACER.name}

    @property
    def label(self) -> str:
        """Name of the point, for messages."""
        levels = " ".join(f"{name}={level}" for name, level in self.factors.items())
        return f"{self.experiment.name} {levels}".rstrip()

    def apply(self, kind: str, data: Any) -> None:
        """Take notice of what happened to the point, now or before the run was resumed."""
        if kind in LOSSES:
            self.deaths += kind == "death"
            self.failures += kind == "failure"
            self.closed.add(data["block"])
        elif kind == "columns":
            self.columns += data
        elif kind == "iterations":
            self.iterations = data
        elif kind == "skipped":
            self.skipped = True
        elif kind == "note":
            self.notes.add(data)
        elif kind == "again":
            self.again[data["block"]] = data["count"]

    def order_again(self, block: int) -> dict[str, Any] | None:
        """Return the order of the repetitions after interference in a complete block; None for a second time.

        None as well where none were affected by interference, or where nothing can be measured any more.
        """
        found = self.disturbed.get(block)
        is_complete = self.taken.get(block) == self.experiment.block_reps(block)
        if not found or not is_complete or self.skipped or block in self.again or block in self.closed:
            return None
        return {
            "block": block,
            "first_rep": self.taken[block],
            "count": found.total(),
            "disturbed": dict(found),
        }

    def missing(self, block: int) -> int:
        """Return how many samples of `block` are still to be taken."""
        if self.skipped or block in self.closed:
            return 0
        wanted = self.experiment.block_reps(block) + self.again.get(block, 0)
        return max(0, wanted - self.taken.get(block, 0))

    def keep_disturbed(self, block: int, samples: Sequence[Sample], hz: float | None) -> None:
        """Remember which samples of a block met interference; `hz` is that of the clock of `raw`."""
        if not self.told_by or hz is None:
            return
        raw = np.array([sample.raw for sample in samples], dtype=np.float64)
        columns = {
            name: np.array([sample.covariates.get(name) for sample in samples], dtype=np.float64)
            for name in (*self.told_by, COUNTED)
        }
        found = disturbed.find(columns, raw * (1e9 / hz), self.told_by)
        self.disturbed.setdefault(block, Counter()).update(name for _, name in found)

    def rows(self, samples: Sequence[Sample], place: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return the samples' rows in the store; `place` has their block, process and boot."""
        count = len(self.experiment.metrics)
        metrics, covariates = self.columns[:count], self.columns[count:]
        first = self.taken.get(place["block"], 0)
        return [
            {
                "point_id": self.id,
                "rep": rep,
                **place,
                "started_ns": sample.started_ns,
                "raw": sample.raw,
                "iterations": sample.iterations,
                "correction": sample.correction,
                "failed": sample.failed,
                # map and dict.get run without the interpreter: this line is the store's bottleneck. Whole
                # numbers are as exact without their ".0", which takes a tenth of the room.
                "values": orjson.dumps(
                    [*map(sample.metrics.get, metrics), *map(sample.covariates.get, covariates)]
                )
                .replace(b".0,", b",")
                .decode(),
            }
            for rep, sample in enumerate(samples, first)
        ]
