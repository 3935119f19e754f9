"""What strace wrote, read whole: calls in the order in which they began, signals, ends, and what is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO

from oscope.model.errors import UsageError
from oscope.tools.explain.line import Clock, Line, parse, split_arguments
from oscope.tools.explain.purposes import resolve

MOST_CALLS = 500_000
"""Calls that are explained; later ones of a longer trace are counted."""
LONGEST_LINE = 1 << 20
KEPT = 10_000
"""Texts whose meaning is kept, since calls that follow each other have the same files and results."""
REMEDY = "trace with: strace -f -ttt -T -yy -o FILE COMMAND"

MOST_WITHOUT_CALL = 2**24
"""Bytes without a call after which the rest is not read: a device such as /dev/zero has no end."""

MAKERS = frozenset(("clone", "clone3", "fork", "vfork"))
"""Calls that make a process or a thread."""

_DAY_NS = 24 * 3600 * 10**9
_SUMMARY = re.compile(r"\s*% time\s+seconds\s+usecs/call\s+calls\s+errors\s+syscall")
_ATTACHED = re.compile(r"(?<=\()(.*)strace: Process \d+ attached$")
"""On standard error this stands within the call that made the process, which goes on in the next line."""
_SUPERSEDED = re.compile(r"superseded by execve in pid (\d+)")
_NUMBER = re.compile(r"0x[0-9a-f]{1,16}|-?\d{1,20}")
_OCTAL = re.compile(r"0[0-7]+")
_ERROR = re.compile(r"(?:-1|\?) (E[A-Z0-9]+)")


@dataclass(slots=True)
class Call:
    """A system call."""

    number: int
    """Its place in the trace, from 1."""
    pid: int | None
    at_ns: int | None
    """When it began, from the first line of the trace; None where that has no times."""
    name: str
    arguments: str
    result: str = ""
    """As strace wrote it, after the equals sign; empty where it had not returned."""
    took_ns: int | None = None
    file: str = ""
    """The file, pipe, socket or device that it is about, as far as the trace shows; set by `narration`."""
    target: str = ""
    """Of a call that moves bytes from one file to another, the other one."""
    _words: list[str] | None = field(default=None, repr=False)

    @property
    def words(self) -> list[str]:
        """Its arguments, each as strace wrote it."""
        if self._words is None:
            self._words = split_arguments(self.arguments)
        return self._words

    def word(self, index: int) -> str:
        """Return argument `index`, from 0; empty where there is none."""
        words = self._words if self._words is not None else self.words
        return words[index] if index < len(words) else ""

    @property
    def value(self) -> int | None:
        """What it returned; None where it returned nothing, or had not returned."""
        return _returned(self.result)[0]

    @property
    def error(self) -> str | None:
        """The name of the error that it returned, such as ENOENT."""
        return _returned(self.result)[1]

    @property
    def succeeded(self) -> bool:
        """Whether it returned, and no error."""
        value, error = _returned(self.result)
        return value is not None and error is None

    @property
    def text(self) -> str:
        """The call as strace writes it."""
        return f"{self.name}({self.arguments}) = {self.result or '…'}"


@lru_cache(maxsize=KEPT)
def _returned(result: str) -> tuple[int | None, str | None]:
    """Return the number and the name of the error in what strace wrote as a call's result."""
    error = _ERROR.match(result)
    found = _NUMBER.match(result)
    if found is None:
        value = None
    elif found[0].startswith("0x"):
        value = int(found[0], 16)
    else:
        # strace writes what umask returns in octal digits.
        value = int(found[0], 8 if _OCTAL.fullmatch(found[0]) else 10)
    return value, error[1] if error else None


@dataclass(slots=True)
class Event:
    """A signal that came to a process, or the process's end."""

    kind: str
    """`signal` or `end`."""
    pid: int | None
    at_ns: int | None
    text: str


@dataclass
class Trace:
    """All that was read."""

    records: list[Call | Event] = field(default_factory=list)
    """In the order in which they began."""
    clock: Clock | None = None
    lines: int = 0
    not_understood: int = 0
    example: str = ""
    """The first line that was not understood."""
    cut: int = 0
    """Calls whose line ends too early, or whose other half is missing."""
    left_out: int = 0
    """Calls beyond `MOST_CALLS`."""
    truncated: bool = False
    """Whether the last line has no end."""

    @property
    def calls(self) -> Iterator[Call]:
        """Its calls."""
        return (record for record in self.records if isinstance(record, Call))


def read(file: IO[bytes], name: str) -> Trace:
    """Read a trace. Raises UsageError, which names the file as `name`, where it holds no call."""
    reader = _Reader()
    last, size = b"", 0
    while line := file.readline(LONGEST_LINE):
        last = line
        size += len(line)
        if size > MOST_WITHOUT_CALL and not reader.number:
            raise UsageError(
                f"{name} has no system call of strace in its first {MOST_WITHOUT_CALL >> 20} MiB",
                remedy=REMEDY,
            )
        reader.feed(line.rstrip(b"\r\n").decode(errors="backslashreplace"))
    trace = reader.trace
    trace.truncated = bool(last) and not last.endswith(b"\n")
    _name_processes(trace.records)
    # What looks like calls in the source of a program has no results.
    if reader.number and (not trace.not_understood or any(call.result for call in trace.calls)):
        return trace
    if not trace.lines:
        raise UsageError(f"{name} is empty", remedy=REMEDY)
    if reader.summary:
        raise UsageError(
            f"{name} is a summary of strace -c, which has no calls in order", remedy="trace without -c"
        )
    raise UsageError(f"{name}: none of its {trace.lines} lines is a system call of strace", remedy=REMEDY)


def _name_processes(records: list[Call | Event]) -> None:
    """Give lines without a process id the one that they belong to: strace leaves it out on standard error.

    It does so while it traces one process only: the first one at the beginning, later whichever is left.
    """
    pids = {record.pid for record in records} - {None}
    if not pids:
        return
    made = {record.value for record in records if isinstance(record, Call) and record.name in MAKERS}
    first = pids - made
    alive = set(first) if len(first) == 1 else set()
    for record in records:
        if record.pid is None and len(alive) == 1:
            (record.pid,) = alive
        if record.pid is None:
            continue
        if isinstance(record, Event) and record.kind == "end":
            alive.discard(record.pid)
        else:
            alive.add(record.pid)


class _Reader:
    """Puts lines together."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.number = 0
        self.summary = False
        self._parted: dict[int | None, Call] = {}
        self._first_ns: int | None = None
        self._now_ns: int | None = None
        self._days = 0
        self._broken = ""

    def feed(self, text: str) -> None:
        """Take in a line."""
        if not text.strip():
            return
        trace = self.trace
        trace.lines += 1
        text = self._broken + text
        self._broken = ""
        if "strace: Process" in text and (attached := _ATTACHED.search(text)):
            self._broken = text[: attached.end(1)]
            return
        line = parse(text)
        at_ns = self._time(line)
        match line.kind:
            case "call" | "begun" | "cut":
                self._begin(line, at_ns)
            case "resumed":
                self._resume(line, at_ns)
            case "signal" | "end":
                self._report(line, at_ns)
            case "other":
                self.summary = self.summary or _SUMMARY.match(text) is not None
                trace.not_understood += 1
                trace.example = trace.example or text

    def _begin(self, line: Line, at_ns: int | None) -> None:
        if line.kind == "cut":
            if line.text.startswith("<..."):
                # A call that was parted more than once: its other parts are on their way.
                return
            self.trace.cut += 1
        self.number += 1
        if self.number > MOST_CALLS:
            self.trace.left_out += 1
            return
        call = Call(
            self.number, line.pid, at_ns, resolve(line.name), line.arguments, line.result, line.took_ns
        )
        self.trace.records.append(call)
        if line.kind == "begun":
            self._parted[line.pid] = call

    def _resume(self, line: Line, at_ns: int | None) -> None:
        call = self._parted.pop(line.pid, None)
        if call is None and None in self._parted:
            # It began while the process was the only one, whose id strace leaves out on standard error.
            call = self._parted.pop(None)
            call.pid = line.pid
        if call is None or call.name != resolve(line.name):
            if self.trace.left_out:
                return
            # Its beginning is not in the trace.
            self.trace.cut += 1
            self.number += 1
            call = Call(self.number, line.pid, at_ns, resolve(line.name), "")
            self.trace.records.append(call)
        rest = line.arguments.removeprefix(",").strip()
        # A structure that the call changes is reported twice, parted by an arrow.
        joint = "" if not (rest and call.arguments) else " " if rest.startswith("=>") else ", "
        call.arguments += joint + rest
        call.result = line.result
        call.took_ns = line.took_ns

    def _report(self, line: Line, at_ns: int | None) -> None:
        if found := _SUPERSEDED.match(line.text):
            # The thread that runs another program takes the process's id over (execve(2), ptrace(2)).
            if parted := self._parted.pop(int(found[1]), None):
                parted.pid = line.pid
                self._parted[line.pid] = parted
            return
        self.trace.records.append(Event(line.kind, line.pid, at_ns, line.text))

    def _time(self, line: Line) -> int | None:
        """Return when a line was written, from the first one on."""
        if line.at_ns is None:
            return None
        self.trace.clock = self.trace.clock or line.clock
        if line.clock == "relative":
            self._now_ns = 0 if self._now_ns is None else self._now_ns + line.at_ns
            return self._now_ns
        now = line.at_ns + self._days * _DAY_NS
        if line.clock == "day" and self._now_ns is not None and now < self._now_ns - _DAY_NS // 2:
            self._days += 1
            now += _DAY_NS
        self._now_ns = now
        self._first_ns = now if self._first_ns is None else self._first_ns
        return now - self._first_ns
