"""A file system of one file, and a process that holds it: once the server is stopped, who asks it waits.

`python tests/stuck_fuse.py FOLDER` mounts on FOLDER, for which it needs a mount namespace of its own. It
speaks the protocol of fuse(4) itself (include/uapi/linux/fuse.h); each stat(2) asks it anew.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import mmap
import os
import signal
import stat
import struct
import sys


class Opcode(enum.IntEnum):
    """Requests (`enum fuse_opcode`)."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    RELEASE = 18
    FLUSH = 25
    INIT = 26
    INTERRUPT = 36
    BATCH_FORGET = 42


UNANSWERED = (Opcode.FORGET, Opcode.INTERRUPT, Opcode.BATCH_FORGET)
ROOT, FILE = 1, 2
SIZE = 4096


def attributes(node: int) -> bytes:
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
    return struct.pack("<6Q10I", node, SIZE, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, SIZE, 0)


def answer(opcode: int, node: int) -> bytes | None:
    """Return what a request is answered with; None where it is not known here."""
    match opcode:
        case Opcode.INIT:
            return struct.pack("<4I2H2I2H32x", 7, 31, 0, 0, 1, 1, SIZE, 1, 1, 0)
        case Opcode.LOOKUP:
            return struct.pack("<4Q2I", FILE, 0, 0, 0, 0, 0) + attributes(FILE)
        case Opcode.GETATTR:
            return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
        case Opcode.OPEN:
            return struct.pack("<Q2I", 1, 0, 0)
        case Opcode.RELEASE | Opcode.FLUSH:
            return b""
    return None


def serve(device: int) -> None:
    while request := os.read(device, 1 << 17):
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode not in UNANSWERED:
            body = answer(opcode, node)
            error = -errno.ENOSYS if body is None else 0
            os.write(device, struct.pack("<IiQ", 16 + len(body or b""), error, unique) + (body or b""))


def hold(path: str) -> None:
    """Hold the file and a device beside it, and tell the descriptor of that."""
    file = os.open(path, os.O_RDONLY)
    area = mmap.mmap(file, SIZE, mmap.MAP_PRIVATE, mmap.PROT_READ)
    device = os.open("/dev/null", os.O_WRONLY)
    print(os.getpid(), device, flush=True)
    signal.pause()
    area.close()


def main(folder: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"stuck", folder.encode(), b"fuse", ctypes.c_ulong(0), options) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    if os.fork() == 0:
        # With its copy the connection would outlive the server.
        os.close(device)
        hold(f"{folder}/file")
        os._exit(0)
    serve(device)


if __name__ == "__main__":
    main(sys.argv[1])
