"""What a check of the doctor gives."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "limited", "missing"]


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    name: str
    status: Status
    found: str
    """What the trial showed, in a few words."""
    needed_for: str
    remedy: str | None = None
    """The command or step that would fix it; None where nothing is to be fixed."""
    essential: bool = False
    """True where nothing at all can be measured without it."""

    def as_record(self) -> dict[str, Any]:
        """Return the finding as plain values for JSON."""
        return asdict(self)


def as_root(command: str) -> str:
    """Return `command` as this user has to type it."""
    return command if os.geteuid() == 0 else f"sudo {command}"


def why_missing(text: str) -> tuple[str, str | None]:
    """Part what the probe says of a value that cannot be had: the reason, then the remedy."""
    reason, _, remedy = text.partition("; ")
    return reason, remedy or None
