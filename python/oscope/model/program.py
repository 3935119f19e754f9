"""A program of the user's own that measures workloads, over the wire that the probe speaks. A plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 60.0
"""How long a program may be silent while it prepares and takes a repetition, unless it is given longer."""


@dataclass(frozen=True)
class Program:
    """The program that measures a workload in place of `oscope-probe`."""

    name: str
    """As the user wrote it, for messages and records: it holds no path that the user did not type."""
    command: tuple[str, ...]
    """The file to execute (absolute), and its arguments. No shell ever sees it."""
    folder: str
    """The folder it runs in, absolute."""
    patience_s: float = PATIENCE_S

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object from which `from_object` makes an equal program."""
        return {
            "name": self.name,
            "command": list(self.command),
            "folder": self.folder,
            "patience_s": self.patience_s,
        }

    @classmethod
    def from_object(cls, data: Mapping[str, Any]) -> Program:
        """Read what `to_object` returned."""
        return cls(data["name"], tuple(data["command"]), data["folder"], data["patience_s"])
