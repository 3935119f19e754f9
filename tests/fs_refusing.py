"""An SFTP server that refuses one step of copying back; run by sshd as its subsystem.

It passes all packets between the client and a real server (draft-ietf-secsh-filexfer-02, 3). Where a file
`refuse` lies in the folder that it is given, each request of the step that this file names, from the one with
that number on, is answered by an error. A refused close is carried out all the same, as close(2) is.
It is started for each connection, so it imports little.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

_OPEN, _CLOSE, _WRITE, _SETSTAT, _FSETSTAT, _REMOVE, _STATUS, _EXTENDED = 3, 4, 6, 9, 10, 13, 101, 200
_CREATE = 0x08
_FAILURE = 4
_EXTENSIONS = {b"fsync": "sync", b"posix-rename": "rename", b"replace": "rename", b"fill": "write"}
STEPS = ("make", "write", "attributes", "sync", "close", "rename", "rename and remove")


def main(folder: Path, server_words: list[str]) -> None:
    """Serve one connection."""
    server = subprocess.Popen(server_words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    lock = threading.Lock()
    altered: dict[bytes, bytes] = {}
    answers = threading.Thread(target=_pass_on, args=(server.stdout, lock, altered), daemon=True)
    answers.start()
    counted = [0, b""]
    while (packet := _packet(sys.stdin.buffer)) is not None:
        refusal = _refused(folder, packet, counted)
        if refusal is not None and packet[4] != _CLOSE:
            _send(sys.stdout.buffer, refusal, lock)
            continue
        if refusal is not None:
            altered[packet[5:9]] = refusal
        _send(server.stdin, packet, threading.Lock())
    server.stdin.close()
    server.wait()
    answers.join()


def _refused(folder: Path, packet: bytes, counted: list[object]) -> bytes | None:
    """Return the error that a request is answered with, if it is to be refused."""
    try:
        order = (folder / "refuse").read_bytes()
    except FileNotFoundError:
        return None
    if counted[1] != order:
        counted[:] = [0, order]
    step, first, error = order.decode().split(",")
    if _step(packet) not in step.split(" and "):
        return None
    assert isinstance(counted[0], int)
    counted[0] += 1
    if counted[0] <= int(first):
        return None
    words = f"errno {error}".encode()
    body = bytes([_STATUS]) + packet[5:9] + struct.pack(">II", _FAILURE, len(words)) + words + bytes(4)
    return struct.pack(">I", len(body)) + body


def _step(packet: bytes) -> str:
    """Return which step of copying back a request belongs to; empty if to none."""
    kind = packet[4]
    if kind == _EXTENDED:
        length = struct.unpack_from(">I", packet, 9)[0]
        name = packet[13 : 13 + length].partition(b"@")[0]
        return _EXTENSIONS.get(name, "")
    if kind == _OPEN:
        length = struct.unpack_from(">I", packet, 9)[0]
        path, flags = packet[13 : 13 + length], struct.unpack_from(">I", packet, 13 + length)[0]
        return "make" if flags & _CREATE and b"/.oscope-fs-" in path else ""
    if kind == _REMOVE:
        return "remove" if b"/.oscope-fs-" in packet else ""
    return {_WRITE: "write", _SETSTAT: "attributes", _FSETSTAT: "attributes", _CLOSE: "close"}.get(kind, "")


def _packet(stream: BinaryIO) -> bytes | None:
    """Read a packet: four bytes of length, one of type, the rest. None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return head + stream.read(struct.unpack(">I", head)[0])


def _send(stream: BinaryIO, packet: bytes, lock: threading.Lock) -> None:
    with lock:
        stream.write(packet)
        stream.flush()


def _pass_on(answers: BinaryIO, lock: threading.Lock, altered: dict[bytes, bytes]) -> None:
    while (packet := _packet(answers)) is not None:
        _send(sys.stdout.buffer, altered.pop(packet[5:9], packet), lock)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    except BrokenPipeError:
        os._exit(1)
