"""Transfers with faults by the probe's verbs, and what must hold after each fault.

Either side is killed, the wire fails, or the destination is full; then the same transfer is run again without
a fault.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waiting import unmount
from wire_faults import BLOCK, LIMIT_S, Fault, Kind, Way, Wire, draw

STALL_S = {"stall": 4}
"""After how long without progress both sides give up, where that is what the fault is about."""
OTHERWISE_S = 30
"""Else: longer than a busy machine has a good transfer wait."""


@dataclass
class Ending:
    """How one side ended."""

    code: int
    events: list[dict[str, Any]]
    words: str

    @property
    def errors(self) -> list[str]:
        """What it told as its errors."""
        return [event["message"] for event in self.events if event["event"] == "error"]

    @property
    def done(self) -> dict[str, Any]:
        """The figures of a transfer that is complete."""
        (event,) = (event for event in self.events if event["event"] == "done")
        return event


class Side:
    """One of the probe's verbs, running; its lines are read by a thread."""

    def __init__(self, probe: Path, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            [probe, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._lines: list[bytes] = []
        self._first = threading.Event()
        self._words = b""
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._hear, self._hear_words)
        ]
        for thread in self._threads:
            thread.start()

    def address(self) -> tuple[str, int]:
        """Return where a receiver listens, once it does."""
        assert self._first.wait(LIMIT_S), "the receiver says nothing"
        event = json.loads(self._lines[0])
        assert event["event"] == "listening", event
        host, _, port = event["address"].rpartition(":")
        return host, int(port)

    def kill(self) -> None:
        """End it at once, as the out-of-memory killer would, and wait until it is dead."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            self.process.send_signal(signal.SIGKILL)
            # Its status is left for `end`, which another thread may be in.
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def end(self) -> Ending:
        """Wait for its end; subprocess.TimeoutExpired, once it is killed, where it hangs."""
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
            raise
        for thread in self._threads:
            thread.join(LIMIT_S)
        return Ending(code, [json.loads(line) for line in self._lines], self._words.decode(errors="replace"))

    def _hear(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self._lines.append(line)
                self._first.set()
        self._first.set()

    def _hear_words(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self._words = stream.read()


def make_source(folder: Path, seed: int = 1) -> Path:
    """Make a folder of files of many sizes, modes and times, 4 MiB in all, and return it."""
    rng = random.Random(seed)
    source = folder / "source"
    sizes = {
        "large": 2_621_441,
        "empty": 0,
        "page": 4096,
        "deep/er/medium": 786_433,
        "deep/small": 511,
        "with space": 1,
        "edge": 262_144,
        "over the edge": 262_145,
    } | {f"many/{number:02}": rng.randrange(3000) for number in range(40)}
    for number, (name, size) in enumerate(sizes.items()):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(size))
        path.chmod((0o644, 0o600, 0o755, 0o444)[number % 4])
        os.utime(path, ns=(0, 1_600_000_000_123_456_789 + 1_000_000_007 * number))
    return source


def seen(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Return digest, mode and time in ns of every file below `folder` by its name, partial ones too."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            status = path.stat()
            digest = hashlib.blake2b(path.read_bytes()).hexdigest()
            found[str(path.relative_to(folder))] = (digest, status.st_mode & 0o7777, status.st_mtime_ns)
    return found


def is_partial(name: str) -> bool:
    """Tell whether this is what an interrupted transfer leaves to go on from."""
    return Path(name).name.startswith(".oscope-partial-")


@dataclass
class Outcome:
    """What was found after a fault and after the transfer that followed."""

    fault: Fault
    problems: list[str] = field(default_factory=list)
    struck: bool = False
    left: int = 0
    """Right bytes that were there after the fault: final files, and what partial ones begin with."""
    moved: int | None = None
    """Bytes that the transfer afterwards moved."""
    endings: dict[str, Ending] = field(default_factory=dict)

    def resumed(self, total: int) -> bool:
        """Tell whether the transfer afterwards moved nothing that was there, of `total` bytes."""
        return self.moved is not None and self.moved <= total - self.left

    def __str__(self) -> str:
        """Tell what is needed to repeat and to understand it."""
        endings = {
            name: (ending.code, ending.errors, ending.words[-300:]) for name, ending in self.endings.items()
        }
        return f"{self.fault}: {'; '.join(self.problems) or 'all well'}; {endings}"


class Course:
    """Runs transfers of one source with faults, each into a folder of its own below `folder`."""

    def __init__(self, probe: Path, folder: Path) -> None:
        self._probe = probe
        self._folder = folder
        self._source = make_source(folder)
        self._expected = {f"source/{name}": rest for name, rest in seen(self._source).items()}
        self._contents = {
            f"source/{path.relative_to(self._source)}": path.read_bytes()
            for path in self._source.rglob("*")
            if path.is_file()
        }
        self.total = sum(map(len, self._contents.values()))
        self.lengths = self._measure()

    def run(self, seed: int, kind: Kind) -> Outcome:
        """Run one fault and the transfer after it."""
        fault = draw(seed, kind, self.lengths, self.total)
        outcome = Outcome(fault)
        into = self._folder / f"{kind}-{seed}"
        into.mkdir()
        with contextlib.ExitStack() as stack:
            if kind == "fill":
                stack.enter_context(small_folder(into, fault.at))
                outcome.struck = True
            self._with_fault(fault, into, outcome)
            if kind == "fill":
                resize(into, 16 * self.total)
            if not outcome.problems:
                self._again(into, outcome)
        shutil.rmtree(into)
        return outcome

    def _measure(self) -> dict[Way, int]:
        """Return how many bytes go each way without a fault."""
        into = self._folder / "plain"
        into.mkdir()
        sender, receiver, wire = self._transfer(None, into)
        assert (sender.code, receiver.code) == (0, 0), (sender, receiver)
        assert seen(into) == self._expected
        shutil.rmtree(into)
        return dict(wire.passed)

    def _transfer(self, fault: Fault | None, into: Path) -> tuple[Ending, Ending, Wire]:
        limits = ("--stall", str(OTHERWISE_S if fault is None else STALL_S.get(fault.kind, OTHERWISE_S)))
        receiver = Side(
            self._probe,
            "receive",
            "--trusted-network",
            "--once",
            "--listen",
            "127.0.0.1:0",
            *limits,
            "--into",
            into,
        )
        sender: Side | None = None

        def strike() -> None:
            assert fault is not None
            victim = receiver if fault.kind == "kill-receiver" else sender
            assert victim is not None
            victim.kill()

        started = threading.Event()

        def strike_once_started() -> None:
            started.wait(LIMIT_S)
            strike()

        try:
            with Wire(receiver.address(), fault, strike_once_started) as wire:
                sender = Side(self._probe, "send", "--trusted-network", *limits, wire.address, self._source)
                started.set()
                return sender.end(), receiver.end(), wire
        finally:
            receiver.kill()
            if sender is not None:
                sender.kill()

    def _with_fault(self, fault: Fault, into: Path, outcome: Outcome) -> None:
        try:
            sender, receiver, wire = self._transfer(None if fault.kind == "fill" else fault, into)
        except subprocess.TimeoutExpired as error:
            outcome.problems.append(f"{error.cmd[1]} hangs")
            return
        outcome.struck = outcome.struck or wire.struck.is_set()
        outcome.endings = {"sender": sender, "receiver": receiver}
        found = seen(into)
        final = {name: rest for name, rest in found.items() if not is_partial(name)}
        for name, rest in final.items():
            if self._expected.get(name) != rest:
                outcome.problems.append(f"{name} has its name but is not what was sent")
        outcome.left = sum(self._right_bytes(into, name) for name in found)
        whole = final == self._expected
        if not outcome.struck:
            outcome.problems.append("the fault did not happen")
        for name, ending in outcome.endings.items():
            killed = fault.kind == f"kill-{name}"
            outcome.problems += [f"{name} {what}" for what in _faults_of(ending, killed=killed, whole=whole)]
        if not whole and 0 in (sender.code, receiver.code):
            outcome.problems.append("a side ended well without the files being there")

    def _again(self, into: Path, outcome: Outcome) -> None:
        """Run the same transfer without a fault."""
        try:
            sender, receiver, _ = self._transfer(None, into)
        except subprocess.TimeoutExpired as error:
            outcome.problems.append(f"afterwards {error.cmd[1]} hangs")
            return
        outcome.endings = {"sender": sender, "receiver": receiver}
        if (sender.code, receiver.code) != (0, 0):
            outcome.problems.append("the transfer afterwards fails")
            return
        if seen(into) != self._expected:
            outcome.problems.append("the transfer afterwards leaves other files than were sent")
        outcome.moved = sender.done["here"]["bytes"]
        if not outcome.resumed(self.total):
            outcome.problems.append(
                f"{outcome.left} of {self.total} bytes were there, and {outcome.moved} were moved afterwards"
            )

    def _right_bytes(self, into: Path, name: str) -> int:
        """Return how many bytes of this file an engine that resumes does not move again.

        Zeros at the end of a partial file may never have been received; what is falsified counts for nothing.
        """
        content = (into / name).read_bytes()
        if not is_partial(name):
            return len(content) if content == self._contents.get(name) else 0
        began = content.rstrip(b"\0")
        alike = (each for at, each in self._contents.items() if Path(at).parent == Path(name).parent)
        return len(began) if any(each.startswith(began) for each in alike) else 0


def _faults_of(ending: Ending, *, killed: bool, whole: bool) -> Iterator[str]:
    """Yield what is wrong with how a side ended."""
    if killed:
        # It may have been done just before.
        if ending.code not in (-signal.SIGKILL, 0):
            yield f"was to be killed and ended with {ending.code}"
        return
    if ending.code == 0:
        if not whole:
            yield "ended well although not all is there"
        return
    if ending.code != 1:
        yield f"ended with {ending.code}"
    if len(ending.errors) != 1 or not ending.errors[0] or "\n" in ending.errors[0]:
        yield f"told {ending.errors}"


@contextlib.contextmanager
def small_folder(folder: Path, size: int) -> Iterator[None]:
    """Mount a memory file system of `size` bytes at `folder`, as root; CalledProcessError if refused."""
    options = f"size={max(size // BLOCK, 1) * BLOCK}"
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True, timeout=300, capture_output=True
    )
    try:
        yield
    finally:
        unmount(folder)


def resize(folder: Path, size: int) -> None:
    """Give the memory file system at `folder` this many bytes."""
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True, timeout=300)
