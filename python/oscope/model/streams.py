"""The process's standard streams, where they are closed, full, or left by their reader.

A closed descriptor 0, 1 or 2 is opened again (`oscope.model.descriptors`). What standard output or
standard error cannot take is lost without an exception: a command ends its work and writes its files. The
first failure is kept for the command's end.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import stat
import sys
from typing import Any, TextIO

from oscope.model import descriptors


class _Lasting(io.FileIO):
    """A descriptor for writing; after its first failure nothing more is tried, and all that comes is lost."""

    failure: OSError | None = None

    def write(self, content: Any, /) -> int:
        """Write, or lose, all of it."""
        if self.failure is None:
            try:
                return super().write(content)
            except OSError as error:
                self.failure = error
        return memoryview(content).nbytes


def secure() -> None:
    """Make the standard streams usable, whatever they are; nothing is changed of those that tests replace."""
    descriptors.open_closed()
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it lives as long as the process.
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _lasting(stream, descriptor))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def failure_of(stream: TextIO) -> OSError | None:
    """Return what kept `stream` from taking all that was written, which is flushed first."""
    with contextlib.suppress(ValueError):
        stream.flush()
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, _Lasting) else None


def write_now(stream: TextIO, content: bytes) -> None:
    """Pass on what another program wrote. Raises BrokenPipeError once standard output takes nothing more."""
    stream.buffer.write(content)
    stream.buffer.flush()
    if stream is sys.stdout and failure_of(stream) is not None:
        raise BrokenPipeError


def is_standard_output_open() -> bool:
    """Say whether standard output is open for writing."""
    try:
        return fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False


def is_input_redirected() -> bool:
    """Say whether standard input is a pipe or a file, so that somebody may mean it to be read."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _lasting(stream: io.TextIOWrapper | None, descriptor: int) -> io.TextIOWrapper:
    buffer = io.BufferedWriter(_Lasting(descriptor, "w", closefd=False))
    return io.TextIOWrapper(
        buffer,
        encoding=None if stream is None else stream.encoding,
        # A terminal without Unicode gets question marks for µ and –, not an error after the measurement.
        errors="replace",
        line_buffering=descriptor == 2 or (stream is not None and stream.line_buffering),
        write_through=False if stream is None else stream.write_through,
    )
