"""A course of random operations: done to a real folder, judged by the model and by the server's own folder.

A sequence that shows a difference is shrunk, so that what is printed can be read and pasted into `replay`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fs_model import Model
from fs_nodes import File, Folder, Link, Operation, Refused, Skipped
from fs_operations import Draw, Hand
from waiting import wait_until

QUIET: Operation = ("quiet",)
"""Close everything, and compare the folder as mounted and as the server has it with the model."""
AGAIN: Operation = ("again",)
"""The same, and between the two comparisons unmount and mount again."""
_SETTLING_S = 60.0
_TEMPORARY = ".oscope-fs-"
_SHRINKING_S = 90.0


class Place(Protocol):
    """Where operations are done."""

    links: bool
    """Whether stat tells the number of hard links."""
    elsewhere: bool
    """Whether what another client does is seen at once."""

    @property
    def root(self) -> Path:
        """The folder that is judged, as programs see it."""

    @property
    def server(self) -> Path:
        """The same folder as the server has it."""

    def again(self) -> None:
        """Unmount and mount again."""


@dataclass(frozen=True)
class Difference:
    """What a sequence showed: its last operation, what it should have answered, what it did."""

    operation: Operation
    expected: object
    found: object

    def __str__(self) -> str:
        return f"{_short(self.operation)}: wanted {_short(self.expected)}, found {_short(self.found)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 400 else f"{text[:300]}… ({len(text)} characters)"


class Course:
    """One sequence in a fresh folder."""

    def __init__(self, place: Place, name: str) -> None:
        self.model = Model()
        self.done: list[Operation] = []
        self._place = place
        self._root = place.root / name
        self._server = place.server / name
        self._root.mkdir()
        self._hand = Hand(self._root, self._server)
        self._poked: set[int] = set()

    def close(self) -> None:
        """Close everything and remove the folder."""
        self._hand.close()
        shutil.rmtree(self._root, ignore_errors=True)
        shutil.rmtree(self._server, ignore_errors=True)

    def step(self, operation: Operation) -> Difference | None:
        """Do one operation; return what differs."""
        self.done.append(operation)
        if operation in (QUIET, AGAIN):
            return self._quiet(operation)
        opened = (
            self.model.slots.get(operation[1])
            if len(operation) > 1 and isinstance(operation[1], int)
            else None
        )
        try:
            expected: tuple[str, Any] = ("ok", self.model.apply(operation))
        except Skipped:
            self.done.pop()
            return None
        except Refused as refused:
            expected = ("error", str(refused))
        try:
            found: tuple[str, Any] = ("ok", self._hand.apply(operation))
        except OSError as error:
            found = ("error", errno.errorcode.get(error.errno or 0, str(error)))
        if operation[0] == "poke" and expected[0] == "ok":
            self._poked.add(id(self.model.maps[operation[1]].node))
        if not self._agree(expected, found):
            return Difference(operation, expected, found)
        if operation[0] in ("fsync", "close", "dup_close") and opened is not None and opened.writes:
            return self._acknowledged(operation, opened.node)
        return None

    def _agree(self, expected: tuple[str, Any], found: tuple[str, Any]) -> bool:
        if expected[0] == found[0] == "ok" and isinstance(expected[1], tuple):
            *parts, links = expected[1]
            parts.append(links if self._place.links else None)
            return all(one is None or one == other for one, other in zip(parts, found[1], strict=True))
        return expected == found

    def _acknowledged(self, operation: Operation, node: File | Folder) -> Difference | None:
        """Compare with the server what fsync or close has just acknowledged."""
        # What a mapping stores without msync may be told only by its end.
        if not isinstance(node, File) or id(node) in self._poked:
            return None
        for path in self.model.names(node):
            found = self._read(os.fsencode(self._server) + b"/" + path)
            if found != bytes(node.data):
                return Difference(operation, ("on the server", path, bytes(node.data)), found)
        return None

    def _read(self, path: bytes) -> bytes | str:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 (bytes)
                return file.read()
        except OSError as error:
            return str(error)

    def _quiet(self, operation: Operation) -> Difference | None:
        for slot in list(self.model.slots):
            if difference := self.step(("close", slot)):
                return difference
            self.done.pop()
        for number in list(self.model.maps):
            if difference := self.step(("unmap", number)):
                return difference
            self.done.pop()
        if difference := self._settle(operation):
            return difference
        if difference := self._compare(operation, self._root, "the mount"):
            return difference
        # A new mount cannot know by SFTP which names are one file.
        linked = any(isinstance(node, File) and node.links > 1 for _, node in self.model.nodes())
        if operation == AGAIN and not linked:
            try:
                self._place.again()
            except (RuntimeError, TimeoutError) as error:
                return Difference(operation, "mounted again", error)
            return self._compare(operation, self._root, "the mount, mounted again") or self._compare(
                operation, self._server, "the server after that"
            )
        return None

    def _settle(self, operation: Operation) -> Difference | None:
        """Wait for the server's folder to be as the model has it; return the difference that stays."""
        # munmap returns before the file system hears of it.
        poked = bool(self._poked)
        self._poked.clear()
        left: Difference | None = None

        def is_settled() -> bool:
            nonlocal left
            left = self._compare(operation, self._server, "the server")
            # Nor may a temporary be there for good.
            return left is None or not (poked or _TEMPORARY in repr(left.expected))

        with contextlib.suppress(TimeoutError):
            wait_until(is_settled, "the server's folder as the model has it", limit_s=_SETTLING_S)
        return left

    def _compare(self, operation: Operation, folder: Path, where: str) -> Difference | None:
        expected = self._expected()
        try:
            found = _tree(folder)
        except OSError as error:
            return Difference(operation, (where, "can be read"), error)
        for path in sorted(expected.keys() | found.keys()):
            one, other = expected.get(path), found.get(path)
            if (
                one is None
                or other is None
                or any(
                    part is not None and part != there for part, there in zip(one, other[:-1], strict=True)
                )
            ):
                return Difference(operation, (where, path, one), other and other[:-1])
        if folder == self._server or self._place.links:
            return self._compare_links(operation, where, found)
        return None

    def _expected(self) -> dict[bytes, tuple[Any, ...]]:
        expected: dict[bytes, tuple[Any, ...]] = {}
        for path, node in self.model.nodes():
            match node:
                case File():
                    expected[path] = ("file", bytes(node.data), node.mode, node.mtime)
                case Folder():
                    expected[path] = ("folder", None, node.mode, None)
                case Link():
                    expected[path] = ("link", node.target, None, None)
        return expected

    def _compare_links(
        self, operation: Operation, where: str, found: dict[bytes, tuple[Any, ...]]
    ) -> Difference | None:
        expected = {
            path: sorted(self.model.names(node))
            for path, node in self.model.nodes()
            if isinstance(node, File)
        }
        for path, names in expected.items():
            same = sorted(other for other in expected if found[other][-1] == found[path][-1])
            if same != names:
                return Difference(operation, (where, "one file", names), same)
        return None


def _tree(folder: Path) -> dict[bytes, tuple[Any, ...]]:
    """Return by path: kind, content or target, mode, mtime in seconds, inode."""
    found: dict[bytes, tuple[Any, ...]] = {}
    root = os.fsencode(folder)
    for above, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = above + b"/" + name
            status = os.lstat(path)
            mode, second, inode = stat.S_IMODE(status.st_mode), int(status.st_mtime), status.st_ino
            if stat.S_ISLNK(status.st_mode):
                row: tuple[Any, ...] = ("link", os.readlink(path), None, None, inode)  # noqa: PTH115
            elif stat.S_ISDIR(status.st_mode):
                row = ("folder", None, mode, None, inode)
            else:
                with open(path, "rb") as file:  # noqa: PTH123
                    row = ("file", file.read(), mode, second, inode)
            found[path[len(root) + 1 :]] = row
    return found


@dataclass(frozen=True)
class Verdict:
    """How one course went; `sequence` is the shortest that still shows the difference."""

    seed: int
    operations: int
    difference: Difference | None
    sequence: Sequence[Operation] = ()

    def __str__(self) -> str:
        if self.difference is None:
            return f"seed {self.seed}: {self.operations} operations, no difference"
        steps = "\n".join(f"    {operation!r}," for operation in self.sequence)
        return f"seed {self.seed}, after {self.operations} operations: {self.difference}\n[\n{steps}\n]"


def run(place: Place, seed: int, operations: int, *, again: bool = True) -> Verdict:
    """Do so many random operations; shrink what shows a difference."""
    course = Course(place, f"course-{seed}")
    try:
        difference = _drawn(place, course, seed, operations, again)
    finally:
        course.close()
    if difference is None:
        return Verdict(seed, len(course.done), None)
    short, shown = shrink(course.done, _trial(place, seed))
    return Verdict(seed, len(course.done), shown or difference, short)


def _drawn(place: Place, course: Course, seed: int, operations: int, again: bool) -> Difference | None:
    draw = Draw(seed, course.model)
    while len(course.done) < operations:
        steps: list[Operation] = [draw.operation()]
        if draw.quiet():
            steps = [AGAIN if again and seed % 4 == 0 and len(course.done) % 4 == 0 else QUIET]
            if place.elsewhere:
                steps += [draw.elsewhere(), draw.elsewhere()]
        for step in steps:
            if difference := course.step(step):
                return difference
    return course.step(QUIET)


def replay(place: Place, name: str, sequence: Sequence[Operation]) -> Difference | None:
    """Do a sequence in a fresh folder."""
    course = Course(place, name)
    try:
        for operation in sequence:
            if difference := course.step(operation):
                return difference
        return None
    finally:
        course.close()


def _trial(place: Place, seed: int) -> Callable[[Sequence[Operation]], Difference | None]:
    count = 0

    def trial(sequence: Sequence[Operation]) -> Difference | None:
        nonlocal count
        count += 1
        return replay(place, f"shrink-{seed}-{count}", sequence)

    return trial


def shrink(
    sequence: Sequence[Operation], trial: Callable[[Sequence[Operation]], Difference | None]
) -> tuple[Sequence[Operation], Difference | None]:
    """Leave out whatever is not needed for a difference, halves first, until nothing can be or time is up.

    Where the whole does not show one again, it is returned as it is, with None.
    """
    deadline = time.monotonic() + _SHRINKING_S
    best, shown = list(sequence), trial(sequence)
    if shown is None:
        return best, None
    size = max(1, len(best) // 2)
    while time.monotonic() < deadline:
        at, before = 0, len(best)
        while at < len(best) and time.monotonic() < deadline:
            shorter = best[:at] + best[at + size :]
            if shorter and (difference := trial(shorter)):
                best, shown = shorter, difference
            else:
                at += size
        if size == 1 and len(best) == before:
            break
        size = max(1, size // 2)
    return best, shown
