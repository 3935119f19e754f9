"""What the kernel lets this user do, tried."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from oscope.model.finding import Finding, as_root

NO_PTRACE = 3
"""Value of kernel.yama.ptrace_scope from which nobody may attach to a process."""


def _perf_event_paranoid() -> int:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return (
            4  # No such file: the kernel was built without perf events, which is stricter than any setting.
        )


def _root() -> Finding:
    needed_for = "dropping caches, tracing, guests with devices"
    if os.geteuid() == 0:
        return Finding("root", "ok", "yes", needed_for)
    return Finding("root", "limited", f"user {os.geteuid()}", needed_for, "sudo oscope …")


def _perf_events() -> Finding:
    level = _perf_event_paranoid()
    needed_for = "hardware counters, perf"
    if level <= 2 or os.geteuid() == 0:
        return Finding("perf events", "ok", f"kernel.perf_event_paranoid={level}", needed_for)
    remedy = as_root("sysctl kernel.perf_event_paranoid=1")
    return Finding("perf events", "missing", f"kernel.perf_event_paranoid={level}", needed_for, remedy)


def _ptrace() -> Finding:
    """Tell whether one may attach to a process: 0 is yes, 3 never, between them root may (ptrace(2))."""
    try:
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except OSError:
        scope = 0  # No such file: the kernel has no Yama, which alone could forbid it.
    found = f"kernel.yama.ptrace_scope={scope}"
    if scope == 0 or (scope < NO_PTRACE and os.geteuid() == 0):
        return Finding("ptrace", "ok", found, "strace in trace.effect")
    remedy = "boot anew" if scope >= NO_PTRACE else as_root("sysctl kernel.yama.ptrace_scope=0")
    return Finding("ptrace", "missing", found, "strace in trace.effect", remedy)


def _tracefs() -> Finding:
    needed_for = "tracing: --trace, oscope trace"
    if os.geteuid() != 0:
        return Finding("tracefs", "limited", "only root may look", needed_for, "sudo oscope …")
    if Path("/sys/kernel/tracing/events/raw_syscalls").is_dir():
        return Finding("tracefs", "ok", "mounted, with system calls", needed_for)
    if "\ttracefs\n" in Path("/proc/filesystems").read_text():
        return Finding("tracefs", "ok", "not mounted; a tracer mounts it for itself alone", needed_for)
    return Finding(
        "tracefs", "missing", "not in this kernel", needed_for, "a kernel with CONFIG_FTRACE_SYSCALLS"
    )


def _drop_caches() -> Finding:
    return try_open("drop_caches", Path("/proc/sys/vm/drop_caches"), os.O_WRONLY, "cold reads of files")


def _fuse() -> Finding:
    return try_open("FUSE", Path("/dev/fuse"), os.O_RDWR, "oscope fs")


def try_open(name: str, path: Path, flags: int, needed_for: str) -> Finding:
    """Try to open `path`; opening neither drops a cache nor mounts anything."""
    try:
        os.close(os.open(path, flags | os.O_CLOEXEC))
    except OSError as error:
        remedy = (
            "run as root: sudo oscope …"
            if isinstance(error, PermissionError)
            else f"a kernel that has {path}"
        )
        return Finding(name, "missing", f"{path}: {error.strerror}", needed_for, remedy)
    return Finding(name, "ok", f"{path} opens", needed_for)


HOST_CHECKS: tuple[Callable[[], Finding], ...] = (
    _root,
    _perf_events,
    _tracefs,
    _ptrace,
    _drop_caches,
    _fuse,
)
