"""What `script` records: a line that marks the beginning, what the terminal got, a line that marks the end.

The lines are those of util-linux (term-utils/script.c). They end in a bare line feed, a terminal's lines in
a carriage return and a line feed, so that a typescript that was shown in a session is not taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator

from oscope.tools.recording.recording_events import Event, Findings, Size, Start
from oscope.tools.recording.source import Source
from oscope.tools.recording.timing import Input, Output, Step

BEGIN = b"Script started on "
_END = b"\nScript done on "
_END_LINE = re.compile(rb"\nScript done on [^\r\n]*(?:\n(?=%s|\Z)|\Z)" % BEGIN)
_LAST_LINE = re.compile(rb"\nScript done on [^\r\n]*\n?\Z")
_BEGIN = re.compile(BEGIN)
_LINE = re.compile(rb"[^\n]*\n?")
_LONGEST_LINE = 1 << 16
"""Bytes of the lines at the beginning and at the end, which hold the command."""
_COLUMNS = re.compile(rb' COLUMNS="(\d{1,9})"')
_ROWS = re.compile(rb' LINES="(\d{1,9})"')


def read(source: Source, findings: Findings) -> Iterator[Event]:
    """Yield the events of a typescript; `script -a` puts several sessions into one."""
    content = _Content(source.chunks())
    while content.fill(len(BEGIN)):
        yield Start(_size(content.take_line()))
        ended = yield from _session(content)
        if not ended:
            findings.problems.append(_without_end(source))


def read_timed(source: Source, steps: Iterable[Step], findings: Findings) -> Iterator[Event]:
    """Yield the events of a typescript in which `steps`, from its timing file, tell what is output."""
    chunks = _BeforeEnd(source.chunks())
    content = _Content(iter(chunks))
    content.fill(len(BEGIN))
    yield Start(_size(content.take_line()) if content.match(_BEGIN) else None)
    missing = 0
    for step in steps:
        match step:
            case Output(count):
                missing += count - (yield from content.take(count))
            case Input(count):
                missing += count - content.skip(count)
            case _:
                yield step
    if missing:
        findings.problems.append(
            f"the timing has {missing} bytes more than {source.name} has: one of the two was cut off, or"
            " belongs to another recording"
        )
    elif content.fill(1):
        findings.problems.append(
            f"{source.name} has more than the timing, which is taken for output: one of the two was"
            " cut off, or belongs to another recording"
        )
        while content.fill(1):
            yield from content.take(content.ready)
    elif not chunks.ended:
        findings.problems.append(_without_end(source))


def _without_end(source: Source) -> str:
    return f"{source.name} has no line that marks the session's end: it was cut off, or is still going on"


def _size(line: bytes) -> Size | None:
    """Return the size that the first line reports. What it says of the terminal stands behind the command."""
    columns, rows = _COLUMNS.findall(line), _ROWS.findall(line)
    return Size(int(columns[-1]), int(rows[-1])) if columns and rows else None


def _session(content: _Content) -> Generator[Event, None, bool]:
    """Yield what the terminal got, up to the line that marks the end; return whether there is one."""
    while True:
        found = content.find(_END)
        if found < 0:
            # All but what may be the beginning of that line.
            yield from content.take(max(0, content.ready - len(_END) + 1))
            if not content.fill(content.ready + 1):
                yield from content.take(content.ready)
                return False
            continue
        yield from content.take(found)
        if content.take_end():
            return True
        yield from content.take(len(_END))


class _BeforeEnd:
    """Chunks without the line at their very end that marks the session's end."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.ended = False
        """Whether there was such a line, once all chunks were taken."""

    def __iter__(self) -> Iterator[bytes]:
        held = b""
        for chunk in self._chunks:
            held += chunk
            if len(held) > _LONGEST_LINE:
                yield held[:-_LONGEST_LINE]
                held = held[-_LONGEST_LINE:]
        line = _LAST_LINE.search(held)
        self.ended = line is not None
        if rest := held[: line.start()] if line else held:
            yield rest


class _Content:
    """Bytes that are taken in sequence."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""
        self._place = 0
        """How much of the buffer is taken: timing files cut it into small pieces."""

    @property
    def ready(self) -> int:
        """How many bytes are in the buffer."""
        return len(self._buffer) - self._place

    def fill(self, count: int) -> bool:
        """Have `count` bytes in the buffer if there are as many; return whether."""
        while self.ready < count:
            chunk = next(self._chunks, b"")
            if not chunk:
                return False
            self._buffer = self._buffer[self._place :] + chunk
            self._place = 0
        return True

    def find(self, sought: bytes) -> int:
        """Return how many bytes of the buffer are before `sought`; negative where it is not there."""
        return max(self._buffer.find(sought, self._place) - self._place, -1)

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Return how the buffer begins with `pattern`."""
        return pattern.match(self._buffer, self._place)

    def take(self, count: int) -> Generator[bytes, None, int]:
        """Yield the next `count` bytes; return how many there were."""
        left = count
        while left and self.fill(1):
            piece = self._buffer[self._place : self._place + left]
            self._place += len(piece)
            left -= len(piece)
            yield piece
        return count - left

    def skip(self, count: int) -> int:
        """Pass over the next `count` bytes; return how many there were."""
        return sum(map(len, self.take(count)))

    def take_line(self) -> bytes:
        """Return the next line, or what there is of it."""
        self.fill(_LONGEST_LINE)
        line = self.match(_LINE)
        return b"".join(self.take(line.end() - line.start())) if line else b""

    def take_end(self) -> bool:
        """Pass over the line that marks the end, if the buffer begins with it; return whether."""
        self.fill(_LONGEST_LINE)
        line = self.match(_END_LINE)
        if line is None:
            return False
        self.skip(line.end() - line.start())
        return True
