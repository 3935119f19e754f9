"""Which program made a recording is seen from how it begins."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oscope.model.errors import OscopeError, UsageError
from oscope.tools.recording import cast, timing, typescript
from oscope.tools.recording.recording_events import Event, Findings, Start
from oscope.tools.recording.source import Source

_NO_TEXT = re.compile(rb"[\x00-\x06\x10-\x1a\x1c-\x1f]")
"""Control characters that programs do not send to terminals, unlike shift-out and shift-in."""
_MOST_NO_TEXT = 0.02
"""Share of such characters and of bytes that are not UTF-8, above which a file is taken for binary data."""


def events(source: Source, times: Source | None, findings: Findings) -> Iterator[Event]:
    """Return the events of a recording of any kind, with its timing file if it has one.

    Raises OscopeError where it is empty or no recording, UsageError where a timing file is out of place.
    """
    head = source.head
    if not head:
        raise OscopeError(f"{source.name} is empty", remedy="give what script or asciinema recorded")
    if timing.is_timing(head):
        raise UsageError(
            f"{source.name} is a timing file, which has none of the output",
            remedy="name the recording, and the timing file with --timing",
        )
    if times is not None:
        if not timing.is_timing(times.head):
            raise UsageError(
                f"--timing {times.name} is not a timing file",
                remedy="name what script -T or --log-timing wrote",
            )
        if cast.is_cast(head):
            raise UsageError(
                f"{source.name} is an asciicast, which has its times in itself", remedy="leave out --timing"
            )
        return typescript.read_timed(source, timing.read(times, findings), findings)
    if head.startswith(typescript.BEGIN):
        return typescript.read(source, findings)
    if cast.is_cast(head):
        return cast.read(source, findings)
    return _unnamed(source, findings)


def _unnamed(source: Source, findings: Findings) -> Iterator[Event]:
    """Yield what has no header as what a terminal got; OscopeError for binary data."""
    strange = len(_NO_TEXT.findall(source.head)) + source.head.decode(errors="replace").count("\ufffd")
    if strange > _MOST_NO_TEXT * len(source.head):
        raise OscopeError(
            f"{source.name} is not a recording but binary data",
            remedy="give what script or asciinema recorded",
        )
    # A terminal's lines end in both. Where they do not, no terminal was between the program and the file.
    plain = b"\r\n" not in source.head
    note = "no terminal was in between: its lines are ended as a terminal would" if plain else "it is read so"
    findings.notes.append(f"{source.name} is of neither script nor asciinema but a plain stream; {note}")
    yield Start(None)
    for chunk in source.chunks():
        yield chunk.replace(b"\n", b"\r\n") if plain else chunk
