"""Where one point of a run stands: what was taken of it, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oscope.model.factors import Factors
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
    columns: Sequence[str]
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

    def missing(self, block: int) -> int:
        """Return how many samples of `block` are still to be taken."""
        if self.skipped or block in self.closed:
            return 0
        requested = self.experiment.block_reps(block) + self.again.get(block, 0)
        return max(0, requested - self.taken.get(block, 0))

    def keep(self, block: int, samples: Sequence[Sample], columns: Sequence[str]) -> None:
        """Take notice of samples of a block, whose rows have these columns."""
        self.columns = columns
        self.taken[block] = self.taken.get(block, 0) + len(samples)
        self.failed += [sample.failed for sample in samples if sample.failed is not None]

    def apply(self, kind: str, data: Any) -> None:
        """Take notice of what happened to the point, now or before the run was resumed."""
        if kind in LOSSES:
            self.deaths += kind == "death"
            self.failures += kind == "failure"
            self.closed.add(data["block"])
        elif kind == "columns":
            self.columns = (*self.columns, *data)
        elif kind == "iterations":
            self.iterations = data
        elif kind == "skipped":
            self.skipped = True
        elif kind == "note":
            self.notes.add(data)
        elif kind == "again":
            self.again[data["block"]] = data["count"]
