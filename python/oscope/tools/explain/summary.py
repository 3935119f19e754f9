"""What a trace sums to: by call, by file, by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from oscope.tools.explain.phases import PHASES
from oscope.tools.explain.purposes import purpose
from oscope.tools.explain.reading import Call
from oscope.tools.explain.state import MAPS, TWO_FILES
from oscope.tools.explain.tasks import Image, Tree
from oscope.trace.calls import TRANSFERS

Sum = TypeVar("Sum")

_OPENS = frozenset(("open", "openat", "openat2", "creat"))
_READS = frozenset(("read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg"))
_WRITES = frozenset(
    name for name in TRANSFERS if name not in _READS and name not in TWO_FILES and name != "getrandom"
)


@dataclass
class CallSum:
    """All calls of one name."""

    name: str
    count: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    time_ns: int = 0
    timed: int = 0
    """The number of calls whose time is in the trace."""

    @property
    def group(self) -> str:
        """The group of calls that it belongs to."""
        return purpose(self.name).group

    @property
    def purpose(self) -> str:
        """What it is for."""
        return purpose(self.name).text


@dataclass
class FileSum:
    """All that was done with one file, pipe, socket or device."""

    path: str
    calls: int = 0
    opened: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    mapped_bytes: int = 0
    """Of all mappings of it, also those that lie over each other."""
    errors: Counter[str] = field(default_factory=Counter)


@dataclass
class PhaseSum:
    """A phase of one program, or of all."""

    name: str
    count: int = 0
    time_ns: int = 0
    """In its calls."""
    span_ns: int | None = None
    """From its first call to the first of the next phase; of several programs the sum. None without times."""


class _Sums(dict[str, Sum], Generic[Sum]):
    """Sums by name, each made when it is first asked for."""

    def __init__(self, make: Callable[[str], Sum]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Sum:
        return self.setdefault(name, self._make(name))


def by_call(calls: Iterable[Call]) -> list[CallSum]:
    """Return a sum for each name, those that took longest first."""
    sums = _Sums(CallSum)
    for call in calls:
        each = sums[call.name]
        each.count += 1
        if call.error is not None:
            each.errors[call.error] += 1
        if call.took_ns is not None:
            each.time_ns += call.took_ns
            each.timed += 1
    return sorted(sums.values(), key=lambda each: (-each.time_ns, -each.count, each.name))


def by_file(calls: Iterable[Call]) -> list[FileSum]:
    """Return a sum for each file, in the order in which they are first met."""
    sums = _Sums(FileSum)
    for call in calls:
        if not call.file and not call.target:
            continue
        moved = call.value if call.succeeded and call.value is not None else 0
        if call.file:
            source = sums[call.file]
            source.calls += 1
            if call.error is not None:
                source.errors[call.error] += 1
            if call.name in _OPENS and call.succeeded:
                source.opened += 1
            if call.name in _READS or call.name in TWO_FILES:
                source.read_bytes += moved
            elif call.name in _WRITES:
                source.written_bytes += moved
            elif call.name in MAPS and call.succeeded and call.word(1).isdecimal():
                source.mapped_bytes += int(call.word(1))
        if call.target:
            target = sums[call.target]
            target.calls += 1
            target.written_bytes += moved
    return list(sums.values())


def by_phase(image: Image) -> list[PhaseSum]:
    """Return a sum for each phase of a program, in the order of its life, its own always."""
    sums = {name: PhaseSum(name) for name in PHASES}
    last = image.calls[-1]
    for index, (call, phase) in enumerate(zip(image.calls, image.phases, strict=True)):
        each = sums[phase]
        each.count += 1
        each.time_ns += call.took_ns or 0
        if call.at_ns is None:
            continue
        following = image.calls[index + 1] if call is not last else None
        if following is not None:
            end = following.at_ns
        else:
            end = None if call.took_ns is None else call.at_ns + call.took_ns
        if end is not None:
            each.span_ns = (each.span_ns or 0) + max(end - call.at_ns, 0)
    return [each for each in sums.values() if each.count or each.name == "program"]


def of_all_phases(tree: Tree) -> list[PhaseSum]:
    """Return a sum for each phase over all programs and tasks."""
    sums = {name: PhaseSum(name) for name in PHASES}
    for image in tree.images:
        for each in by_phase(image):
            whole = sums[each.name]
            whole.count += each.count
            whole.time_ns += each.time_ns
            if each.span_ns is not None:
                whole.span_ns = (whole.span_ns or 0) + each.span_ns
    return [each for each in sums.values() if each.count or each.name == "program"]
