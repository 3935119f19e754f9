"""Operations on files: drawn at random with a model in view, and done to a real folder."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fs_mapping import SharedMapping
from fs_model import Model
from fs_nodes import File, Folder, Operation, stuff

NAMES = (b"a", b"b", b"c", b"d", b"\xff\xfe", b"line\nbreak", b" ", b"-rf", b"\xc3\xa9", b"n" * 255)
TOO_LONG = b"y" * 256
FILE_MODES = (0o600, 0o644, 0o664, 0o755, 0o700)
FOLDER_MODES = (0o700, 0o755, 0o775)
TARGETS = (b"a", b"b", b"c/a", b"./d", b"b/c", b"\xff\xfe", b"/nonexistent-of-oscope/a", b"nowhere/at/all")
SLOTS = 5
MAPS = 2
MOST = 1 << 19
"""No file grows beyond it, in bytes."""
_WEIGHTS = {
    "open": 150, "close": 70, "dup_close": 10, "fsync": 14, "read": 40, "pread": 40, "write": 70,
    "pwrite": 50, "seek": 20, "ftruncate": 20, "allocate": 8, "fstat": 30, "map": 12, "poke": 24,
    "peek": 12, "msync": 5, "unmap": 8, "truncate": 20, "stat": 60, "chmod": 20, "utime": 20,
    "unlink": 40, "mkdir": 25, "rmdir": 15, "readdir": 40, "symlink": 15, "readlink": 15, "link": 18,
    "rename": 45,
}  # fmt: skip
_ON_MAPPINGS = ("poke", "peek", "msync", "unmap")
_OPEN_FLAGS = (os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_APPEND, os.O_NOFOLLOW)


class Draw:
    """Draws operations that mostly make sense just now, and sometimes do not."""

    def __init__(self, seed: int, model: Model) -> None:
        self._random = random.Random(seed)
        self._model = model
        self._kinds = list(_WEIGHTS)
        self._shares = list(_WEIGHTS.values())

    def operation(self) -> Operation:
        """Return the next one."""
        while True:
            kind = self._random.choices(self._kinds, self._shares)[0]
            if kind in _ON_MAPPINGS and not self._model.maps:
                continue
            return (kind, *self._arguments(kind))

    def elsewhere(self) -> Operation:
        """Return what another client does on the server."""
        if self._random.random() < 0.25:
            return ("elsewhere_remove", self._path(File))
        # Often of the same size as before, and within the same second.
        size = self._random.choice((10, 10, self._size()))
        return ("elsewhere_write", self._path(File), self._seed(), size, self._random.random() < 0.5)

    def quiet(self) -> bool:
        """Whether everything is closed and compared now."""
        return self._random.random() < 0.01

    def _arguments(self, kind: str) -> tuple[Any, ...]:
        roll = self._random
        slot = roll.choice(list(self._model.slots) or [0])
        match kind:
            case "open":
                free = [number for number in range(SLOTS) if number not in self._model.slots]
                return (roll.choice(free or [0]), *self._way())
            case "read":
                return (slot, self._size())
            case "pread":
                return (slot, self._size(), self._offset())
            case "write":
                return (slot, self._seed(), self._size())
            case "pwrite":
                return (slot, self._seed(), self._size(), self._offset())
            case "seek":
                whence = roll.choice((os.SEEK_SET, os.SEEK_CUR, os.SEEK_END))
                return (slot, self._offset() - roll.choice((0, 3000)), whence)
            case "ftruncate":
                return (slot, roll.choice((0, self._offset(), self._offset(), -1)))
            case "allocate":
                return (slot, self._offset(), self._size())
            case "map" | "poke" | "peek" | "msync" | "unmap":
                return self._on_mappings(kind)
            case "close" | "dup_close" | "fsync" | "fstat":
                return (slot,)
            case _:
                return self._on_names(kind)

    def _on_mappings(self, kind: str) -> tuple[Any, ...]:
        roll, maps = self._random, self._model.maps
        if kind == "map":
            slots = self._model.slots
            useful = [slot for slot, opened in slots.items() if opened.reads and opened.writes]
            return (roll.randrange(MAPS), roll.choice(useful or list(slots) or [0]))
        number = roll.choice(list(maps))
        if kind in ("msync", "unmap"):
            return (number,)
        room = min(maps[number].length, len(maps[number].node.data))
        size = min(self._size(), room)
        offset = roll.randrange(room - size + 1)
        return (number, offset, self._seed(), size) if kind == "poke" else (number, offset, size)

    def _on_names(self, kind: str) -> tuple[Any, ...]:
        roll = self._random
        match kind:
            case "truncate":
                return (self._path(File), roll.choice((0, self._offset(), self._offset(), -1)))
            case "stat":
                return (self._path(), roll.random() < 0.6)
            case "chmod":
                path = self._path()
                return (path, roll.choice(FOLDER_MODES if self._holds(path, Folder) else FILE_MODES))
            case "utime":
                return (self._path(), roll.randrange(1_000_000_000, 1_700_000_000))
            case "mkdir":
                return (self._new(), roll.choice(FOLDER_MODES))
            case "rmdir" | "readdir":
                return (self._path(Folder),)
            case "symlink":
                return (roll.choice(TARGETS), self._new())
            case "link":
                return (self._path(File), self._new())
            case "rename":
                node_type = Folder if roll.random() < 0.25 else File
                return (self._path(node_type), self._path(node_type) if roll.random() < 0.5 else self._new())
            case _:
                return (self._path(),)

    def _way(self) -> tuple[bytes, int, int]:
        roll = self._random
        if roll.random() < 0.04:
            return self._path(Folder), os.O_RDONLY | roll.choice((0, os.O_DIRECTORY)), 0o600
        flags = roll.choice((os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR))
        for flag in _OPEN_FLAGS:
            flags |= flag if roll.random() < 0.25 else 0
        if not flags & os.O_CREAT:
            flags &= ~os.O_EXCL
        path = self._new() if flags & os.O_CREAT and roll.random() < 0.5 else self._path(File)
        return path, flags, roll.choice(FILE_MODES)

    def _path(self, node_type: type | None = None) -> bytes:
        if self._random.random() < 0.12:
            return self._new()
        nodes = [
            path for path, node in self._model.nodes() if node_type is None or isinstance(node, node_type)
        ]
        return self._random.choice(nodes) if nodes else self._new()

    def _holds(self, path: bytes, node_type: type) -> bool:
        # Through a link it may be a folder as well: then either kind of mode does.
        return any(found == path and isinstance(node, node_type) for found, node in self._model.nodes())

    def _new(self) -> bytes:
        roll = self._random
        name = TOO_LONG if roll.random() < 0.005 else roll.choice(NAMES)
        if roll.random() < 0.05:
            # Below what may be a file, a link or nothing.
            return roll.choice(NAMES) + b"/" + name
        folders = [path for path, node in self._model.nodes() if isinstance(node, Folder)]
        into = roll.choice([b"", *[path for path in folders if path.count(b"/") < 2]])
        return into + b"/" + name if into else name

    def _seed(self) -> int:
        return self._random.randrange(1 << 16)

    def _size(self) -> int:
        return self._random.choice((1, 10, 100, 4096, self._random.randrange(1, 9000)))

    def _offset(self) -> int:
        far = self._random.choice((1 << 17, MOST)) if self._random.random() < 0.05 else 12_000
        return self._random.choice((0, 4096, self._random.randrange(far)))


class Hand:
    """Does operations to a real folder, and to the same folder on the server for what happens elsewhere."""

    def __init__(self, folder: Path, server: Path) -> None:
        self._folder = os.fsencode(folder)
        self._server = os.fsencode(server)
        self.slots: dict[int, int] = {}
        self.maps: dict[int, SharedMapping] = {}

    def apply(self, operation: Operation) -> Any:
        """Do it; return its answer in the model's form. Raises OSError."""
        name, *rest = operation
        action: Callable[..., Any] = getattr(self, f"do_{name}")
        return action(*rest)

    def close(self) -> None:
        """Unmap and close everything, whatever that answers."""
        for mapping in self.maps.values():
            mapping.close()
        slots, self.slots, self.maps = self.slots, {}, {}
        for descriptor in slots.values():
            try:
                os.close(descriptor)
            except OSError as error:
                print(f"close: {error}")

    def _at(self, path: bytes) -> bytes:
        return self._folder + b"/" + path

    def do_open(self, slot: int, path: bytes, flags: int, mode: int) -> None:
        self.slots[slot] = os.open(self._at(path), flags | os.O_CLOEXEC, mode)

    def do_close(self, slot: int) -> None:
        os.close(self.slots.pop(slot))

    def do_dup_close(self, slot: int) -> None:
        os.close(os.dup(self.slots[slot]))

    def do_fsync(self, slot: int) -> None:
        os.fsync(self.slots[slot])

    def do_read(self, slot: int, size: int) -> bytes:
        return os.read(self.slots[slot], size)

    def do_pread(self, slot: int, size: int, offset: int) -> bytes:
        return os.pread(self.slots[slot], size, offset)

    def do_write(self, slot: int, seed: int, size: int) -> int:
        return os.write(self.slots[slot], stuff(seed, size))

    def do_pwrite(self, slot: int, seed: int, size: int, offset: int) -> int:
        return os.pwrite(self.slots[slot], stuff(seed, size), offset)

    def do_seek(self, slot: int, offset: int, whence: int) -> int:
        return os.lseek(self.slots[slot], offset, whence)

    def do_ftruncate(self, slot: int, size: int) -> None:
        os.ftruncate(self.slots[slot], size)

    def do_allocate(self, slot: int, offset: int, size: int) -> None:
        os.posix_fallocate(self.slots[slot], offset, size)

    def do_fstat(self, slot: int) -> tuple[Any, ...]:
        return status(os.fstat(self.slots[slot]))

    def do_map(self, number: int, slot: int) -> None:
        self.maps[number] = SharedMapping(self.slots[slot], os.fstat(self.slots[slot]).st_size)

    def do_poke(self, number: int, offset: int, seed: int, size: int) -> None:
        self.maps[number].write(offset, stuff(seed, size))

    def do_peek(self, number: int, offset: int, size: int) -> bytes:
        return self.maps[number].read(offset, size)

    def do_msync(self, number: int) -> None:
        self.maps[number].sync()

    def do_unmap(self, number: int) -> None:
        self.maps.pop(number).close()

    def do_truncate(self, path: bytes, size: int) -> None:
        os.truncate(self._at(path), size)

    def do_stat(self, path: bytes, follow: bool) -> tuple[Any, ...]:
        return status(os.stat(self._at(path), follow_symlinks=follow))  # noqa: PTH116

    def do_chmod(self, path: bytes, mode: int) -> None:
        os.chmod(self._at(path), mode)  # noqa: PTH101 (bytes)

    def do_utime(self, path: bytes, seconds: int) -> None:
        os.utime(self._at(path), (seconds, seconds))

    def do_unlink(self, path: bytes) -> None:
        os.unlink(self._at(path))  # noqa: PTH108

    def do_mkdir(self, path: bytes, mode: int) -> None:
        os.mkdir(self._at(path), mode)  # noqa: PTH102

    def do_rmdir(self, path: bytes) -> None:
        os.rmdir(self._at(path))  # noqa: PTH106

    def do_readdir(self, path: bytes) -> list[tuple[bytes, str]]:
        with os.scandir(self._at(path)) as entries:
            return sorted((entry.name, _kind(entry.stat(follow_symlinks=False).st_mode)) for entry in entries)

    def do_symlink(self, target: bytes, path: bytes) -> None:
        os.symlink(target, self._at(path))  # noqa: PTH211

    def do_readlink(self, path: bytes) -> bytes:
        return os.readlink(self._at(path))  # noqa: PTH115

    def do_link(self, path: bytes, other: bytes) -> None:
        os.link(self._at(path), self._at(other), follow_symlinks=False)

    def do_rename(self, path: bytes, other: bytes) -> None:
        os.rename(self._at(path), self._at(other))  # noqa: PTH104

    def do_elsewhere_write(self, path: bytes, seed: int, size: int, replace: bool) -> None:
        final = self._server + b"/" + path
        written = self._server + b"/.elsewhere" if replace else final
        new = not os.path.lexists(written)
        with open(written, "wb") as file:  # noqa: PTH123
            file.write(stuff(seed, size))
        if new:
            os.chmod(written, 0o644)  # noqa: PTH101
        os.rename(written, final)  # noqa: PTH104

    def do_elsewhere_remove(self, path: bytes) -> None:
        os.unlink(self._server + b"/" + path)  # noqa: PTH108


def status(found: os.stat_result) -> tuple[Any, ...]:
    """Return kind, size, mode, mtime in whole seconds, links, as Model.status does."""
    mode = stat.S_IMODE(found.st_mode)
    return (_kind(found.st_mode), found.st_size, mode, int(found.st_mtime), found.st_nlink)


def _kind(mode: int) -> str:
    for test, name in ((stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link")):
        if test(mode):
            return name
    return "other"
