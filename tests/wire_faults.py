"""Faults of a transfer, drawn from a seed: a proxy that cuts, flips, stalls or closes at a byte."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

LIMIT_S = 60.0
"""What one side may take at most: a longer one hangs."""
_CHUNK = 1 << 16
_NOW = struct.pack("ii", 1, 0)
"""SO_LINGER that has close(2) send a reset, and nothing before it."""

Way = Literal["forth", "back"]
"""`forth`: from the sender to the receiver."""
Kind = Literal["cut", "flip", "stall", "close", "kill-sender", "kill-receiver", "fill", "call"]
"""`call` only calls `strike` and passes everything on."""
KINDS: tuple[Kind, ...] = ("cut", "flip", "stall", "close", "kill-sender", "kill-receiver", "fill")
BLOCK = 4096
"""Of a memory file system."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong once `at` bytes have gone this way (`fill`: when so many bytes fit into the folder)."""

    kind: Kind
    way: Way
    at: int
    bit: int = 0


def draw(seed: int, kind: Kind, lengths: dict[Way, int], room: int) -> Fault:
    """Return the fault of this seed; `lengths`: bytes of a plain transfer; `room`: bytes of its files."""
    rng = random.Random(f"{kind} {seed}")
    if kind == "fill":
        return Fault(kind, "forth", rng.randrange(BLOCK, room * 9 // 10))
    # Three of seven meet what is said rather than what is sent: the beginning, the end, or the answers.
    place = rng.choice(("anywhere", "anywhere", "anywhere", "anywhere", "begin", "end", "back"))
    if place == "back":
        # The figures in the receipt are as long as they are large: its last bytes are not always there.
        return Fault(kind, "back", rng.randrange(lengths["back"] - 24), rng.randrange(8))
    length = lengths["forth"]
    span = {
        "anywhere": range(length),
        "begin": range(min(length, 4096)),
        "end": range(max(length - 256, 0), length),
    }
    return Fault(kind, "forth", rng.choice(span[place]), rng.randrange(8))


def plan(count: int, kinds: Sequence[Kind]) -> list[tuple[int, Kind]]:
    """Return seeds with kinds, the kinds in turns."""
    return [(number, kinds[number % len(kinds)]) for number in range(count)]


class Wire:
    """A TCP proxy on a port of its own for one connection to `target`; `strike` is called for kills."""

    def __init__(
        self, target: tuple[str, int], fault: Fault | None, strike: Callable[[], None] = lambda: None
    ) -> None:
        self.struck = threading.Event()
        """Set once the fault has happened."""
        self.passed: dict[Way, int] = {"forth": 0, "back": 0}
        self._target = target
        self._fault = fault
        self._strike = strike
        self._released = threading.Event()
        self._broken = threading.Event()
        # Never read: once there is something in it, whoever waits for a side is woken.
        self._woken, self._wake = socket.socketpair()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Wire:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Reset what still stands and wait for the threads."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._reset()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        self._woken.close()
        self._wake.close()

    @property
    def address(self) -> str:
        """Where the sender shall connect."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def let_go(self) -> None:
        """End a stall: what still comes is dropped, and once a side has said its last word both are reset."""
        self._released.set()

    def _serve(self) -> None:
        try:
            sender, _ = self._listener.accept()
        except OSError:
            return
        try:
            receiver = socket.create_connection(self._target, LIMIT_S)
        except OSError:
            sender.close()
            return
        ways: tuple[tuple[Way, socket.socket, socket.socket], ...] = (
            ("forth", sender, receiver),
            ("back", receiver, sender),
        )
        threads = [threading.Thread(target=self._carry, args=each, daemon=True) for each in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in (sender, receiver):
            if self._broken.is_set():
                # No shutdown(2) before: it would send an end of file first.
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
            each.close()

    def _carry(self, way: Way, source: socket.socket, target: socket.socket) -> None:
        """Pass on what comes, until the fault or the end of it."""
        try:
            while chunk := self._receive(source):
                fault = self._fault
                cut = -1 if fault is None or fault.way != way else fault.at - self.passed[way]
                if fault is None or not 0 <= cut < len(chunk):
                    self._pass(way, chunk, target)
                    continue
                self._pass(way, chunk[:cut], target)
                self.struck.set()
                rest = self._hit(fault, chunk[cut:], source, target)
                if not rest:
                    return
                self._pass(way, rest, target)
            if self._released.is_set():
                self._reset()
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # A side that is gone is gone for the other too.
            self._reset()

    def _receive(self, source: socket.socket) -> bytes:
        """Return what comes, or nothing at its end; ConnectionAbortedError once all is to be reset."""
        self._await(source, select.POLLIN)
        return source.recv(_CHUNK)

    def _pass(self, way: Way, chunk: bytes, target: socket.socket) -> None:
        rest = memoryview(chunk)
        while rest:
            self._await(target, select.POLLOUT)
            with contextlib.suppress(BlockingIOError):
                rest = rest[target.send(rest, socket.MSG_DONTWAIT) :]
        self.passed[way] += len(chunk)

    def _await(self, side: socket.socket, event: int) -> None:
        poll = select.poll()
        poll.register(side, event)
        poll.register(self._woken, select.POLLIN)
        poll.poll()
        if self._broken.is_set():
            raise ConnectionAbortedError

    def _hit(self, fault: Fault, rest: bytes, source: socket.socket, target: socket.socket) -> bytes:
        """Have the fault happen; return what is to be passed on instead of `rest`, or nothing ever again."""
        match fault.kind:
            case "flip":
                return bytes([rest[0] ^ 1 << fault.bit]) + rest[1:]
            case "call":
                self._strike()
                return rest
            case "cut":
                self._reset()
            case "close":
                target.shutdown(socket.SHUT_WR)
            case "stall":
                self._released.wait(LIMIT_S)
                while self._receive(source):
                    pass
                self._reset()
            case "kill-sender":
                self._strike()
                target.shutdown(socket.SHUT_WR)
            case _:
                self._strike()
                self._reset()
        return b""

    def _reset(self) -> None:
        """Have both connections reset, as soon as nobody uses them any more."""
        self._broken.set()
        self._released.set()
        self._wake.send(b"!")
