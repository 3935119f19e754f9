"""Where Oscope's programs are, and what the probe answers when asked something other than to measure."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError, ProbeError

_ANSWER_LIMIT_S = 20.0
_REMEDY = "build it anew with `make setup`"


def find_probe() -> Path:
    """Return the path of `oscope-probe`: `OSCOPE_PROBE`, else beside this Python, else on the PATH.

    Raises OscopeError with the remedy where there is none.
    """
    return _find_program("oscope-probe", "OSCOPE_PROBE")


def find_filesystem() -> Path:
    """Return the path of `oscope-fs`: `OSCOPE_FS`, else beside this Python, else on the PATH.

    Raises OscopeError with the remedy where there is none.
    """
    return _find_program("oscope-fs", "OSCOPE_FS")


def _find_program(name: str, variable: str) -> Path:
    named = os.environ.get(variable)
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise OscopeError(
                f"{variable}={named} is not a program", remedy=f"unset it, or name the built {name}"
            )
        return Path(named).absolute()
    beside = Path(sys.executable).parent / name
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(name)
    if found is None:
        raise OscopeError(
            f"{name} was found neither beside {sys.executable} nor on the PATH",
            remedy=f"in a clone, run `make setup` or `pip install .`, or set {variable} to the built {name}",
        )
    return Path(found).absolute()


def ask(path: Path, verb: str) -> dict[str, Any]:
    """Return the JSON object that the probe prints for `describe` or `environment`. Raises ProbeError."""
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
            [path, verb], capture_output=True, timeout=limit_s, check=False, start_new_session=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProbeError(f"{path} {verb} failed ({error})", remedy=_REMEDY) from error


def ending(path: Path, verb: str, answer: subprocess.CompletedProcess[bytes]) -> str:
    """Say how the probe ended: its status and the last that it said of it."""
    words = answer.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"{path} {verb} ended with status {answer.returncode} {' '.join(words)}".rstrip()
