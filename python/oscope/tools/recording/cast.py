"""Recordings of asciinema: asciicast, versions 1, 2 and 3 (docs.asciinema.org/manual/asciicast).

Version 1 is one JSON object, whose `stdout` is read event by event; the others have a line for each event.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from oscope.model.errors import OscopeError
from oscope.tools.recording.recording_events import Event, Findings, Resize, Size, Start
from oscope.tools.recording.source import LONGEST_LINE, Source

_CAST = re.compile(rb'\s*\{.*"version"', re.DOTALL)
_FIRST = re.compile(rb'"version"\s*:\s*1\b')
_STDOUT = re.compile(r'"stdout"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


def is_cast(head: bytes) -> bool:
    """Tell whether a file that begins so is a recording of asciinema."""
    return _CAST.match(head) is not None


def read(source: Source, findings: Findings) -> Iterator[Event]:
    """Yield the events of a cast. Raises OscopeError where its header cannot be read."""
    line = source.head.partition(b"\n")[0]
    try:
        header = orjson.loads(line)
    except ValueError:
        header = None
    version = header.get("version") if isinstance(header, dict) else None
    if version in (2, 3):
        return _read_lines(source, header, findings)
    if version == 1 or (header is None and _FIRST.search(source.head)):
        return _read_object(source, findings)
    raise OscopeError(
        f"{source.name} looks like an asciicast, but its header is damaged or of an unknown version",
        remedy="give one of version 1, 2 or 3; asciinema convert makes them",
    )


def _read_lines(source: Source, header: dict[str, Any], findings: Findings) -> Iterator[Event]:
    terminal = header if header["version"] == 2 else header.get("term")
    names = ("width", "height") if header["version"] == 2 else ("cols", "rows")
    values = [terminal.get(name) if isinstance(terminal, dict) else None for name in names]
    columns, rows = (value if isinstance(value, int) else None for value in values)
    yield Start(None if columns is None or rows is None else Size(columns, rows))
    broken = []
    lines = source.lines()
    next(lines)
    for line in lines:
        # Version 3 has remarks.
        if not line.text.strip() or line.text.startswith(b"#"):
            continue
        try:
            event = _event(orjson.loads(line.text))
        except ValueError:
            broken.append(line.number)
            continue
        if event is not None:
            yield event
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        findings.problems.append(f"{source.name}: line {broken[0]}{more} is no event: damaged, or cut off")


def _event(value: object) -> Event | None:
    """Return what an event did to the terminal, None for nothing; ValueError where it is not an event."""
    match value:
        case [int() | float(), "o", str(text)]:
            return text.encode(errors="replace")
        case [int() | float(), "r", str(text)]:
            columns, cross, rows = text.partition("x")
            if not cross:
                raise ValueError(text)
            return Resize(Size(int(columns), int(rows)))
        case [int() | float(), str(), _]:
            return None
        case _:
            raise ValueError(value)


def _read_object(source: Source, findings: Findings) -> Iterator[Event]:
    size = [re.search(rb'"%s"\s*:\s*(\d{1,9})' % name, source.head) for name in (b"width", b"height")]
    yield Start(Size(int(size[0][1]), int(size[1][1])) if size[0] and size[1] else None)
    decoder = json.JSONDecoder()
    chunks = codecs.iterdecode(source.chunks(), "utf-8", errors="replace")
    text = ""
    begun = False
    for chunk in chunks:
        text += chunk
        place = 0
        if not begun:
            found = _STDOUT.search(text)
            if found is None:
                continue
            begun, place = True, found.end()
        while True:
            place = _after(text, place)
            if text.startswith("]", place):
                return
            try:
                value, place = decoder.raw_decode(text, place)
            except ValueError:
                break  # It goes on in the next chunk.
            match value:
                case [int() | float(), str(output)]:
                    yield output.encode(errors="replace")
                case _:
                    findings.problems.append(f"{source.name}: {str(value)[:40]!r} is no event")
                    return
        text = text[place:]
        if len(text) > LONGEST_LINE:
            break
    findings.problems.append(f"{source.name} ends in the middle of an event: damaged, or cut off")


def _after(text: str, place: int) -> int:
    found = _BETWEEN.match(text, place)
    return found.end() if found else place
