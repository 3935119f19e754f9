"""`perf trace`: both ends of every call recorded, summed up afterwards. It sees the whole process.

The live summary (`perf trace -s -p`) drops events without a word: 3 in 10 000 with perf 6.1 under Linux 6.18,
even with room in the ring. `perf trace record` counts every call, and the kernel reports what found the ring
full.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, ClassVar

from oscope.model.errors import OscopeError
from oscope.trace import launch
from oscope.trace.tool import ATTACH_LIMIT_S, Tool, process_exists
from oscope.trace.tracer import Losses, Tracer, TraceUnavailable, Tracing

RING_PAGES = 4096
"""Room between kernel and perf on each CPU; must be a power of two."""
READ_LIMIT_S = 600.0
"""What perf may take to read its own record, which is at most `LARGEST_RECORD_BYTES` long."""

_MAKERS = ("clone", "clone3", "fork", "vfork")
"""Calls that return in the new task as well."""
_THREAD = re.compile(r"\((\d+)\), \d+ events?, ")
_ROW = re.compile(r"^ +(\w+) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +[\d.]+ +[\d.]+ +[\d.]+%$")
_ERROR = re.compile(r"^\s+(E[A-Z0-9]+): (\d+)$")
_LOST = re.compile(r"^ *(LOST|LOST_SAMPLES) events: +(\d+)", re.MULTILINE)


class PerfTracer(Tracer):
    """perf attached to one process, its threads, and the children that it makes meanwhile.

    A reading counts the calls that have returned between attaching and detaching; the return of a call that
    waited when perf attached is counted, with no time.
    """

    name = "perf-trace"
    follows_marks: ClassVar[bool] = False

    def __init__(self) -> None:
        self._tool: Tool | None = None
        self._tasks: frozenset[int] = frozenset()
        self._pipes = contextlib.ExitStack()

    def start(self, pid: int) -> None:
        """Attach to `pid`: perf says itself when its events are enabled.

        Raises TraceUnavailable where perf is missing or may not, OscopeError where there is no such process.
        """
        if not process_exists(pid):
            raise OscopeError(f"there is no process {pid} to trace")
        if os.geteuid() != 0:
            raise TraceUnavailable(
                "perf trace reads all system calls, which needs root", remedy="run with sudo"
            )
        tool = self._tool = Tool("perf", "linux-perf")
        try:
            enabled = self._attach(tool, pid)
        except BaseException:
            self.kill()
            raise
        if not enabled:
            error = tool.death() if process_exists(pid) else _gone()
            self.kill()
            raise error

    def _attach(self, tool: Tool, pid: int) -> bool:
        """Start perf and return whether it has enabled its events."""
        control, commands = os.pipe()
        answers, acknowledgement = os.pipe()
        # perf 6.1 writes no data once its pipe of commands is closed: they stay open until it has ended.
        for ours in (commands, answers):
            self._pipes.callback(os.close, ours)
        try:
            tool.start(
                [
                    *("trace", "record", "-m", str(RING_PAGES), "-D", "-1"),
                    *("--control", f"fd:{control},{acknowledgement}"),
                    *("-o", tool.record_name, "-p", str(pid)),
                ],
                prefix=launch.command(),
                pass_fds=(control, acknowledgement),
            )
        finally:
            os.close(control)
            os.close(acknowledgement)
        self._tasks = _tasks(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(commands, b"enable\n")
        return _acknowledged(answers)

    def alive(self) -> bool:
        """Return whether perf runs: it ends with the process that it traces."""
        return self._tool is not None and self._tool.alive()

    def stop(self) -> Tracing:
        """Detach, and have perf sum up. Raises OscopeError where it had ended or its record is cut."""
        tool = self._tool
        if tool is None:
            raise OscopeError("perf is not attached")
        try:
            tool.stop()
            if tool.record_bytes() >= tool.largest_bytes:
                raise tool.death()
            calls = parse_summary(_read(tool, "trace", "-s", "--errno-summary").splitlines(), self._tasks)
            losses = Losses(ring=count_lost(_read(tool, "report", "--stats", "--stdio")))
        finally:
            self.kill()
        return Tracing({0: {"tracer": self.name, "scope": "process", "calls": calls}}, losses)

    def kill(self) -> None:
        """End perf at once; the kernel takes its events away with it."""
        if self._tool is not None:
            self._tool.kill()
        self._pipes.close()


def parse_summary(lines: Iterable[str], tasks: Collection[int]) -> dict[str, dict[str, Any]]:
    """Sum `perf trace -s --errno-summary` over the tasks; those in `tasks` were there before.

    A task that was made meanwhile begins with the return of the call that made it, which its maker called:
    perf counts it twice, this does not.
    """
    calls: dict[str, dict[str, Any]] = {}
    name, born = "", False
    for line in lines:
        if thread := _THREAD.search(line):
            born = int(thread[1]) not in tasks
        elif row := _ROW.match(line):
            name, count, total_ms, least_ms = row[1], int(row[2]), row[4], row[5]
            if born and name in _MAKERS and float(least_ms) == 0:
                count, born = count - 1, False
            call = calls.setdefault(name, {"count": 0, "errors": Counter(), "time_ns": 0})
            call["count"] += count
            call["time_ns"] += round(float(total_ms) * 1e6)
        elif error := _ERROR.match(line):
            calls[name]["errors"][error[1]] += int(error[2])
    return {name: call | {"errors": dict(call["errors"])} for name, call in calls.items() if call["count"]}


def count_lost(statistics: str) -> int:
    """Return how many events found the ring full, from `perf report --stats`.

    LOST_SAMPLES are the kernel's own counts for each event (perf_event_open(2), PERF_FORMAT_LOST).
    """
    per_event = re.findall(r"stats:\n(?: .*\n)*? *LOST_SAMPLES events: +(\d+)", statistics)
    if per_event:
        return sum(map(int, per_event))
    # A kernel before 6.0 has no such count; how many records of loss there are is at least how much was lost.
    return sum(int(count) for _, count in _LOST.findall(statistics))


def _read(tool: Tool, *verb: str) -> str:
    """Return what perf reports about its record."""
    try:
        answer = subprocess.run(
            # Perf would mount tracefs for all to see.
            launch.command(tool.path, *verb, "-f", "-i", tool.record_name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=READ_LIMIT_S,
            check=False,
            pass_fds=(tool.record.fileno(),),
            start_new_session=True,
            env=os.environ | {"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OscopeError(f"perf did not read its record ({error})") from error
    output = answer.stderr.decode(errors="replace")
    if answer.returncode != 0:
        last = " ".join(output.split())[-200:]
        raise OscopeError(f"perf {verb[0]} ended with status {answer.returncode} {last}")
    # perf trace reports its summary on standard error.
    return answer.stdout.decode(errors="replace") + output


def _acknowledged(answers: int) -> bool:
    """Wait for perf's word that its events are enabled; False where it ended or said nothing."""
    output = b""
    deadline = time.monotonic() + ATTACH_LIMIT_S
    while b"ack" not in output:
        ready, _, _ = select.select([answers], [], [], max(deadline - time.monotonic(), 0))
        chunk = os.read(answers, 64) if ready else b""
        if not chunk:
            return False
        output += chunk
    return True


def _tasks(pid: int) -> frozenset[int]:
    try:
        return frozenset(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return frozenset()


def _gone() -> OscopeError:
    return OscopeError("the process ended before perf was attached")
