"""Executes a program under a system-call filter that lets everything through, slowly: N PROGRAM WORD..."""

import ctypes
import os
import struct
import sys

LOAD, XOR, RETURN = 0x20, 0xA4, 0x06
"""BPF_LD | BPF_W | BPF_ABS; BPF_ALU | BPF_XOR | BPF_K; BPF_RET | BPF_K (linux/bpf_common.h)."""
FIRST_ARGUMENT = 16
"""Its place in struct seccomp_data."""
ALLOW = 0x7FFF0000
PR_SET_SECCOMP, FILTER = 22, 2


def main() -> None:
    count = int(sys.argv[1])
    program = [(LOAD, FIRST_ARGUMENT), *[(XOR, 0x5A5A)] * count, (RETURN, ALLOW)]
    code = b"".join(struct.pack("=HBBI", op, 0, 0, k) for op, k in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.create_string_buffer(header), 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606


main()
