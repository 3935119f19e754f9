"""Where the probe is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from oscope.errors import OscopeError


def find_probe() -> Path:
    """Return the path of `oscope-probe`: `OSCOPE_PROBE`, else beside this Python, else on the PATH.

    Raises OscopeError with the remedy where there is none.
    """
    named = os.environ.get("OSCOPE_PROBE")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise OscopeError(
                f"OSCOPE_PROBE={named} is not a program", remedy="unset it, or name the built oscope-probe"
            )
        return Path(named).absolute()
    beside = Path(sys.executable).parent / "oscope-probe"
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which("oscope-probe")
    if found is None:
        raise OscopeError(
            f"oscope-probe was found neither beside {sys.executable} nor on the PATH",
            remedy="run `make setup`, or set OSCOPE_PROBE to the built probe",
        )
    return Path(found).absolute()
