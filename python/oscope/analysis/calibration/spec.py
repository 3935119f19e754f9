"""What a calibration measures: a value from which it can be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from oscope.model.errors import UsageError
from oscope.model.factors import Level
from oscope.runner.duet_cpus import is_possible

Way = Literal["interleaved", "in sequence", "duet"]

WAYS: tuple[Way, ...] = ("interleaved", "in sequence")
"""How the two sides of a pair are measured: their blocks interleaved, or one run and then the other."""

DUET: Way = "duet"
"""Or both at the same time, on two CPUs (`oscope.runner.duet`), where the machine has enough of them."""

LOADS = ("none", "sibling", "memory")
"""What else the machine does meanwhile: nothing, or what `oscope inject` calls so, in phases."""

EFFECTS = (0.01, 0.02, 0.05)
_MOST_EFFECT = 10.0

QUICK_PAIRS = 6
"""Runs of each subject in a quick calibration, spread over its length: they show how much runs differ."""
QUICK_SECONDS = 3.5
QUICK_BOTH_SECONDS = 2.5
"""Where duets are measured as well."""
QUICK_REPS = 5
"""Samples of a side in a block; as few as `oscope ab` takes, since many pairs of blocks show more."""


@dataclass(frozen=True)
class Subject:
    """One point of one experiment. A delay in its measured region moves its headline in proportion."""

    experiment: str
    settings: Mapping[str, Level] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return `syscall.cost getppid loop`."""
        return " ".join([self.experiment, *map(str, self.settings.values())])


SUBJECTS = (
    Subject("syscall.cost", {"call": "getppid", "style": "loop"}),
    Subject("memory.latency", {"size": "64K", "stride": 64, "pages": "4K", "order": "random"}),
    Subject("memory.bandwidth", {"operation": "read", "threads": 1, "size": "4M", "window": 0}),
    Subject("memory.fault", {"kind": "zero-page", "threads": 1, "size": "4M"}),
    Subject(
        "disk.read", {"block_size": "64K", "cache": "warm", "engine": "read", "threads": 1, "size": "4M"}
    ),
)
"""Those of a calibration by default: a call, a cache, the memory, the kernel's memory, its page cache. All
are fast, so that many pairs fit into minutes."""


@dataclass(frozen=True)
class CalibrationSpec:
    """What is calibrated, and how often."""

    subjects: tuple[Subject, ...] = SUBJECTS
    ways: tuple[Way, ...] = WAYS
    pairs: int = 20
    """Pairs of equal sides for each subject and way; as many, for each effect, of sides that differ."""
    equal: bool = True
    """Whether pairs of equal sides are measured at all."""
    effects: tuple[float, ...] = EFFECTS
    """By which shares side B is slowed down, each in pairs of its own; 0.02 is 2 %."""
    blocks: int = 10
    reps: int = 10
    """Samples of each side in a block."""
    load: str = "none"
    seconds: float | None = None
    """What each interleaved pair of equal sides takes, in place of a number of blocks."""
    seed: int = 0
    """Decides the order of the pairs, and of all within them."""

    def check(self) -> None:
        """Raise UsageError where it makes no sense."""
        if self.pairs < 1:
            raise UsageError(f"--pairs {self.pairs} calibrates nothing", remedy="give 1 or more")
        if self.blocks < 2:
            raise UsageError(f"--blocks {self.blocks} shows no spread", remedy="give 2 or more")
        if self.reps < 1:
            raise UsageError(f"--reps {self.reps} measures nothing", remedy="give 1 or more")
        paired = {*self.ways} <= {WAYS[0], DUET}
        if self.seconds is not None and (not paired or self.effects or self.seconds <= 0):
            raise UsageError(
                "a time is given to interleaved pairs of equal sides only", remedy="give a number of blocks"
            )
        if not (self.equal or self.effects):
            raise UsageError("neither equal sides nor an effect", remedy="name an effect such as 2%")
        for effect in self.effects:
            if not 0 < effect <= _MOST_EFFECT:
                raise UsageError(f"--effect {effect:g} is no slow-down", remedy="give shares such as 1%,2%")
        if self.load not in LOADS:
            raise UsageError(f"there is no load {self.load!r}", remedy=f"there are {', '.join(LOADS)}")

    def to_object(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "subjects": [{"experiment": s.experiment, "settings": dict(s.settings)} for s in self.subjects],
            "ways": list(self.ways),
            "pairs": self.pairs,
            "equal": self.equal,
            "effects": list(self.effects),
            "blocks": self.blocks,
            "reps": self.reps,
            "load": self.load,
            "seconds": self.seconds,
            "seed": self.seed,
        }


def quick(
    subjects: tuple[Subject, ...] = SUBJECTS, load: str = "none", seed: int = 0, duet: bool | None = None
) -> CalibrationSpec:
    """Return a calibration of two minutes: interleaved pairs of equal sides, a few of each subject.

    With `duet` of three minutes, as many pairs measured as duets besides; None: where the machine can.
    """
    if duet is None:
        # A load takes a CPU of its own.

        duet = load == "none" and is_possible()
    return CalibrationSpec(
        subjects,
        (*WAYS[:1], *((DUET,) if duet else ())),
        pairs=QUICK_PAIRS,
        effects=(),
        reps=QUICK_REPS,
        load=load,
        seconds=QUICK_BOTH_SECONDS if duet else QUICK_SECONDS,
        seed=seed,
    )
