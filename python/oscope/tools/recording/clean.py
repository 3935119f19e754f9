"""What a person saw of a recorded session."""

from __future__ import annotations

import contextlib
from typing import BinaryIO

from oscope.tools.recording import kind
from oscope.tools.recording.recording_events import USUAL, Findings, Resize, Size, Start
from oscope.tools.recording.screen import Marks, Screen
from oscope.tools.recording.source import opened


def clean(path: str, output: BinaryIO, *, timing: str | None, size: Size | None, marks: Marks) -> Findings:
    """Write what a person saw of a recording to `output`, and return what is to be said of it.

    `path` is the recording's, `-` is standard input; `timing` that of its timing file. `size` is the
    terminal's at the beginning, instead of that in the recording. A recording that is damaged gives what
    could be read, and a trouble in what is returned. Raises UsageError or OscopeError where there is
    nothing to read.
    """
    findings = Findings()
    with contextlib.ExitStack() as files:
        source = files.enter_context(opened(path))
        times = files.enter_context(opened(timing)) if timing is not None else None
        events = kind.events(source, times, findings)
        with Screen(output, marks) as screen:
            for event in events:
                match event:
                    case bytes():
                        screen.feed(event)
                    case Start():
                        screen.renew(size or _known(event.size, source.name, findings))
                    case Resize() if event.size.is_sensible:
                        screen.resize(event.size)
                    case Resize():
                        findings.problems.append(
                            f"{source.name} has a window of {event.size}: left as it was"
                        )
            screen.finish()
    return findings


def _known(size: Size | None, name: str, findings: Findings) -> Size:
    """Return the size, or the usual one with a note."""
    if size is not None and size.is_sensible:
        return size
    description = (
        "does not contain the size of its terminal" if size is None else f"names a terminal of {size}"
    )
    findings.notes.append(f"{name} {description}: {USUAL} is taken; --size names another")
    return USUAL
