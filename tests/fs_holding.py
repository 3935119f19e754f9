"""An SFTP server that holds still at the write that a test is waiting for; run by sshd as its subsystem.

It is OpenSSH's own `sftp-server`, of which this reads along what it is sent (draft-ietf-secsh-filexfer-02,
3). Where a file `moment` lies in the folder that it is given, the next write is held at what that file
says, one of `fs_cutting.Moment`. Then the file `held` is made, and nothing is answered any more, until
somebody ends the connection. It is started for each connection, so it imports little.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

SFTP_SERVER = "/usr/lib/openssh/sftp-server"
"""Where Debian and Ubuntu have it."""
LIMIT_S = 60.0
_WRITE, _FSTAT, _REALPATH, _NAME = 6, 8, 16, 104
_ID = b"\xff\xff\xff\xff"
_LAST = struct.pack(">IB4sI1s", 10, _REALPATH, _ID, 1, b".")
"""A question of our own, with an id that the other side does not get to."""


def main(folder: Path) -> None:
    """Serve one connection."""
    server = subprocess.Popen([SFTP_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    silent, done = threading.Event(), threading.Event()
    answers = threading.Thread(target=_pass_on, args=(server.stdout, silent, done), daemon=True)
    answers.start()
    while (packet := _packet(sys.stdin.buffer)) is not None:
        moment = _awaited(folder) if packet[4] == _WRITE else None
        if moment is not None:
            silent.set()
            _hold(server, packet, moment, done)
            (folder / "held").touch()
            while sys.stdin.buffer.read1(1 << 16):
                pass
            return
        _send(server.stdin, packet)
    server.stdin.close()
    server.wait(LIMIT_S)
    answers.join(LIMIT_S)


def _hold(server: subprocess.Popen[bytes], packet: bytes, moment: str, done: threading.Event) -> None:
    """Have the server do as much of a write as is wanted."""
    assert server.stdin is not None
    if moment != "nothing":
        _send(server.stdin, _half(packet) if moment == "part" else packet)
    while moment == "all" and packet[4] != _FSTAT:
        packet = _packet(sys.stdin.buffer) or bytes(4) + bytes([_FSTAT])
        _send(server.stdin, packet)
    # At the end of its input it ends, though it may not have done all that it has read.
    _send(server.stdin, _LAST)
    if not done.wait(LIMIT_S):
        raise TimeoutError(f"{SFTP_SERVER} does not answer")
    server.stdin.close()
    server.wait(LIMIT_S)


def _awaited(folder: Path) -> str | None:
    """Take the moment that a test has asked for."""
    try:
        found = (folder / "moment").read_text()
    except FileNotFoundError:
        return None
    (folder / "moment").unlink()
    return found


def _packet(stream: BinaryIO) -> bytes | None:
    """Read a packet: four bytes of length, one of type, the rest. None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return head + stream.read(struct.unpack(">I", head)[0])


def _half(packet: bytes) -> bytes:
    """Return the write of the first half of its bytes: id, handle, offset, bytes."""
    handle_end = 13 + struct.unpack_from(">I", packet, 9)[0]
    data = packet[handle_end + 12 :]
    half = data[: len(data) // 2]
    body = packet[4 : handle_end + 8] + struct.pack(">I", len(half)) + half
    return struct.pack(">I", len(body)) + body


def _send(stream: BinaryIO, packet: bytes) -> None:
    stream.write(packet)
    stream.flush()


def _pass_on(answers: BinaryIO, silent: threading.Event, done: threading.Event) -> None:
    held = b""
    while (some := os.read(answers.fileno(), 1 << 16)) != b"":
        if not silent.is_set():
            sys.stdout.buffer.write(some)
            sys.stdout.buffer.flush()
            continue
        held += some
        if bytes([_NAME]) + _ID in held:
            done.set()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
