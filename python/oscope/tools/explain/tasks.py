"""The processes and threads of a trace as a tree, and the programs that each of them ran."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from oscope.tools.explain.reading import MAKERS, Call, Event, Trace

Kind = Literal["first", "process", "thread"]

EXECS = frozenset(("execve", "execveat"))

_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(?:\.\.\.)?')
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}


@dataclass(slots=True, eq=False)
class Image:
    """What a task ran from one exec to the next."""

    task: Task
    started_by: Call | None
    """The exec; None for a copy of the parent, a thread, or what ran before the trace begins."""
    calls: list[Call] = field(default_factory=list)
    """All calls of the task while it ran this, the exec included."""
    phases: list[str] = field(default_factory=list)
    """The phase of each call."""
    purposes: list[str] = field(default_factory=list)
    """What each call is for, here."""

    @property
    def path(self) -> str | None:
        """The path that was to be executed, as the program wrote it; None where no exec began this."""
        if self.started_by is None:
            return None
        return unquoted(self.started_by.word(1 if self.started_by.name == "execveat" else 0))

    @property
    def command(self) -> list[str]:
        """The words of its command line, as far as strace printed them."""
        if self.started_by is None:
            return []
        words = self.started_by.word(2 if self.started_by.name == "execveat" else 1)
        return [unescaped(found[1]) for found in _QUOTED.finditer(words)]


@dataclass(slots=True, eq=False)
class Task:
    """A process, or a thread of one."""

    pid: int | None
    kind: Kind = "first"
    """`first`: its maker is not in the trace."""
    maker: Task | None = None
    made_by: Call | None = None
    images: list[Image] = field(default_factory=list)
    children: list[Task] = field(default_factory=list)
    signals: list[Event] = field(default_factory=list)
    ended: str = ""
    """How it ended, as strace prints it: `exited with 0`; empty where the trace does not."""

    @property
    def calls(self) -> Iterator[Call]:
        """All its calls."""
        return (call for image in self.images for call in image.calls)

    @property
    def program(self) -> str | None:
        """The path of the program that it ran first, its maker's where it ran none of its own."""
        task: Task | None = self
        while task is not None:
            paths = [image.path for image in task.images if image.path is not None]
            if paths:
                return paths[0] if task is self else paths[-1]
            task = task.maker
        return None


@dataclass
class Tree:
    """All tasks of a trace."""

    tasks: list[Task]
    """In the order in which they are first seen."""
    unfollowed: list[Call]
    """Calls that made a task of which nothing is in the trace."""

    @property
    def roots(self) -> list[Task]:
        """Those whose maker is not in the trace."""
        return [task for task in self.tasks if task.maker is None]

    @property
    def images(self) -> Iterator[Image]:
        """All images, task by task."""
        return (image for task in self.tasks for image in task.images)


def build(trace: Trace) -> Tree:
    """Return the tasks of `trace`, each with its calls."""
    makers: dict[int, list[Call]] = defaultdict(list)
    for call in trace.calls:
        if call.name in MAKERS and call.succeeded and call.value:
            makers[call.value].append(call)
    tasks: list[Task] = []
    running: dict[int | None, Task] = {}
    by_call: dict[int, Task] = {}
    seen = 0
    for record in trace.records:
        task = running.get(record.pid)
        if task is None:
            task = Task(record.pid)
            _find_maker(task, makers, by_call, seen)
            tasks.append(task)
            running[record.pid] = task
        if isinstance(record, Call):
            seen = record.number
            if record.name in MAKERS:
                by_call[record.number] = task
            _place(task, record)
        elif record.kind == "signal":
            task.signals.append(record)
        else:
            task.ended = record.text
            del running[record.pid]
    unfollowed = [call for calls in makers.values() for call in calls]
    return Tree(tasks, sorted(unfollowed, key=lambda call: call.number))


def unquoted(word: str) -> str:
    """Return what a quoted argument stands for; a word that is not quoted (an address) as it is."""
    found = _QUOTED.match(word)
    return unescaped(found[1]) if found else word


def unescaped(text: str) -> str:
    """Return a text without strace's escapes. Bytes that are no UTF-8 stay escaped."""
    if "\\" not in text:
        return text

    def one(found: re.Match[str]) -> bytes:
        escape = found[1]
        if escape[0] == "x":
            return bytes([int(escape[1:], 16)])
        if escape[0].isdigit():
            return bytes([int(escape, 8) & 0xFF])
        return _ESCAPES.get(escape, escape).encode()

    parts: list[bytes] = []
    place = 0
    for found in _ESCAPE.finditer(text):
        parts += [text[place : found.start()].encode(), one(found)]
        place = found.end()
    return b"".join([*parts, text[place:].encode()]).decode(errors="backslashreplace")


def _find_maker(task: Task, makers: dict[int, list[Call]], by_call: dict[int, Task], seen: int) -> None:
    """Find the call that made `task`: the last one of those that had begun by call number `seen`."""
    if task.pid is None:
        return
    # A child may be seen before the call that made it has returned, but not before it has begun.
    made = [call for call in makers.get(task.pid, ()) if call.number <= seen]
    if not made:
        return
    call = made[-1]
    for each in made:
        # Earlier ones made tasks of the same number that did nothing that is in the trace.
        makers[task.pid].remove(each)
    task.made_by = call
    task.maker = by_call[call.number]
    task.maker.children.append(task)
    task.kind = "thread" if "CLONE_THREAD" in call.arguments else "process"


def _place(task: Task, call: Call) -> None:
    """Put a call into the image that made it; an exec that succeeded begins one."""
    if call.name in EXECS and call.succeeded:
        task.images.append(Image(task, call))
    elif not task.images:
        task.images.append(Image(task, None))
    task.images[-1].calls.append(call)
