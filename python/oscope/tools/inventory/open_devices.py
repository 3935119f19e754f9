"""Device files that processes hold open: by descriptors, and by mapping them into memory (proc(5)).

psutil 7 (60 ms to import) does not see them: `open_files` has regular files only, `memory_maps` paths without
the kind of file, the number of the device or what was deleted.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.tools.inventory.device_names import Identity, Kind, identify
from oscope.tools.inventory.status import Status, status

PROC = Path("/proc")
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD of include/linux/sched.h, in the flags of /proc/PID/stat."""
_MODES = {os.O_RDONLY: "r", os.O_WRONLY: "w", os.O_RDWR: "rw"}
_DELETED = " (deleted)"


@dataclass(frozen=True)
class Device:
    """A device file, at the path by which it was opened."""

    kind: Kind
    major: int
    minor: int
    path: str
    """As the process that opened it sees it: it may be of another mount namespace."""
    is_deleted: bool

    @property
    def identity(self) -> Identity:
        """What the device is."""
        return identify(self.kind, self.major, self.minor)


@dataclass(frozen=True)
class OpenDevice:
    """A process that holds a device open by one descriptor, or has it in its memory."""

    device: Device
    pid: int
    command: str
    """Name of the process; not a path."""
    descriptor: int | None
    """None where the device is mapped into memory."""
    mode: str
    """`r`, `w` or `rw`; `path` where it is only named (O_PATH)."""


@dataclass(frozen=True)
class OpenDevices:
    """All that could be found."""

    open_devices: tuple[OpenDevice, ...]
    processes: int
    """That were looked at; threads of the kernel, which have no descriptors, are left out."""
    unreadable: int
    """That this user may not look at."""


def find_open_devices() -> OpenDevices:
    """Return the device files held open by all processes that this user may look at.

    Processes come and go meanwhile: what ends is left out.
    """
    pids = sorted(int(name) for name in os.listdir(PROC) if name.isdigit())  # noqa: PTH208 (faster by far)
    if not pids:
        raise OscopeError(f"{PROC} lists no processes", remedy="mount it: mount -t proc proc /proc")
    open_devices: list[OpenDevice] = []
    processes = unreadable = 0
    for pid in pids:
        try:
            if _is_kernel_thread(pid):
                continue
            open_devices += _open_devices(pid)
            processes += 1
        except PermissionError:
            unreadable += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    return OpenDevices(tuple(open_devices), processes, unreadable)


def _is_kernel_thread(pid: int) -> bool:
    # The name, in parentheses, may hold any character: what follows the last one is counted from field 3 on.
    fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    return bool(int(fields[6]) & _KERNEL_THREAD)


def _open_devices(pid: int) -> list[OpenDevice]:
    command = (PROC / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
    return [
        *_by_descriptor(_task(pid), pid, command),
        *_by_mapping(PROC / str(pid), pid, command),
    ]


def _task(pid: int) -> Path:
    """Return the folder of a task that has descriptors: the first may have ended before the others."""
    for task in sorted((PROC / str(pid) / "task").iterdir(), key=lambda path: int(path.name)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if os.listdir(task / "fd"):  # noqa: PTH208
                return task
    return PROC / str(pid)


def _by_descriptor(task: Path, pid: int, command: str) -> Iterator[OpenDevice]:
    for name in sorted(os.listdir(task / "fd"), key=int):  # noqa: PTH208
        link = task / "fd" / name
        try:
            # What the link leads to is the open file itself, also where its path is gone or elsewhere.
            device = _device(status(link), str(link.readlink()))
            if device is not None:
                yield OpenDevice(device, pid, command, int(name), _mode(task / "fdinfo" / name))
        except PermissionError:
            raise
        except OSError:
            # It is closed by now.
            continue


def _by_mapping(folder: Path, pid: int, command: str) -> Iterator[OpenDevice]:
    seen: dict[tuple[str, str], Device | None] = {}
    modes: dict[Device, set[str]] = {}
    served = cache(partial(_served, folder))
    for line in (folder / "maps").read_bytes().decode(errors="surrogateescape").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        _, permissions, _, filesystem, inode, _ = fields
        if (filesystem, inode) not in seen:
            seen[filesystem, inode] = _mapped(folder, fields, served)
        device = seen[filesystem, inode]
        if device is not None:
            # The letters of a mapping and of a mode are the same.
            modes.setdefault(device, set()).update(set(permissions) & {"r", "w"})
    for device, letters in modes.items():
        yield OpenDevice(device, pid, command, None, "".join(sorted(letters)) or "none")


def _mapped(folder: Path, fields: Sequence[str], served: Callable[[], frozenset[str]]) -> Device | None:
    """Return the device that a line of /proc/PID/maps is about, if it is one."""
    place, _, _, filesystem, inode, path = fields
    try:
        return _device(status(folder / "map_files" / place), path)
    except PermissionError:
        # Only root may follow these links; others look at the path, which has to be the same file still.
        with contextlib.suppress(OSError):
            if filesystem not in served():
                found = status(Path(f"{folder}/root{path}"))
                return _device(found, path) if found.inode == int(inode) else None
        return None
    except OSError:
        # As of a descriptor.
        return None


def _served(folder: Path) -> frozenset[str]:
    """Return the numbers of FUSE's file systems that a process has: to follow a path there asks a server."""
    found = set()
    for line in (folder / "mountinfo").read_text(errors="replace").splitlines():
        mount, _, kind = line.partition(" - ")
        if kind.startswith("fuse"):
            found.add(mount.split()[2])
    return frozenset(found)


def _device(found: Status, path: str) -> Device | None:
    if stat.S_ISCHR(found.mode):
        kind: Kind = "char"
    elif stat.S_ISBLK(found.mode):
        kind = "block"
    else:
        return None
    # A file may really be named so: a deleted one has no link left.
    is_deleted = found.links == 0 and path.endswith(_DELETED)
    shown = path.removesuffix(_DELETED) if is_deleted else path
    return Device(kind, found.major, found.minor, shown, is_deleted)


def _mode(info: Path) -> str:
    for line in info.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "flags":
            flags = int(value, 8)
            return "path" if flags & os.O_PATH else _MODES.get(flags & os.O_ACCMODE, "?")
    return "?"
