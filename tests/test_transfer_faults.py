"""Transfers that are cut, falsified, stalled, killed or out of room: no wrong file, and all is resumed."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from transfer_course import Course
from wire_faults import KINDS, LIMIT_S, Fault, Kind, Wire, draw, plan

FAULTS = 25
KINDS_HERE = KINDS if os.geteuid() == 0 else tuple(kind for kind in KINDS if kind != "fill")
"""Only root can mount a small file system."""


@pytest.fixture(scope="module")
def course(real_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Give a source and what one plain transfer of it needs on the wire."""
    return Course(real_probe, tmp_path_factory.mktemp("course"))


@pytest.mark.parametrize(("seed", "kind"), plan(FAULTS, KINDS_HERE))
def test_after_a_fault_no_file_is_wrong_and_the_same_command_completes(
    seed: int, kind: Kind, course: Course
) -> None:
    outcome = course.run(seed, kind)
    assert not outcome.problems, str(outcome)


def test_a_seed_gives_one_fault() -> None:
    lengths = {"forth": 4_000_000, "back": 900}
    first = [draw(seed, "cut", lengths, 4_000_000) for seed in range(50)]  # type: ignore[arg-type]
    assert first == [draw(seed, "cut", lengths, 4_000_000) for seed in range(50)]  # type: ignore[arg-type]
    assert len(set(first)) == 50
    assert {fault.way for fault in first} == {"forth", "back"}
    assert all(isinstance(fault, Fault) and fault.at < lengths[fault.way] for fault in first)


def heard_through(
    wire: Wire, listener: socket.socket, sent: bytes, stalls_at: int | None
) -> tuple[bytes, type[OSError] | None]:
    """Send `sent` through the proxy; return what the receiver heard, and the error it ended with, if any.

    Where it `stalls_at` a byte, the receiver waits a second for more than that.
    """
    host, port = wire.address.split(":")
    found = bytearray()
    with socket.create_connection((host, int(port)), LIMIT_S) as sender:
        receiver, _ = listener.accept()
        with receiver:
            receiver.settimeout(LIMIT_S)
            # The proxy may have reset the connection meanwhile.
            with contextlib.suppress(OSError):
                sender.sendall(sent)
                sender.shutdown(socket.SHUT_WR)
            try:
                while chunk := receiver.recv(1 << 16):
                    found += chunk
                    if len(found) == stalls_at:
                        receiver.settimeout(1)
            except OSError as error:
                return bytes(found), type(error)
    return bytes(found), None


@pytest.mark.parametrize("kind", ["cut", "flip", "stall", "close", "call", "kill-sender"])
def test_the_proxy_fails_as_it_is_told(kind: Kind) -> None:
    sent = bytes(number % 251 for number in range(100_000))
    struck: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with Wire(address, Fault(kind, "forth", 70_001, 3), lambda: struck.append(kind)) as wire:
            heard, error = heard_through(wire, listener, sent, 70_001 if kind == "stall" else None)
            assert wire.struck.is_set()
    assert struck == ([kind] if kind in ("call", "kill-sender") else [])
    assert error is {"cut": ConnectionResetError, "stall": TimeoutError}.get(kind)
    match kind:
        case "flip":
            different = [at for at, (one, other) in enumerate(zip(sent, heard, strict=True)) if one != other]
            assert different == [70_001]
            assert heard[70_001] == sent[70_001] ^ 8
        case "call":
            assert heard == sent
        case "cut":
            # A reset takes with it what was not read yet.
            assert sent[:70_001].startswith(heard)
        case _:
            assert heard == sent[:70_001]
