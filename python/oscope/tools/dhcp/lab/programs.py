"""Programs of the lab while they run: a server, clients, captures. All of them end with the stage."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable, Sequence
from pathlib import Path

from oscope.model.errors import OscopeError

START_LIMIT_S = 60.0
"""For whatever takes a moment on a machine that has nothing else to do."""
_CALL_LIMIT_S = 60.0
_COUNTS = re.compile(r"(\d+) packets captured, (\d+) packets received by filter, (\d+) packets dropped")
_LOOK_S = 0.2


async def call(*command: str | Path) -> str:
    """Carry out a command, and return its standard output. OscopeError where it fails."""
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    try:
        out, err = await asyncio.wait_for(process.communicate(), _CALL_LIMIT_S)
    except TimeoutError:
        raise OscopeError(f"{_words(command)} did not end within {_CALL_LIMIT_S:g} s") from None
    if process.returncode != 0:
        errors = " ".join(err.decode(errors="replace").split())
        raise OscopeError(
            f"{_words(command)} failed with exit code {process.returncode}: {errors or 'it said nothing'}",
            remedy="the kernel needs network namespaces, veth and bridge (CONFIG_NET_NS, _VETH, _BRIDGE)",
        )
    return out.decode(errors="replace")


def _words(command: Sequence[str | Path]) -> str:
    return " ".join(map(str, command))


class Program:
    """A program whose lines are heard, those for people too, unless its standard output is a file."""

    def __init__(self, name: str, process: Process, heard: Callable[[str], None] | None = None) -> None:
        self._name = name
        self._process = process
        self._heard = heard
        self._changed = asyncio.Condition()
        self._ended = False
        self.lines: list[str] = []
        """All that it has said."""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str | Path],
        *,
        output: int | None = None,
        heard: Callable[[str], None] | None = None,
    ) -> Program:
        """Start it. With `output`, a descriptor, its standard output goes there."""
        if output is None:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
            )
        else:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=DEVNULL, stdout=output, stderr=PIPE
            )
        return cls(name, process, heard)

    async def wait_for(self, pattern: str, limit_s: float, since: int = 0) -> re.Match[str]:
        """Wait for a line with `pattern`, at or behind index `since`; OscopeError where none comes."""
        try:
            async with asyncio.timeout(limit_s), self._changed:
                await self._changed.wait_for(lambda: self._ended or self._find(pattern, since) is not None)
        except TimeoutError:
            pass
        found = self._find(pattern, since)
        if found is None:
            what = "ended too early" if self._ended else f"did not get there within {limit_s:g} s"
            output = " / ".join(self.lines[-3:]) or "nothing"
            raise OscopeError(f"{self._name} {what}; its last words: {output}")
        return found

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self, number: signal.Signals) -> None:
        """Have it end by a signal, and hear the rest of what it says."""
        self.send_signal(number)
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await self._process.wait()
                await self._reading
        except TimeoutError:
            raise OscopeError(f"{self._name} did not end when asked to") from None

    def _find(self, pattern: str, since: int) -> re.Match[str] | None:
        return next((found for line in self.lines[since:] if (found := re.search(pattern, line))), None)

    async def _read(self) -> None:
        stream = self._process.stdout or self._process.stderr
        if stream is not None:
            while line := await stream.readline():
                text = line.decode(errors="replace").rstrip()
                self.lines.append(text)
                if self._heard is not None:
                    self._heard(text)
                async with self._changed:
                    self._changed.notify_all()
        async with self._changed:
            self._ended = True
            self._changed.notify_all()


class Capture:
    """tcpdump at one interface, writing to a file."""

    def __init__(self, path: Path, program: Program) -> None:
        self.path = path
        self._program = program

    @classmethod
    async def start(cls, name: str, path: Path, inside: Sequence[str], interface: str) -> Capture:
        """Start it, and wait until it listens."""
        with path.open("wb") as file:
            # Written to standard output: as root it would become another user before it opens a file.
            options = ("-i", interface, "-n", "-U", "--immediate-mode", "-w", "-", "ip or arp")
            program = await Program.start(name, (*inside, "tcpdump", *options), output=file.fileno())
        await program.wait_for("listening on", START_LIMIT_S)
        return cls(path, program)

    async def finish(self) -> bytes:
        """Wait until all packets that came by are written, end it, and return the file's content.

        OscopeError where packets are missing.
        """
        deadline = asyncio.get_running_loop().time() + START_LIMIT_S
        while True:
            since = len(self._program.lines)
            # It then says what it has counted (tcpdump(8)).
            self._program.send_signal(signal.SIGUSR1)
            counts = await self._program.wait_for(_COUNTS.pattern, START_LIMIT_S, since)
            captured, received, dropped = map(int, counts.groups())
            if captured == received:
                break
            if asyncio.get_running_loop().time() > deadline:
                raise OscopeError(f"tcpdump wrote {captured} of {received} packets")
            await asyncio.sleep(_LOOK_S)
        await self._program.stop(signal.SIGINT)
        if dropped:
            raise OscopeError(f"tcpdump dropped {dropped} packets", remedy="try again on a machine at rest")
        return self.path.read_bytes()
