"""Runs make: its output in a file, its lines counted, its first error found, no process left behind."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from oscope.model.errors import OscopeError
from oscope.model.interruption import Interruption
from oscope.targets.kernel.listener import Listener

LOG = "build.log"
SILENCE_LIMIT_S = 1800.0
"""The slowest step, a link with debugging information, prints nothing meanwhile."""
_ENDING_LIMIT_S = 10.0
_FIXED = {
    "LC_ALL": "C",
    # Equal inputs shall give equal images: Documentation/kbuild/reproducible-builds.rst.
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "oscope",
    "KBUILD_BUILD_HOST": "oscope",
    "KBUILD_BUILD_VERSION": "1",
}
_KEPT = ("PATH", "HOME", "TMPDIR")
"""Of the environment; the rest (CFLAGS, ARCH, CC, MAKEFLAGS…) would change what is built unseen."""
STEP = re.compile(rb"  [A-Z][A-Z0-9_]+ ")
"""Begins a line of make that reports a file being made."""
_ERROR = re.compile(r"^(\S[^:\n]*:\d+(?::\d+)?): (?:fatal )?error: (.+)$", re.IGNORECASE | re.MULTILINE)
_OTHER_ERRORS = (
    re.compile(
        r"^(?:\S*ld: )?(\S[^:\n]*): (undefined reference to .+|.*No space left on device.*)$", re.MULTILINE
    ),
    re.compile(r"^(?:\S+: )?\*\*\* ()(.+)$", re.MULTILINE),
)


@dataclass(frozen=True)
class Work:
    """What a successful make did."""

    steps: int
    """Files made."""
    seconds: float
    cpu_seconds: float
    """User and system time of make and all its children."""


@dataclass(frozen=True)
class Make:
    """make, for a source and the folder that it writes into."""

    tree: Path
    output: Path
    listener: Listener
    log_name: str = LOG

    @property
    def log(self) -> Path:
        """Return the file that has all that make said."""
        return self.output / self.log_name

    def run(self, doing: str, *arguments: str, expected: int | None = None) -> Work:
        """Run make, appending its output to the log; the listener hears of `expected` steps as they are done.

        Raises OscopeError with the first error that make reports, and KeyboardInterrupt after a SIGINT or
        SIGTERM; make and its children have then ended, and can be resumed.
        """
        self.listener.begin(doing, expected)
        began, used = time.monotonic(), _children_s()
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | _FIXED
        command = ["make", f"--directory={self.tree}", f"O={self.output}", *arguments]
        with self.log.open("ab") as sink:
            offset = sink.tell()
            steps, status = _watch(command, environment, sink, self.listener)
        if status != 0:
            with self.log.open("rb") as stream:
                stream.seek(offset)
                messages = stream.read().decode(errors="replace")
            for folder in (self.tree, self.output):
                messages = messages.replace(f"{folder}/", "")
            raise OscopeError(
                f"{doing} failed: {first_error(messages)}", remedy=f"all that make said is in {self.log}"
            )
        return Work(steps, time.monotonic() - began, _children_s() - used)


def first_error(messages: str) -> str:
    """Return the first error in what make printed: `file:line: message` where a compiler reported it."""
    for pattern in (_ERROR, *_OTHER_ERRORS):
        if found := pattern.search(messages):
            place, message = found.groups()
            return f"{place}: {message}" if place else message
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return lines[-1] if lines else "make says nothing of why"


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(
    command: Sequence[str], environment: dict[str, str], sink: IO[bytes], listener: Listener
) -> tuple[int, int]:
    """Return the steps that the command reported, and its status."""
    interrupted: list[bool] = []
    # In a session of its own, a Ctrl-C at the terminal reaches the laboratory only, which ends make in order.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    ) as make:
        # A shell that starts a program blocks signals meanwhile: that program never gets the SIGTERM.
        kill = threading.Timer(_ENDING_LIMIT_S, _signal, (make, signal.SIGKILL))

        def end() -> None:
            interrupted.append(True)
            _signal(make, signal.SIGTERM)
            kill.start()

        try:
            with Interruption(end):
                steps = 0
                for line in _lines(make, sink):
                    if STEP.match(line):
                        steps += 1
                        listener.progress(steps)
                _wait(make)
        finally:
            kill.cancel()
            # A sub-make outlives a make that was killed.
            _signal(make, signal.SIGKILL)
    if interrupted:
        raise KeyboardInterrupt
    return steps, make.returncode


def _wait(make: subprocess.Popen[bytes]) -> None:
    try:
        make.wait(_ENDING_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise OscopeError(
            f"make closed its output, did not end within {_ENDING_LIMIT_S:g} s and was ended",
            remedy="build again: the next build goes on from here",
        ) from error


@contextlib.contextmanager
def _end_of(make: subprocess.Popen[bytes]) -> Iterator[int]:
    """Give a descriptor that can be read once make has ended: pidfd_open(2)."""
    descriptor = os.pidfd_open(make.pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _signal(make: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(make.pid, number)


def _lines(make: subprocess.Popen[bytes], sink: IO[bytes]) -> Iterator[bytes]:
    """Give the lines as they come, and keep them, until make has ended, whoever else holds its output.

    Raises OscopeError where none comes for too long.
    """
    if make.stdout is None:
        raise TypeError("make was started without a pipe")
    rest = b""
    with _end_of(make) as ended, selectors.DefaultSelector() as selector:
        selector.register(make.stdout, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            ready = selector.select(SILENCE_LIMIT_S)
            if not ready:
                raise OscopeError(
                    f"make has printed nothing for {SILENCE_LIMIT_S / 60:.0f} minutes and was ended",
                    remedy=f"see {sink.name}; the next build goes on from here",
                )
            if make.stdout not in (key.fileobj for key, _ in ready):
                return
            chunk = os.read(make.stdout.fileno(), 1 << 16)
            if not chunk:
                return
            sink.write(chunk)
            sink.flush()
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
