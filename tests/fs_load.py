"""A random load on a folder that notes each step, before and after it, in a file beside: a program.

    fs_load.py FOLDER NOTES SEED STEPS

A note is a line of JSON: ["begin", STEP] or ["end", ERRNO or null], after a write that took only a part of it
["end", null, BYTES]. What is written is a matter of seeds, so
that the notes tell what every file held at every moment (fs_history). Several files are under way at once.
"""

from __future__ import annotations

import errno
import json
import os
import random
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from fs_operations import Hand

NAMES = 6
CHUNK = 1 << 16
"""No write is longer, so that few are cut in two on their way through the kernel.

Some kernels (6.18) end a request where a page of the page cache does. A kill between two requests of a write
lets it end with what the first took.
"""
GONE = (errno.ENOTCONN, errno.ECONNABORTED, errno.ENODEV)
"""What a mount whose program was killed answers."""
_AT_ONCE = 3
Step = tuple[Any, ...]


class Load:
    """Scripts on names that are used by one script at a time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._fresh = 0
        self._free = [self._name() for _ in range(NAMES)]
        self.retired: set[str] = set()

    def _name(self) -> str:
        self._fresh += 1
        return f"f{self._fresh:03}"

    def script(self, slot: int) -> Generator[Step, None, None]:
        """Give the steps of one script; names whose state an error left open are not used again."""
        roll = self._random
        name = self._free.pop(roll.randrange(len(self._free)))
        kinds = (self._rewrite, self._append, self._patch, self._replace, self._replace_open, self._remove)
        try:
            yield from roll.choices(kinds, (4, 4, 3, 3, 2, 1))[0](slot, name)
        finally:
            self._free.append(self._name() if name in self.retired else name)

    def _open(self, slot: int, name: str, flags: int) -> Step:
        return ("open", slot, name, flags | os.O_CREAT, 0o644)

    def _write(self, slot: int) -> Step:
        size = self._random.choice((1, 100, 4096, CHUNK, self._random.randrange(1, CHUNK)))
        return ("write", slot, self._random.randrange(1 << 30), size)

    def _writes(self, slot: int) -> Iterator[Step]:
        for _ in range(self._random.randrange(1, 6)):
            yield self._write(slot)
            if self._random.random() < 0.25:
                yield ("fsync", slot)

    def _rewrite(self, slot: int, name: str) -> Iterator[Step]:
        yield self._open(slot, name, os.O_WRONLY | os.O_TRUNC)
        yield from self._writes(slot)
        yield ("close", slot)

    def _append(self, slot: int, name: str) -> Iterator[Step]:
        yield self._open(slot, name, os.O_WRONLY | os.O_APPEND)
        yield from self._writes(slot)
        yield ("close", slot)

    def _patch(self, slot: int, name: str) -> Iterator[Step]:
        yield self._open(slot, name, os.O_RDWR)
        for _ in range(self._random.randrange(1, 4)):
            offset = self._random.choice((0, self._random.randrange(3 * CHUNK)))
            yield ("pwrite", slot, self._random.randrange(1 << 30), self._random.randrange(1, 5000), offset)
        if self._random.random() < 0.3:
            yield ("ftruncate", slot, self._random.randrange(2 * CHUNK))
        yield ("close", slot)

    def _replace(self, slot: int, name: str) -> Iterator[Step]:
        written = f"{name}.new"
        yield self._open(slot, written, os.O_WRONLY | os.O_TRUNC)
        yield from self._writes(slot)
        if self._random.random() < 0.5:
            yield ("fsync", slot)
        yield ("close", slot)
        yield ("rename", written, name)

    def _replace_open(self, slot: int, name: str) -> Iterator[Step]:
        written = f"{name}.new"
        yield self._open(slot, written, os.O_WRONLY | os.O_TRUNC)
        yield self._write(slot)
        yield ("rename", written, name)
        yield from self._writes(slot)
        yield ("close", slot)

    def _remove(self, slot: int, name: str) -> Iterator[Step]:
        # It may not be there: made first, so that there is one way that this can end.
        yield self._open(slot, name, os.O_WRONLY)
        yield ("close", slot)
        yield ("unlink", name)


def names_of(step: Step) -> list[str]:
    """Return the names in a step."""
    return [word for word in step[1:] if isinstance(word, str)]


def run(folder: Path, notes: int, seed: int, steps: int) -> None:
    """Do scripts in turns until `steps` steps are done or the mount is gone."""
    load = Load(seed)
    order = random.Random(seed + 1)
    hand = Hand(folder, folder)
    scripts: list[Generator[Step, None, None] | None] = [None] * _AT_ONCE
    held: list[set[str]] = [set() for _ in scripts]
    done = 0
    while done < steps or any(scripts):
        slot = order.randrange(_AT_ONCE)
        script = scripts[slot]
        if script is None:
            if done < steps:
                scripts[slot], held[slot] = load.script(slot), set()
            continue
        step = next(script, None)
        if step is None:
            scripts[slot] = None
            continue
        held[slot].update(names_of(step))
        done += 1
        number = _noted(notes, hand, step)
        if number in GONE:
            return
        if number is not None and step[0] not in ("fsync", "close"):
            # What it did is not known: nobody uses these names again, and the descriptor is let go.
            load.retired.update(name.removesuffix(".new") for name in held[slot])
            script.close()
            scripts[slot] = None
            if slot in hand.slots:
                _noted(notes, hand, ("close", slot))


def _noted(notes: int, hand: Hand, step: Step) -> int | None:
    """Do a step between its two notes; return the errno that it ended with, if any."""
    _note(notes, "begin", step)
    words = [os.fsencode(word) if isinstance(word, str) and at else word for at, word in enumerate(step)]
    number, short = None, []
    try:
        answer = hand.apply(tuple(words))
        if step[0] in ("write", "pwrite") and answer != step[3]:
            short = [answer]
    except OSError as error:
        number = error.errno
    _note(notes, "end", number, *short)
    return number


def _note(notes: int, *words: object) -> None:
    line = json.dumps(words).encode() + b"\n"
    assert os.write(notes, line) == len(line)


if __name__ == "__main__":
    at, beside, first, count = sys.argv[1:]
    run(Path(at), os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_APPEND), int(first), int(count))
