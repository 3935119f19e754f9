"""`oscope explain` where the kernel refuses strace: by a filter of system calls, and where Yama is set."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import sys
from pathlib import Path

import pytest

from cli_driver import CommandLine

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

PTRACE = {"x86_64": 101, "aarch64": 117}[platform.machine()]
FILTERED = f"""\
import ctypes, os, struct, sys
# Load the call's number; where it is ptrace, fail with EPERM; else go on (seccomp(2)).
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, {PTRACE}), (0x06, 0, 0, 0x0005_0001), (0x06, 0, 0, 0x7FFF_0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
zero = ctypes.c_ulong(0)
assert libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) == 0, "PR_SET_NO_NEW_PRIVS"
assert libc.prctl(22, ctypes.c_ulong(2), program, zero, zero) == 0, "PR_SET_SECCOMP"
os.execvp(sys.argv[1], sys.argv[1:])
"""
FILTER = (sys.executable, "-c", FILTERED)
YAMA = """\
mount -t tmpfs none /proc/sys/kernel && mkdir "$0" && echo "$1" >"$0/ptrace_scope" && shift && exec "$@"
"""


def yama(scope: int) -> tuple[str, ...]:
    """Return a prefix that gives a command a /proc in which Yama has this scope."""
    return (
        "unshare",
        "--mount",
        "--propagation",
        "slave",
        "sh",
        "-c",
        YAMA,
        "/proc/sys/kernel/yama",
        str(scope),
    )


OTHER_USER = ("unshare", "--user")
"""Who has no number in it is nobody, and yet may read what root's files are."""


def refused(oscope: CommandLine, *prefix: str) -> str:
    """Return the line that a command tells which begins with `prefix` and may not trace."""
    answer = dataclasses.replace(oscope, prefix=(*prefix, *FILTER))("explain", "--", "touch", "made")
    assert (answer.code, answer.out) == (1, "")
    # The command was never let go.
    assert not (oscope.folder / "made").exists()
    (line,) = answer.err.splitlines()
    assert "strace may not trace the process" in line
    return line


@needs_strace
@needs_root
def test_root_is_told_of_the_capability(tmp_path: Path) -> None:
    assert "CAP_SYS_PTRACE" in refused(CommandLine(tmp_path))


@needs_strace
def test_others_are_told_to_be_root(tmp_path: Path) -> None:
    assert refused(CommandLine(tmp_path), *OTHER_USER).endswith(": run as root")


@needs_strace
@needs_root
@pytest.mark.parametrize("scope", [1, 2])
def test_yama_is_named_where_it_may_forbid_it(scope: int, tmp_path: Path) -> None:
    line = refused(CommandLine(tmp_path), *yama(scope), *OTHER_USER)
    assert line.endswith(": sysctl kernel.yama.ptrace_scope=0, or run as root")


@needs_strace
@needs_root
def test_yama_that_forbids_it_to_all_is_named_to_root_too(tmp_path: Path) -> None:
    line = refused(CommandLine(tmp_path), *yama(3))
    assert "kernel.yama.ptrace_scope is 3" in line
    assert "CAP_SYS_PTRACE" not in line
