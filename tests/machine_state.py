"""What a run may change on the machine and has to put back, so that it can be compared before and after."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
SCRATCH = Path("/var/tmp")  # noqa: S108 (where the probe makes its files, unless told otherwise)
SETTINGS = ("page-cluster", "swappiness", "overcommit_memory")


_MAKER = re.compile(r"oscope\D*-(\d+)-")
"""The process that made a thing is in the thing's name."""


def machine_state() -> dict[str, object]:
    """Return swap, zram devices, control groups, mounts, settings and scratch files as they are now."""
    return {
        "swap": _left(path for path in _swaps() if "oscope" in path or path in _zram()),
        "zram": _zram(),
        "groups": _left(name for name in _groups() if "oscope" in name),
        "mounts": [line for line in _mounts() if "oscope" in line],
        "settings": {name: Path("/proc/sys/vm", name).read_text() for name in SETTINGS},
        "files": _left(path.name for path in SCRATCH.iterdir() if "oscope" in path.name),
    }


def family(pid: int) -> list[int]:
    """Return the processes below `pid`, children of children too."""
    found = []
    # Any of them may end meanwhile.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *family(child)]
    return found


def _left(names: Iterable[str]) -> list[str]:
    """Return the names but for those of processes that live: others measure on this machine as well."""
    makers = ((name, _MAKER.search(name)) for name in names)
    return sorted(name for name, maker in makers if not (maker and Path("/proc", maker[1]).exists()))


def _mounts() -> list[str]:
    """Return the mounts but for those of oscope-fs: a run makes none, but people and other tests do."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if not line.startswith("oscope-fs ")]


def _swaps() -> list[str]:
    return [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]


def _zram() -> list[str]:
    """Return the zram devices that are in use: an idle one is nobody's, and a run may take it."""
    devices = sorted(Path("/sys/block").glob("zram*"))
    return [f"/dev/{path.name}" for path in devices if int((path / "disksize").read_text())]


def _groups() -> list[str]:
    return [str(Path(folder, name)) for folder, below, _ in os.walk(GROUPS) for name in below]
