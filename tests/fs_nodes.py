"""What a tree of files is made of, and the answers that an operation on it may have."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Operation = tuple[Any, ...]
"""Its name, then what it is given: plain values, so that a sequence can be printed, pasted and shrunk."""

NAME_MAX = 255
LINKS_MAX = 40
"""MAXSYMLINKS of include/linux/namei.h: so many links are followed in one path."""
WAY = os.O_RDONLY | os.O_WRONLY | os.O_RDWR


class Refused(Exception):  # noqa: N818 (an answer, not a fault)
    """The operation ends with this errno."""

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode[number])
        self.number = number


class Skipped(Exception):  # noqa: N818
    """The operation cannot be done here, or its outcome is nobody's promise: nobody does it."""


@dataclass(eq=False)
class File:
    """A regular file; `mtime` in seconds is None once something has changed it after utime set it."""

    mode: int
    data: bytearray = field(default_factory=bytearray)
    mtime: int | None = None
    links: int = 1


@dataclass(eq=False)
class Folder:
    """A folder."""

    mode: int
    entries: dict[bytes, Node] = field(default_factory=dict)


@dataclass(eq=False)
class Link:
    """A symbolic link."""

    target: bytes


Node = File | Folder | Link


@dataclass(eq=False)
class Descriptor:
    """An open file."""

    node: File | Folder
    flags: int
    position: int = 0

    @property
    def reads(self) -> bool:
        """Whether it was opened for reading."""
        return self.flags & WAY != os.O_WRONLY

    @property
    def writes(self) -> bool:
        """Whether it was opened for writing."""
        return self.flags & WAY != os.O_RDONLY


@dataclass(eq=False)
class Mapping:
    """A shared mapping of the first `length` bytes; it outlives its descriptor."""

    node: File
    length: int


def umask() -> int:
    """Return the umask of this process as the kernel tells it: to ask by the call would change it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


def stuff(seed: int, size: int) -> bytes:
    """Return the bytes that an operation means by a seed and a size."""
    return random.Random(seed).randbytes(size)


def kind(node: Node) -> str:
    """Name what a node is."""
    return {File: "file", Folder: "folder", Link: "link"}[type(node)]
