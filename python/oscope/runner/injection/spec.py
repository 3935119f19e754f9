"""What is injected into a run: a value from which it can be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from oscope.model.errors import UsageError
from oscope.model.injection import injected_causes
from oscope.runner.injection.causes import Cause, parse

ON_S = 0.2
OFF_S = 0.3
"""Mean lengths of the phases with and without what acts on the machine."""
ON_REPS = 10.0
OFF_REPS = 15.0
"""Mean repetitions of the phases with and without a delay."""
_SEEDS = 2**63


@dataclass(frozen=True)
class Injection:
    """What is injected, and in which phases."""

    causes: tuple[str, ...] = ()
    """Those that act on the machine."""
    delay_ns: float = 0.0
    """Added to each iteration in the measured region, in phases of repetitions."""
    drift_ns_per_s: float = 0.0
    """Added to that, growing with each second of the run, without phases."""
    seed: int = 0
    """Decides the lengths of all phases."""
    steady: bool = False
    """All the time, instead of in phases."""
    on_s: float = ON_S
    off_s: float = OFF_S
    on_reps: float = ON_REPS
    off_reps: float = OFF_REPS
    paths: tuple[str, ...] = ()
    """Files to evict; none: those of the whole machine."""

    @classmethod
    def parse(cls, texts: Sequence[str], known: dict[str, Cause], seed: int) -> Injection:
        """Read what `--inject` names, such as `hog,delay=2us`. Raises UsageError."""
        causes = parse(texts, known)
        in_region = {name: seconds for name, seconds in causes.items() if seconds is not None}
        for name, seconds in in_region.items():
            if not 0 < seconds <= 1:
                raise UsageError(f"--inject {name}: not above 0 and at most 1 s", remedy=f"write {name}=2us")
        return cls(
            causes=tuple(name for name in causes if name not in in_region),
            delay_ns=in_region.get("delay", 0.0) * 1e9,
            drift_ns_per_s=in_region.get("drift", 0.0) * 1e9,
            seed=seed,
        )

    @classmethod
    def from_object(cls, data: Mapping[str, Any]) -> Injection:
        """Read what `to_object` returned."""
        return cls(**{**data, "causes": tuple(data["causes"]), "paths": tuple(data["paths"])})

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object from which `from_object` makes an equal value."""
        return asdict(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Every cause, those in the measured region with their amounts."""
        return injected_causes(self.to_object())

    @property
    def is_null(self) -> bool:
        """Whether nothing is injected by the code that injects: what a delay is compared with."""
        return self.steady and not (self.causes or self.delay_ns or self.drift_ns_per_s)

    @property
    def warning(self) -> str:
        """The note wherever figures of such a run are shown."""
        return f"interference injected by --inject ({', '.join(self.names)}): no clean measurement"

    def request(self, number: int, since_ns: int) -> dict[str, object] | None:
        """Return the field `inject` of the probe's request with this number; None where it has none.

        `since_ns` is when the drift began, by CLOCK_REALTIME.
        """
        if not (self.delay_ns or self.drift_ns_per_s or self.is_null):
            return None
        phases = {} if self.steady else {"on": self.on_reps, "off": self.off_reps}
        return {
            "delay_ns": self.delay_ns,
            "drift_ns_per_s": self.drift_ns_per_s,
            "since_ns": since_ns,
            # Another one for each request, or all would begin with the same phases.
            "seed": (self.seed * 1_000_003 + number) % _SEEDS,
            **phases,
        }

    def words(self) -> list[str]:
        """Return the arguments of the probe's verb for what acts on the machine."""
        phases = ["--steady"] if self.steady else ["--on", f"{self.on_s:.6f}", "--off", f"{self.off_s:.6f}"]
        paths = [f"--path={path}" for path in self.paths]
        return [*self.causes, "--seed", str(self.seed), *phases, *paths]
