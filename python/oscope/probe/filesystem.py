"""What the program oscope-fs reports of itself: its version, and the calls of FUSE that it implements."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from oscope.model.errors import OscopeError
from oscope.probe.locate import find_filesystem

_LIMIT_S = 20.0
_REMEDY = "build it anew with `make setup`"


def version() -> str:
    """Return the version; OscopeError where the program is missing or fails."""
    return _ask("--version").strip().rpartition(" ")[2]


def operations() -> Sequence[Mapping[str, Any]]:
    """Return `name`, `implemented` and `what` of each call; OscopeError also where it prints no table."""
    try:
        rows = json.loads(_ask("operations", "--json"))
        return [{key: row[key] for key in ("name", "implemented", "what")} for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise OscopeError(f"oscope-fs operations printed no table ({error!r})", remedy=_REMEDY) from error


def _ask(*words: str) -> str:
    path = find_filesystem()
    try:
        answer = subprocess.run([path, *words], capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise OscopeError(f"{path} {words[0]} failed ({error})", remedy=_REMEDY) from error
    return answer.stdout
