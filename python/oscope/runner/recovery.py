"""Undoes what measurements that were killed left behind, such as swap files, memory cgroups and worktrees.

The probe writes down what it makes outside its own process before it makes it, in a journal for each process,
and takes it off when it is undone. A journal whose process is dead reports what is left. Folders of this
laboratory's own, such as worktrees, have locks instead (`oscope.targets.own_folders`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from oscope.targets import own_folders

_STATE = "/var/lib/oscope"
_JOURNAL = re.compile(r"(?P<pid>\d+)-(?P<started>\d+)-(?P<boot>[0-9a-f]{8})-(?P<namespace>\d+)\.json")
"""Names the process, the boot of the machine, and the PID namespace in which the number means something."""
_START_TIME = 19
"""Index of the start time among the fields of /proc/PID/stat that follow the name (proc(5): field 22)."""
_ENDED = frozenset("ZXx")
"""States of a process that has ended and was not yet waited for (proc(5), field 3)."""

_reported: set[Path] = set()
"""Directories that this process has looked after already."""


def journals() -> Path:
    """Return the directory of the journals: the same one as the probe's."""
    return Path(os.environ.get("OSCOPE_STATE") or _STATE) / "made"


def restore(notify: Callable[[str], None]) -> None:
    """Undo what processes that are dead left behind; `notify` hears a line on each thing. Never raises.

    Where nothing was left, this costs the reading of two directories.
    """
    own_folders.remove_left(notify)
    left = _left_behind(journals())
    if not left:
        return
    # The help has to be quick, and mostly there is nothing to do.
    from oscope.runner import restoration  # noqa: PLC0415 - start-up

    restoration.undo(left[0], notify)


def restore_once(notify: Callable[[str], None]) -> None:
    """Like `restore`, but do nothing from the second call of a process on."""
    directory = journals()
    if directory not in _reported:
        _reported.add(directory)
        restore(notify)


def _left_behind(directory: Path) -> list[Path]:
    """Return the journals of dead processes."""
    try:
        names = sorted(path.name for path in directory.iterdir())
    except OSError:
        # Mostly there is none. One that may not be read is another user's, and so is what it reports.
        return []
    found = ((directory / name, _JOURNAL.fullmatch(name)) for name in names)
    return [path for path, match in found if match and not _may_live(match)]


def _may_live(owner: re.Match[str]) -> bool:
    """Say whether the process lives, as far as can be known: of another PID namespace it may."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        # Without /proc nothing can be restored either.
        return True
    if not boot.startswith(owner["boot"]):
        return False
    return int(owner["namespace"]) != namespace or _alive(owner["pid"], owner["started"])


def _alive(pid: str, started: str) -> bool:
    """Say whether the process lives; its start time distinguishes it from a later one of its number."""
    try:
        status = Path("/proc", pid, "stat").read_text(errors="replace")
    except OSError:
        return False
    # The name stands in parentheses and may hold anything, parentheses as well.
    fields = status.rpartition(")")[2].split()
    return fields[_START_TIME] == started and fields[0] not in _ENDED
