"""Makes a recording: a command runs in a terminal of its own, and what it sends is shown and kept.

The file is an asciicast of version 2 (docs.asciinema.org/manual/asciicast/v2). What is typed is not kept: it
may be a password. What is not UTF-8 is kept as U+FFFD, since JSON has no other bytes.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import json
import os
import select
import selectors
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from oscope.model.errors import OscopeError, UsageError
from oscope.tools.recording.recording_events import USUAL, Size
from oscope.tools.recording.tty_guard import raw

_CHUNK = 1 << 16
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_END_OF_INPUT = b"\x04"
"""What a terminal's line discipline takes for the end of the input (VEOF of a new terminal)."""


def record(path: Path, command: Sequence[str]) -> int:
    """Run `command` in a new terminal, of the size of this one, and record what it sends to a new file.

    Returns the command's exit code as a shell reports it. Raises UsageError where the file is there already
    or the command cannot be started; then no file is left behind.
    """
    outer = next((fd for fd in (0, 1, 2) if os.isatty(fd)), None)
    try:
        file = path.open("xb", buffering=0)
    except FileExistsError:
        raise UsageError(f"{path} is there already", remedy="name a new file, or remove it") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror})", remedy="name another file"
        ) from error
    with file, contextlib.ExitStack() as stack:
        inner, terminal = os.openpty()
        stack.callback(os.close, inner)
        size = _window(outer)
        _set_window(terminal, size)
        if outer is not None:
            # Special characters and modes are those that the person has.
            termios.tcsetattr(terminal, termios.TCSANOW, termios.tcgetattr(outer))
        try:
            child = _start(command, terminal)
        except OSError as error:
            path.unlink()
            raise UsageError(
                f"{command[0]} cannot be started ({error.strerror})", remedy="name a program that can be run"
            ) from error
        finally:
            os.close(terminal)
        stack.callback(_end, child)
        cast = _Cast(file, size, command)
        with raw(0) if os.isatty(0) else contextlib.nullcontext():
            return _Session(inner, child, cast, outer).run()


def _start(command: Sequence[str], terminal: int) -> subprocess.Popen[bytes]:
    """Start `command` as the leader of a session whose terminal is `terminal`."""
    return subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        # Before any thread: nothing can hold a lock in the child.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Have the command end, if it still runs."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGHUP)
        try:
            child.wait(2)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _window(terminal: int | None) -> Size:
    if terminal is None:
        return USUAL
    columns, rows = os.get_terminal_size(terminal)
    size = Size(columns, rows)
    # A terminal that was never given its size says 0.
    return size if size.is_sensible else USUAL


def _set_window(terminal: int, size: Size) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


class _Cast:
    """An asciicast under way. Each event is in the file at once: what was seen stays, however this ends."""

    def __init__(self, file: BinaryIO, size: Size, command: Sequence[str]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._begun = time.monotonic()
        environment = {name: os.environ[name] for name in ("SHELL", "TERM") if name in os.environ}
        self._write(
            {
                "version": 2,
                "width": size.columns,
                "height": size.rows,
                "timestamp": int(time.time()),
                "command": " ".join(command),
                "env": environment,
            }
        )

    def output(self, content: bytes, *, final: bool = False) -> None:
        """Keep what the command sent. A character that is cut waits for its rest."""
        if text := self._decoder.decode(content, final=final):
            self._event("o", text)

    def resize(self, size: Size) -> None:
        """Keep that the window got another size."""
        self._event("r", str(size))

    def _event(self, kind: str, text: str) -> None:
        self._write([round(time.monotonic() - self._begun, 6), kind, text])

    def _write(self, value: object) -> None:
        line = json.dumps(value, ensure_ascii=False).encode(errors="replace") + b"\n"
        try:
            _write_all(self._file.fileno(), line)
        except OSError as error:
            raise OscopeError(
                f"the recording cannot be written ({error.strerror})",
                remedy="make space; the command was ended",
            ) from error


class _Session:
    """Passes on what is typed and what is shown, until the command ends."""

    def __init__(self, inner: int, child: subprocess.Popen[bytes], cast: _Cast, outer: int | None) -> None:
        self._inner = inner
        self._child = child
        self._cast = cast
        self._outer = outer
        self._pending: set[int] = set()
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Return the command's exit code, or that of the signal that ended this."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._selector)
            woken = stack.enter_context(_signals(self._pending))
            ended = os.pidfd_open(self._child.pid)
            stack.callback(os.close, ended)
            for descriptor in (self._inner, woken, ended):
                self._selector.register(descriptor, selectors.EVENT_READ)
            # An ordinary file cannot be waited for, but is always ready.
            typed_at_once = not self._listen_to_input()
            while True:
                ready = {key.fd for key, _ in self._selector.select(0 if typed_at_once else None)}
                if woken in ready:
                    os.read(woken, _CHUNK)
                    if code := self._handle_signals():
                        return code
                if self._inner in ready or (ended in ready and self._has_more()):
                    self._show()
                elif ended in ready:
                    # All that it sent is shown: what it left running in the background is not waited for.
                    break
                if 0 in ready or typed_at_once:
                    typed_at_once = self._type() and typed_at_once
            self._cast.output(b"", final=True)
        status = self._child.wait()
        return status if status >= 0 else 128 - status

    def _listen_to_input(self) -> bool:
        try:
            self._selector.register(0, selectors.EVENT_READ)
        except PermissionError:
            return False
        return True

    def _handle_signals(self) -> int:
        """Act on the signals that came; return the exit code where one of them ends this, else 0."""
        if signal.SIGWINCH in self._pending:
            self._pending.discard(signal.SIGWINCH)
            size = _window(self._outer)
            _set_window(self._inner, size)
            self._cast.resize(size)
        return next((128 + number for number in self._pending), 0)

    def _has_more(self) -> bool:
        """Say whether the terminal has something to show that the selector does not know of yet.

        What a program writes gets to this end by a worker of the kernel, which may come later than the
        program's end does. Polling the terminal itself does that worker's work (n_tty_poll in
        drivers/tty/n_tty.c); the selector, which is epoll, waits to be woken by it.
        """
        if self._inner not in self._selector.get_map():
            return False
        polled = select.poll()
        polled.register(self._inner, select.POLLIN)
        return bool(polled.poll(0))

    def _show(self) -> None:
        try:
            content = os.read(self._inner, _CHUNK)
        except OSError:
            # EIO: nobody has the terminal open any more.
            content = b""
        if content:
            self._cast.output(content)
            _pass_on(content)
        else:
            self._selector.unregister(self._inner)

    def _type(self) -> bool:
        """Pass on what was typed; return whether more may come."""
        try:
            content = os.read(0, _CHUNK)
        except OSError:
            # It was closed: nothing will be typed.
            content = b""
        with contextlib.suppress(OSError):
            _write_all(self._inner, content or _END_OF_INPUT)
        if not content:
            with contextlib.suppress(KeyError):
                self._selector.unregister(0)
        return bool(content)


@contextlib.contextmanager
def _signals(pending: set[int]) -> Iterator[int]:
    """Put signals that come into `pending`, and give a descriptor that is then ready to be read."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        pending.add(number)

    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    former = {number: signal.signal(number, on_signal) for number in (signal.SIGWINCH, *_ENDING)}
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in former.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _pass_on(content: bytes) -> None:
    """Show what the command sent."""
    try:
        _write_all(1, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OscopeError(
            f"standard output cannot be written ({error.strerror})",
            remedy="send it elsewhere; the command was ended",
        ) from error


def shell() -> list[str]:
    """Return the person's shell."""
    return [os.environ.get("SHELL") or "/bin/sh"]
