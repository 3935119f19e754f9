"""In which order the points of a plan are measured: by the plan alone, so that a run can be resumed."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oscope.planning.plan import Plan, PlannedExperiment
from oscope.trace.factor import UNTRACED, tracer_of


@dataclass(frozen=True)
class Share:
    """How far a run is measured by now: after one of several rounds."""

    number: int
    """Of the round, counted from 1."""
    rounds: int

    def blocks(self, total: int) -> int:
        """Return how many of `total` blocks there are after this round."""
        return -(-self.number * total // self.rounds)

    @property
    def last(self) -> bool:
        """Whether all is measured after this round."""
        return self.number >= self.rounds


WHOLE = Share(1, 1)


@dataclass(frozen=True)
class PointTurn:
    """A point's turn in a block."""

    point: int
    """Index in the experiment's points."""
    reps: int


@dataclass(frozen=True)
class Pass:
    """Turns taken in sequence by one probe process, under one tracer or none."""

    block: int
    tracer: str
    """A level of the factor `tracer`."""
    turns: tuple[PointTurn, ...]


def schedule(plan: Plan, experiment: PlannedExperiment, block: int) -> tuple[PointTurn, ...]:
    """Return the order of all points in `block`, and how many samples each gets.

    The order is a random permutation that depends on the seed, the experiment's name and the block alone, so
    that a resumed run keeps the schedule of the unbroken one, and a run with the same seed repeats it.

    Where instructions are counted it is fixed: it does not depend on the seed. A count may depend on what was
    measured before it in the same boot (a carryover effect), so that runs agree only if their orders do; and
    there is no drift for the seed to average out. The orders of the blocks still differ: what the carryover
    changes is seen within each run.
    """
    # A digest, since Python's own hash of a text differs from process to process.
    name = int.from_bytes(hashlib.sha256(experiment.name.encode()).digest()[:8], "big")
    source = [name, block] if experiment.order == "fixed" else [plan.seed, name, block]
    order = np.random.default_rng(source).permutation(len(experiment.points))
    reps = experiment.block_reps(block)
    return tuple(PointTurn(int(point), reps) for point in order)


def passes(plan: Plan, experiment: PlannedExperiment, blocks: Iterable[int]) -> Iterator[Pass]:
    """Yield the passes over the points in `blocks`, in the order in which they are to be made.

    Several tracers take their turns in random order within a block. A single one is attached but once: its
    blocks lie together in the middle of the others, so that a steady drift hits both sides alike.
    """
    each = [list(_by_tracer(experiment, block, schedule(plan, experiment, block))) for block in blocks]
    if len({tracer_of(point) for point in experiment.points} | {UNTRACED}) != 2:
        yield from itertools.chain.from_iterable(each)
        return
    untraced = [one for block in each for one in block if one.tracer == UNTRACED]
    traced = [one for block in each for one in block if one.tracer != UNTRACED]
    half = (len(untraced) + 1) // 2
    yield from (*untraced[:half], *traced, *untraced[half:])


def _by_tracer(experiment: PlannedExperiment, block: int, order: Sequence[PointTurn]) -> Iterator[Pass]:
    levels = dict.fromkeys(tracer_of(experiment.points[turn.point]) for turn in order)
    for level in levels:
        own = (turn for turn in order if tracer_of(experiment.points[turn.point]) == level)
        yield Pass(block, level, tuple(own))
