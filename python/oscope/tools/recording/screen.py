"""The probe's terminal emulator writes what a person saw (crates/transcript/src/lib.rs has the frames)."""

from __future__ import annotations

import contextlib
import signal
import struct
import subprocess
from typing import IO, BinaryIO, Literal, NoReturn, Self

from oscope.model.errors import OscopeError
from oscope.probe.locate import find_probe
from oscope.tools.recording.recording_events import Size

Marks = Literal["lines", "none"]
"""What frames the last screen of a full-screen program."""
_FRAME = 1 << 16
"""Bytes that are sent at once."""


class Screen:
    """A running emulator. What it is given comes out as text, in lines, at a file."""

    def __init__(self, output: BinaryIO, marks: Marks) -> None:
        """Start one that writes to the descriptor of `output`, which has to have nothing in its buffer."""
        self._pending = bytearray()
        try:
            self._process = subprocess.Popen(
                [find_probe(), "screen", "--marks", marks],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise OscopeError(
                f"the terminal emulator does not start ({error})", remedy="build it anew with `make setup`"
            ) from error
        self._stdin: IO[bytes] = self._process.stdin  # type: ignore[assignment]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, if it has not ended in good order."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for stream in (self._stdin, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def renew(self, size: Size) -> None:
        """Begin with an empty terminal of this size; what the one before shows is written first."""
        self._send_sized(b"n", size)

    def resize(self, size: Size) -> None:
        """Change the window's size."""
        self._send_sized(b"r", size)

    def feed(self, content: bytes) -> None:
        """Give the terminal these bytes. Raises BrokenPipeError where the reader of the text has left."""
        self._pending += content
        if len(self._pending) >= _FRAME:
            self._send_pending()

    def finish(self) -> None:
        """Have the rest written, and wait until it is. Raises OscopeError where something failed."""
        self._send_pending()
        try:
            self._stdin.close()
        except BrokenPipeError:
            self._fail()
        if self._process.wait() != 0:
            self._fail()

    def _send_sized(self, kind: bytes, size: Size) -> None:
        self._send_pending()
        self._send(kind, struct.pack("<HH", size.columns, size.rows))

    def _send_pending(self) -> None:
        for start in range(0, len(self._pending), _FRAME):
            self._send(b"o", bytes(self._pending[start : start + _FRAME]))
        self._pending.clear()

    def _send(self, kind: bytes, rest: bytes) -> None:
        try:
            self._stdin.write(kind + struct.pack("<I", len(rest)) + rest)
        except BrokenPipeError:
            self._fail()

    def _fail(self) -> NoReturn:
        """Raise the error that says why it ended."""
        status = self._process.wait()
        if status == -signal.SIGPIPE:
            raise BrokenPipeError
        stderr = self._process.stderr
        words = stderr.read().decode(errors="replace").strip() if stderr else ""
        if words:
            raise OscopeError(words.removeprefix("oscope-probe: "), remedy="check the place and its space")
        raise OscopeError(f"the terminal emulator ended with status {status}", remedy="try again")
