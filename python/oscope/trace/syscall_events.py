"""Each system call of a command in order, with its arguments."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from oscope.model.errors import OscopeError
from oscope.trace import launch
from oscope.trace.arguments import Signatures
from oscope.trace.calls import call_name, call_number, error_name
from oscope.trace.templates import templates
from oscope.trace.tool import ATTACH_LIMIT_S, Tool, process_exists
from oscope.trace.tracer import Losses, Tracer, TraceUnavailable, Tracing

_SIGNED_BYTE = re.compile(rb"(?<!\\)((?:\\\\)*)\\[ux]ffffff([0-9a-f]{2})")
PATHS: Mapping[str, int] = {
    **dict.fromkeys(("open", "creat", "access", "stat", "lstat", "statfs", "readlink", "truncate"), 0),
    **dict.fromkeys(("unlink", "rename", "link", "symlink", "mkdir", "rmdir", "mknod", "chmod"), 0),
    **dict.fromkeys(("chown", "lchown", "chdir", "chroot", "utime", "utimes", "execve"), 0),
    **dict.fromkeys(("openat", "openat2", "faccessat", "faccessat2", "newfstatat", "statx", "readlinkat"), 1),
    **dict.fromkeys(("unlinkat", "renameat", "renameat2", "linkat", "mkdirat", "mknodat", "fchmodat"), 1),
    **dict.fromkeys(("fchownat", "utimensat", "execveat", "inotify_add_watch", "name_to_handle_at"), 1),
    "symlinkat": 0,
}
"""Calls that take a path: which argument it is, from 0."""
SECOND_PATHS: Mapping[str, int] = {
    "rename": 1,
    "link": 1,
    "symlink": 1,
    "symlinkat": 2,
    "renameat": 3,
    "renameat2": 3,
    "linkat": 3,
}
"""Calls that take a second one."""
LONGEST_PATH = 199
"""Bytes of a path that are read: bpftrace reads texts of 200 at most, with the zero that ends them."""
RING_PAGES = 1024
"""Room between kernel and bpftrace on each CPU: 4 MiB, for some 40 000 lines."""
MOST_TASKS = 2**16
POLL_S = 0.02
QUIET_S = 0.1
"""Without a line for so long, bpftrace has read the ring: it sleeps for that long at most."""
LONGEST_DRAIN_S = 30.0
"""Descendants of the command that live on may never be quiet."""


@dataclass
class Call:
    """One system call."""

    at_ns: int
    """On the clock of `bpf_ktime_get_ns`, which is CLOCK_MONOTONIC."""
    pid: int
    tid: int
    number: int
    arguments: tuple[int, ...]
    """All six registers, as unsigned numbers, whether the call takes so many or not."""
    paths: dict[int, str] = field(default_factory=dict)
    """Texts of the arguments that are paths, by the argument, from 0."""
    returned: int | None = None
    """None where it did not return while it was traced."""
    time_ns: int | None = None

    @property
    def name(self) -> str:
        """The call's name, or `nr:N`."""
        return call_name(self.number)

    def to_object(self, signatures: Signatures, begun_ns: int) -> dict[str, Any]:
        """Return it as plain values for JSON; its time counts from `begun_ns`."""
        failed = None if self.returned is None else error_name(self.returned)
        return {
            "at_ns": self.at_ns - begun_ns,
            "pid": self.pid,
            "tid": self.tid,
            "call": self.name,
            "arguments": signatures.describe(self.name, self.arguments, self.paths),
            "returned": self.returned,
            "error": failed,
            "time_ns": self.time_ns,
        }


class EventTracer(Tracer):
    """bpftrace on a process that is to become a command: from its execve on, with all its descendants."""

    name = "events"
    follows_marks: ClassVar[bool] = False

    def __init__(self) -> None:
        self._tool: Tool | None = None
        self._signatures = Signatures({})

    def start(self, pid: int) -> None:
        """Attach to `pid`.

        Raises TraceUnavailable where bpftrace is missing or may not, OscopeError where it dies.
        """
        if os.geteuid() != 0:
            raise TraceUnavailable("bpftrace needs root", remedy="run with sudo")
        tool = self._tool = Tool("bpftrace", "bpftrace")
        tool.nudged = True
        tool.environment |= {
            "BPFTRACE_STRLEN": str(LONGEST_PATH + 1),
            "BPFTRACE_PERF_RB_PAGES": str(RING_PAGES),
            "BPFTRACE_MAP_KEYS_MAX": str(MOST_TASKS),
        }
        try:
            tool.start(
                ["-k", "-f", "json", "-o", tool.record_name, "-e", _program(pid)],
                prefix=launch.command(),
            )
            _await_attached(tool)
            # bpftrace may see a tracefs that this process does not.
            self._signatures = Signatures.read(Path(f"/proc/{tool.pid}/root"))
        except BaseException:
            self.kill()
            raise
        if not process_exists(pid):
            self.kill()
            raise OscopeError("the process ended before bpftrace was attached")

    def alive(self) -> bool:
        """Return whether bpftrace runs."""
        return self._tool is not None and self._tool.alive()

    def stop(self) -> Tracing:
        """Detach, and return the calls as `events`, each a JSON object. OscopeError where it had died."""
        tool = self._tool
        if tool is None:
            raise OscopeError("bpftrace is not attached")
        try:
            _await_drained(tool)
            tool.stop()
            if tool.record_bytes() >= tool.largest_bytes:
                raise tool.death()
            tool.record.seek(0)
            lines, losses = read_record(tool.record)
        finally:
            self.kill()
        calls = pair(lines)
        begun_ns = calls[0].at_ns if calls else 0
        events = [call.to_object(self._signatures, begun_ns) for call in calls]
        return Tracing({0: {"tracer": self.name, "events": events}}, losses)

    def kill(self) -> None:
        """End bpftrace at once; the kernel takes its programs away with it."""
        if self._tool is not None:
            self._tool.kill()


def read_record(record: Iterable[bytes]) -> tuple[list[str], Losses]:
    """Return what was printed, unordered, and what was lost, from the lines of JSON that bpftrace wrote.

    Raises OscopeError where the count of lines, which bpftrace reports last, is not there.
    """
    lines: list[str] = []
    printed: int | None = None
    refused = 0
    for line in record:
        if not line.strip():
            continue
        # A path may have any bytes but zero; those above 127 bpftrace escapes with their sign.
        whole = _SIGNED_BYTE.sub(lambda byte: byte[1] + bytes.fromhex(byte[2].decode()), line)
        found = json.loads(whole.decode(errors="replace"), strict=False)
        match found["type"]:
            case "printf" if found["data"] != "attached\n":
                lines.append(found["data"].removesuffix("\n"))
            case "map" if "@lines" in found["data"]:
                printed = int(found["data"]["@lines"])
            case "helper_error":
                refused += 1
    if printed is None and lines:
        raise OscopeError("what bpftrace wrote is cut short", remedy="make room in the temporary folder")
    return lines, Losses(ring=(printed or 0) - len(lines), map_full={"tasks": refused} if refused else {})


def pair(lines: Iterable[str]) -> list[Call]:
    """Return the calls in the order in which they began, from lines in any order.

    bpftrace reads the CPUs' rings one after another: only the times tell the order.
    """
    calls: list[Call] = []
    open_calls: dict[int, Call] = {}
    for kind, at_ns, tid, rest in sorted(_parsed(lines), key=lambda line: line[1]):
        if kind == "begin":
            pid, number, *arguments = rest.split()
            call = Call(at_ns, int(pid), tid, int(number), tuple(int(word, 16) for word in arguments))
            open_calls[tid] = call
            calls.append(call)
        elif open_call := open_calls.get(tid):
            if kind == "end":
                open_call.returned, open_call.time_ns = int(rest), at_ns - open_call.at_ns
                del open_calls[tid]
            else:
                where = PATHS if kind == "path" else SECOND_PATHS
                open_call.paths[where[open_call.name]] = rest
    return calls


def _parsed(lines: Iterable[str]) -> Iterator[tuple[str, int, int, str]]:
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind in ("begin", "end", "path", "second"):
            at_ns, tid, *text = rest.split(" ", 2)
            yield kind, int(at_ns), int(tid), text[0] if text else ""


def _program(pid: int) -> str:
    execve = call_number("execve")
    return (
        templates()
        .get_template("calls_in_order.bt")
        .render(
            pid=pid,
            execve=execve,
            paths={number: index for number, index in _by_number(PATHS).items() if number != execve},
            second_paths=_by_number(SECOND_PATHS),
        )
    )


def _by_number(names: Mapping[str, int]) -> dict[int, int]:
    """Return `names` by the numbers of this machine; a call that it has not is left out."""
    return {number: index for name, index in names.items() if (number := call_number(name)) is not None}


def _await_attached(tool: Tool) -> None:
    deadline = time.monotonic() + ATTACH_LIMIT_S
    while b'"attached\\n"' not in os.pread(tool.record.fileno(), 4096, 0):
        if not tool.alive() or time.monotonic() > deadline:
            raise tool.death()
        time.sleep(POLL_S)


def _await_drained(tool: Tool) -> None:
    """Wait until bpftrace has written what is in the ring: what a signal finds there, 0.17 leaves."""
    deadline = time.monotonic() + LONGEST_DRAIN_S
    length = -1
    while length != tool.record_bytes() and time.monotonic() < deadline:
        length = tool.record_bytes()
        time.sleep(QUIET_S)
