"""`strace`, as people use it: its summary of counts, or every call written out. It sees the whole process."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from oscope.model.errors import OscopeError
from oscope.trace.tool import Tool, process_exists
from oscope.trace.tracer import Losses, Tracer, TraceUnavailable, Tracing

LEVELS = ("strace-count", "strace")
UNNAMED_ERROR = "error"
"""Name of the errors in a summary that does not show which they were."""

_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_YAMA_FORBIDS = "3"
"""Nobody may trace, and this can only be changed by a boot (Documentation/admin-guide/LSM/Yama.rst)."""
_BEGUN = re.compile(rb"^(?:\d+ +)?(\w+)\(")
_FAILED = re.compile(rb"^(?:\d+ +)?(?:<\.\.\. )?(\w+)(?:\(| resumed>).* = (?:-1|\?) (E[A-Z0-9]+) \([^()]*\)$")


class StraceTracer(Tracer):
    """strace attached to one process, its threads, and the children that it makes meanwhile.

    A reading counts the calls that were begun or, in a summary, that have returned, from attaching to
    detaching; a call that waits when strace attaches is counted, as it is begun again. Times are those that
    strace saw, its own stops included; there are none of calls written out.
    """

    follows_marks: ClassVar[bool] = False

    def __init__(self, level: str) -> None:
        """`level` is one of `LEVELS`."""
        if level not in LEVELS:
            raise ValueError(f"{level} is no level of strace")
        self.name = level
        self._tool: Tool | None = None

    def start(self, pid: int) -> None:
        """Attach to `pid`: when this returns, no call begins unseen.

        Raises TraceUnavailable where strace is missing or may not, OscopeError where no such process is.
        """
        if not process_exists(pid):
            raise OscopeError(f"there is no process {pid} to trace")
        tool = self._tool = Tool("strace", "strace")
        summary = ("-c", "-w") if self.name == "strace-count" else ()
        try:
            tool.start(["-f", *summary, "-o", tool.record_name, "-p", str(pid)])
            attached = tool.wait_for_words(r"Process \d+ attached") and tracer_of(pid) == tool.pid
        except BaseException:
            self.kill()
            raise
        if not attached:
            error = refusal(pid, tool)
            self.kill()
            raise error

    def alive(self) -> bool:
        """Return whether strace runs: it ends with the last of the processes that it traces."""
        return self._tool is not None and self._tool.alive()

    def stop(self) -> Tracing:
        """Detach, and read what strace recorded. OscopeError where it had ended or its record is cut."""
        tool = self._tool
        if tool is None:
            raise OscopeError("strace is not attached")
        try:
            tool.stop()
            if tool.record_bytes() >= tool.largest_bytes:
                raise tool.death()
            tool.record.seek(0)
            read = parse_summary if self.name == "strace-count" else parse_calls
            calls = read(tool.record)
        finally:
            self.kill()
        return Tracing({0: {"tracer": self.name, "scope": "process", "calls": calls}}, Losses())

    def kill(self) -> None:
        """End strace at once; the kernel detaches what it traced, which goes on (ptrace(2))."""
        if self._tool is not None:
            self._tool.kill()


def parse_summary(lines: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """Read the table of `strace -c -w`: % time, seconds, usecs/call, calls, errors if any, name.

    Raises OscopeError where the table is not whole: its last line is the total, which the rows must sum to.
    """
    calls: dict[str, dict[str, Any]] = {}
    for line in lines:
        words = line.decode(errors="replace").split()
        if len(words) not in (5, 6) or not words[3].isdecimal():
            continue
        count = int(words[3])
        if words[-1] == "total":
            if count != sum(call["count"] for call in calls.values()):
                raise OscopeError(f"the rows of strace's summary do not sum to its total of {count}")
            return calls
        errors = {UNNAMED_ERROR: int(words[4])} if len(words) == 6 else {}
        calls[words[-1]] = {
            "count": count,
            "errors": errors,
            "time_ns": round(float(words[1]) * 1e9),
        }
    if calls:
        raise OscopeError("strace's summary is cut short")
    return calls


def parse_calls(lines: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """Count the calls that strace wrote out, by name, and their errors by name.

    Raises OscopeError where the last line is not whole.
    """
    counts: Counter[str] = Counter()
    errors: dict[str, Counter[str]] = {}
    line = b"\n"
    for line in lines:
        if begun := _BEGUN.match(line):
            counts[begun[1].decode()] += 1
        if failed := _FAILED.match(line.rstrip()):
            errors.setdefault(failed[1].decode(), Counter())[failed[2].decode()] += 1
    if not line.endswith(b"\n"):
        raise OscopeError("what strace wrote is cut short", remedy="make room in the temporary folder")
    return {name: {"count": n, "errors": dict(errors.get(name, {}))} for name, n in counts.items()}


def tracer_of(pid: int) -> int | None:
    """Return the process that traces `pid`, 0 where none does; None where there is no such process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^TracerPid:\s*(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else None


def refusal(pid: int, tool: Tool) -> OscopeError:
    """Return why strace did not attach to `pid`, in words that are the same for every process."""
    if not process_exists(pid):
        return OscopeError("the process ended before strace was attached")
    other = tracer_of(pid)
    if other not in (None, 0, tool.pid):
        return TraceUnavailable(
            f"the process is traced by process {other} already", remedy="end that tracer or debugger"
        )
    if "not permitted" in tool.words:
        scope = _YAMA.read_text().strip() if _YAMA.exists() else "0"
        remedy = "sysctl kernel.yama.ptrace_scope=0, or run as root" if scope != "0" else "run as root"
        if os.geteuid() == 0:
            remedy = "give this container the capability CAP_SYS_PTRACE"
        if scope == _YAMA_FORBIDS:
            remedy = f"kernel.yama.ptrace_scope is {scope} until the next boot: have a boot set a lower one"
        return TraceUnavailable("strace may not trace the process", remedy=remedy)
    return tool.death()
