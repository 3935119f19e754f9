"""What `oscope fs` needs beside /dev/fuse and ssh: its program, and a kernel that can read copies itself."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

from oscope.model.errors import OscopeError
from oscope.model.finding import Finding
from oscope.probe.locate import find_filesystem

_LIMIT_S = 20.0
_NEEDED_FOR = "oscope fs"
_ASK_KERNEL = """\
import ctypes, os, struct, sys
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"oscope-doctor", os.fsencode(sys.argv[1]), b"fuse", 0, options.encode()):
    sys.exit(os.strerror(ctypes.get_errno()))
# fuse_in_header is 40 bytes long; fuse_init_in is major, minor, max_readahead, flags, flags2.
major, minor, _, _, flags2 = struct.unpack_from("5I", os.read(device, 8192).ljust(60, b"\\0"), 40)
print(f"{major}.{minor}", flags2 >> (37 - 32) & 1)
"""
"""Has the kernel say what it offers in FUSE_INIT (include/uapi/linux/fuse.h, bit 37 is FUSE_PASSTHROUGH)."""


def _program() -> Finding:
    name = "oscope-fs"
    try:
        path = find_filesystem()
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_LIMIT_S, check=True
        )
    except OscopeError as error:
        return Finding(name, "missing", error.message, _NEEDED_FOR, error.remedy)
    except (OSError, subprocess.SubprocessError) as error:
        remedy = "build it anew with make setup"
        return Finding(name, "missing", f"it does not start: {error}", _NEEDED_FOR, remedy)
    return Finding(name, "ok", f"version {answer.stdout.split()[-1]}, at {path}", _NEEDED_FOR)


def _passthrough() -> Finding:
    """Mount an empty FUSE file system that only the trial's process sees, and that goes with it."""
    name, needed_for = "FUSE passthrough", "oscope fs at the speed of local files"
    if os.geteuid() != 0:
        found = "the kernel lets only root have it; reads and writes go through oscope-fs"
        return Finding(name, "limited", found, needed_for, "sudo oscope fs mount …")
    try:
        with tempfile.TemporaryDirectory(prefix="oscope-doctor-") as place:
            answer = subprocess.run(
                ["unshare", "--mount", sys.executable, "-IS", "-c", _ASK_KERNEL, place],
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
                check=False,
                # The reason is read from the text, which unshare would translate.
                env={**os.environ, "LC_ALL": "C"},
            )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(name, "missing", f"the trial fails: {error}", needed_for, "see dmesg")
    if answer.returncode != 0:
        found = " ".join(answer.stderr.split()[-12:])
        return Finding(name, "missing", f"the trial fails: {found}", needed_for, _trial_remedy(found))
    version, offered = answer.stdout.split()
    if offered == "1":
        return Finding(name, "ok", f"offered by the kernel's FUSE {version}", needed_for)
    found = f"not offered by the kernel's FUSE {version}; reads and writes go through oscope-fs"
    return Finding(name, "limited", found, needed_for, "Linux 6.9 or later, with CONFIG_FUSE_PASSTHROUGH")


def _trial_remedy(found: str) -> str:
    """Return the fix for a trial that failed so: even root is refused where it lacks a capability."""
    if os.strerror(errno.EPERM) in found or os.strerror(errno.EACCES) in found:
        return "run as root with CAP_SYS_ADMIN (in a container: --cap-add SYS_ADMIN --device /dev/fuse)"
    return "a kernel with FUSE"


FILESYSTEM_CHECKS: tuple[Callable[[], Finding], ...] = (_program, _passthrough)
