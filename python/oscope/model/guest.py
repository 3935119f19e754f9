"""What a guest is: the value that a plan holds, from which the same guest can be booted again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oscope.model.clocks import Clock
from oscope.model.errors import UsageError

MEMORY_BYTES = 1 << 30
LEAST_MEMORY_BYTES = 192 << 20
"""The initramfs alone takes 30 MB, twice while it is unpacked."""
CPUS = {"instructions": 1, "wall": 2}
MOST_CPUS = 64
"""CONFIG_NR_CPUS of the guests' kernels."""
_MOST_MEMORY_BYTES = 1 << 40
"""What QEMU's CPUs address: 40 bits."""


@dataclass(frozen=True)
class Guest:
    """Where an experiment is measured: a guest under this kernel."""

    kernel: str
    """Id of a kernel that was built here, or the path of another's image."""
    clock: Clock = "wall"
    cpus: int = 2
    memory_bytes: int = MEMORY_BYTES

    def __post_init__(self) -> None:
        """Raise UsageError for a guest that cannot be."""
        if self.clock == "instructions" and self.cpus != 1:
            raise UsageError(
                f"the instructions clock counts those of one CPU, not of {self.cpus}",
                remedy="leave out --cpus, or use --clock wall",
            )
        if not 1 <= self.cpus <= MOST_CPUS:
            raise UsageError(f"a guest cannot have {self.cpus} CPUs", remedy=f"give 1 to {MOST_CPUS}")
        if self.memory_bytes < LEAST_MEMORY_BYTES:
            raise UsageError(
                f"{self.memory_bytes} B of memory are too few for a guest",
                remedy=f"give {LEAST_MEMORY_BYTES >> 20}M or more",
            )

        if self.memory_bytes > _MOST_MEMORY_BYTES:
            raise UsageError(
                f"{self.memory_bytes} B of memory are too many for a guest",
                remedy=f"give {_MOST_MEMORY_BYTES >> 30}G or less",
            )

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object from which `from_object` makes an equal guest."""
        return {
            "kernel": self.kernel,
            "clock": self.clock,
            "cpus": self.cpus,
            "memory_bytes": self.memory_bytes,
        }

    @classmethod
    def from_object(cls, data: Mapping[str, Any]) -> Guest:
        """Read what `to_object` returned."""
        return cls(data["kernel"], data["clock"], data["cpus"], data["memory_bytes"])
