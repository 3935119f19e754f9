"""Where Oscope's programs are, and what the probe answers when asked something other than to measure."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from oscope.model.errors import ProbeError
from oscope.probe import programs

_ANSWER_LIMIT_S = 20.0
_REMEDY = "build it anew with `make setup`"


def find_probe() -> Path:
    """Return the path of `oscope-probe`: `OSCOPE_PROBE`, else beside this Python, else on the PATH.

    Raises OscopeError with the remedy where there is none.
    """
    return Path(programs.find(*programs.PROBE))


def find_filesystem() -> Path:
    """Return the path of `oscope-fs`: `OSCOPE_FS`, else beside this Python, else on the PATH.

    Raises OscopeError with the remedy where there is none.
    """
    return Path(programs.find(*programs.FILESYSTEM))


def ask(path: Path, *words: str) -> dict[str, Any]:
    """Return the JSON object that the probe prints for a verb such as `describe`. Raises ProbeError."""
    verb = " ".join(words)
    answer = call(path, verb, _ANSWER_LIMIT_S)
    if answer.returncode != 0:
        raise ProbeError(ending(path, verb, answer))
    try:
        data = json.loads(answer.stdout)
    except ValueError as error:
        raise ProbeError(f"{path} {verb} printed no JSON ({error})", remedy=_REMEDY) from error
    if not isinstance(data, dict):
        raise ProbeError(f"{path} {verb} printed no JSON object", remedy=_REMEDY)
    return data


def call(path: Path, verb: str, limit_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run the probe with `verb` and return how it ended. Raises ProbeError where it outlasts `limit_s`."""
    try:
        # In a session of its own, a Ctrl-C at the terminal reaches the laboratory only, which waits for it.
        return subprocess.run(
            [path, *verb.split()], capture_output=True, timeout=limit_s, check=False, start_new_session=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProbeError(f"{path} {verb} failed ({error})", remedy=_REMEDY) from error


def ending(path: Path, verb: str, answer: subprocess.CompletedProcess[bytes]) -> str:
    """Say how the probe ended: its status and the last that it said of it."""
    words = answer.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"{path} {verb} ended with status {answer.returncode} {' '.join(words)}".rstrip()
