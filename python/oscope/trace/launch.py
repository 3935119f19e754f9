"""Becomes a tracer: ends with the laboratory, and sees tracefs even where the machine has not mounted it.

Run as `python -I launch.py LABORATORY PROGRAM [ARGUMENT]…`, with nothing but the standard library, so that it
starts fast. What it mounts is seen by the program alone, and goes with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_CLONE_NEWNS = 0x20000  # linux/sched.h
_MS_REC, _MS_SLAVE = 0x4000, 1 << 19  # linux/mount.h
EVENTS = ("/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events")
_MOUNT_POINT = b"/sys/kernel/tracing"
EXIT_REFUSED = 71
"""Status where it could not do so; the reason is on standard error."""

_libc = ctypes.CDLL(None, use_errno=True)


def command(*program: str) -> list[str]:
    """Return the command that becomes `program` so."""
    return [sys.executable, "-I", __file__, str(os.getpid()), *program]


def _check(what: str, result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), what)


def _see_tracefs() -> None:
    """Mount tracefs in a mount namespace of our own where none is in sight (man 7 mount_namespaces)."""
    if any(Path(events).is_dir() for events in EVENTS):
        return
    _check("unshare of the mount namespace", _libc.unshare(_CLONE_NEWNS))
    # What others unmount goes here as well: a copy of it would be kept in use as long as the tracer runs.
    _check("keeping mounts here", _libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None))
    _check("mount of tracefs", _libc.mount(b"tracefs", _MOUNT_POINT, b"tracefs", 0, None))


def main(laboratory: int, command: list[str]) -> None:
    """Become `command`, to be killed with the process `laboratory`."""
    _check("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != laboratory:
        # It ended before the kernel was asked to watch it.
        return
    _see_tracefs()
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted.


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2:])
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        sys.exit(EXIT_REFUSED)
