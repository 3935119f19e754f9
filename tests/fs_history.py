"""What files may hold, by the notes of fs_load: what was acknowledged, what was done, what was under way."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from mmap import PAGESIZE
from typing import Any

from fs_nodes import stuff


@dataclass(eq=False)
class Thing:
    """A file, whatever its name: every content that it had, in order, and marks among them."""

    states: list[bytes] = field(default_factory=lambda: [b""])
    acknowledged: int = 0
    """The latest content that fsync or close acknowledged, or that it was made with."""
    certain: int = 0
    """The latest content that it had for certain; those after it were under way."""
    copied: set[int] = field(default_factory=lambda: {0})
    """The contents with which fsync or close was called, or which it was made with."""

    def change(self, content: bytes, *, certain: bool) -> None:
        """Note a content that it has now, or may have."""
        self.states.append(content)
        if certain:
            self.certain = len(self.states) - 1

    def flush(self, *, certain: bool) -> None:
        """Note that what it holds is copied back, or may be."""
        self.copied.add(len(self.states) - 1)
        if certain:
            self.acknowledged = len(self.states) - 1

    def keeps_acknowledged(self) -> list[bytes]:
        """Return every content that loses nothing that was acknowledged."""
        return self.states[self.acknowledged :]

    def keeps_written(self) -> list[bytes]:
        """Return every content that loses nothing that was written."""
        return self.states[self.certain :]

    def whole(self) -> list[bytes]:
        """Return every content that the server may have had before recovery."""
        return [self.states[at] for at in sorted(self.copied) if at >= self.acknowledged]


@dataclass
class Opened:
    """A descriptor."""

    thing: Thing
    flags: int
    position: int = 0


class History:
    """The files that the notes tell of."""

    def __init__(self) -> None:
        self.names: dict[str, list[Thing | None]] = {}
        """What each name may stand for; None is nothing."""
        self.errors: list[tuple[str, int]] = []
        """Each step that ended with an error: its name, its errno."""
        self.steps = 0
        self._slots: dict[int, Opened] = {}

    @classmethod
    def read(cls, lines: Iterable[str]) -> History:
        """Replay notes; a step whose end was not noted was under way."""
        history = cls()
        begun: list[Any] | None = None
        for line in lines:
            what, value, *short = json.loads(line)
            if what == "begin":
                begun = value
            else:
                assert begun is not None
                history._step([*begun, *short], value)
                begun = None
        if begun is not None:
            history._step(begun, -1)
        return history

    def _step(self, step: list[Any], number: int | None) -> None:
        """Take one step with the errno that it ended with: None is well, -1 is not ended."""
        name, *rest = step
        self.steps += 1
        if number is not None and number > 0:
            self.errors.append((name, number))
        getattr(self, f"_do_{name}")(number is None, *rest)

    def _do_open(self, done: bool, slot: int, name: str, flags: int, _mode: int) -> None:
        known = self.names.setdefault(name, [None])
        # A name is used again only where it is known what it stands for.
        assert len(known) == 1
        thing = known[0]
        if thing is None:
            thing = Thing()
            self.names[name] = [thing] if done else [None, thing]
        elif flags & os.O_TRUNC:
            thing.change(b"", certain=done)
        if done:
            self._slots[slot] = Opened(thing, flags)

    def _do_write(self, done: bool, slot: int, seed: int, size: int, short: int | None = None) -> None:
        opened = self._slots[slot]
        offset = len(opened.thing.states[-1]) if opened.flags & os.O_APPEND else opened.position
        opened.position = offset + (size if short is None else short)
        self._do_pwrite(done, slot, seed, size, offset, short)

    def _do_pwrite(
        self, done: bool, slot: int, seed: int, size: int, offset: int, short: int | None = None
    ) -> None:
        thing = self._slots[slot].thing
        before = thing.states[-1].ljust(offset, b"\0")

        def take(count: int, *, certain: bool) -> None:
            written = stuff(seed, size)[:count]
            thing.change(before[:offset] + written + before[offset + count :], certain=certain)

        if done:
            take(size if short is None else short, certain=True)
        if short is not None or not done:
            # What a kill cut off may have been done up to the end of any page.
            first = (offset + (short or 0)) // PAGESIZE + 1
            for end in range(first * PAGESIZE, offset + size, PAGESIZE):
                take(end - offset, certain=False)
            take(size, certain=False)

    def _do_ftruncate(self, done: bool, slot: int, size: int) -> None:
        thing = self._slots[slot].thing
        thing.change(thing.states[-1][:size].ljust(size, b"\0"), certain=done)

    def _do_fsync(self, done: bool, slot: int) -> None:
        self._slots[slot].thing.flush(certain=done)

    def _do_close(self, done: bool, slot: int) -> None:
        self._slots.pop(slot).thing.flush(certain=done)

    def _do_rename(self, done: bool, name: str, other: str) -> None:
        (thing,) = self.names[name]
        self._become(other, thing, done)
        self._become(name, None, done)

    def _do_unlink(self, done: bool, name: str) -> None:
        self._become(name, None, done)

    def _become(self, name: str, thing: Thing | None, done: bool) -> None:
        self.names[name] = [thing] if done else [*self.names.get(name, [None]), thing]

    def whole(self, name: str, found: bytes | None) -> bool:
        """Tell whether the server may have had this before recovery, or nothing (None)."""
        return self._may(name, found, Thing.whole)

    def keeps_acknowledged(self, name: str, found: bytes | None) -> bool:
        """Tell whether this loses nothing that was acknowledged."""
        return self._may(name, found, Thing.keeps_acknowledged)

    def keeps_written(self, name: str, found: bytes | None) -> bool:
        """Tell whether this loses nothing that was written."""
        return self._may(name, found, Thing.keeps_written)

    def _may(self, name: str, found: bytes | None, allowed: Any) -> bool:
        return any(
            found is None if thing is None else found is not None and found in allowed(thing)
            for thing in self.names.get(name, [None])
        )

    def describe(self, name: str, found: bytes | None) -> str:
        """Describe what was found against what there was."""
        for thing in self.names.get(name, [None]):
            if thing is not None and found is not None and found in thing.states:
                at = max(at for at, state in enumerate(thing.states) if state == found)
                marks = f"acknowledged {thing.acknowledged}, certain {thing.certain}"
                return f"content {at} of {len(thing.states)} ({marks})"
        sizes = [None if thing is None else len(thing.states[-1]) for thing in self.names.get(name, [None])]
        size = "nothing" if found is None else f"{len(found)} bytes that it never had"
        return f"{size}, sizes wanted {sizes}"
