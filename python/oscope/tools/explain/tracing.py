"""Runs a command under strace, from its first instruction on, and reads what strace wrote."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.tools.explain.explanation import Explanation, Run, explain
from oscope.tools.explain.reading import Call, Trace, read
from oscope.tools.explain.tasks import EXECS
from oscope.trace.command import WaitingCommand, find_program
from oscope.trace.strace import refusal, tracer_of
from oscope.trace.tool import Tool

STRING_BYTES = 96
"""How much of each text strace prints."""
LAST_CALLS_S = 0.5
"""How long strace has to end by itself once the command has: after that, what the command left is let go."""
_LOOK_S = 0.01


def run(words: Sequence[str], *, beside: bool = False, quiet: bool = False) -> Explanation:
    """Run a command under strace and explain it; with `beside`, run it once more, without strace.

    `quiet`: what it writes to standard output goes to standard error.

    Raises UsageError where there is no such command, TraceUnavailable where strace is missing or may not,
    OscopeError where the tracing fails.
    """
    remarks = _remarks(find_program(words))
    tool = Tool("strace", "strace")
    try:
        with WaitingCommand(words, quiet=quiet) as waiting:
            _attach(tool, waiting.pid)
            ended = waiting.run()
            _finish(tool)
        tool.record.seek(0)
        trace = from_exec(read(tool.record, "the trace"), waiting.pid)
    finally:
        tool.kill()
    beside_s = None
    if beside:
        with WaitingCommand(words, quiet=quiet) as again:
            beside_s = again.run().time_s
    return explain(trace, words[0], Run(tuple(words), ended, beside_s, remarks))


def from_exec(trace: Trace, pid: int) -> Trace:
    """Return `trace` without what the child did before it became the command."""
    for index, record in enumerate(trace.records):
        if (
            isinstance(record, Call)
            and record.pid == pid
            and record.name in EXECS
            and (record.succeeded or not record.result)
        ):
            del trace.records[:index]
            _begin_at(trace, record)
            return trace
    raise OscopeError(
        "strace did not see the command start", remedy="try again; oscope --verbose … prints more"
    )


def _begin_at(trace: Trace, first: Call) -> None:
    """Count calls and times from `first` on."""
    begin, skipped = first.at_ns or 0, first.number - 1
    for record in trace.records:
        if record.at_ns is not None:
            record.at_ns = record.at_ns - begin
        if isinstance(record, Call):
            record.number -= skipped


def _attach(tool: Tool, pid: int) -> None:
    options = ["-f", "-ttt", "-T", "-yy", "-s", str(STRING_BYTES)]
    tool.start([*options, "-o", tool.record_name, "-p", str(pid)])
    if not (tool.wait_for_words(r"Process \d+ attached") and tracer_of(pid) == tool.pid):
        raise refusal(pid, tool)


def _finish(tool: Tool) -> None:
    """Wait until strace has written all, and have it let go of what the command left running."""
    deadline = time.monotonic() + LAST_CALLS_S
    while tool.alive() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    if tool.alive():
        tool.stop()
    elif tool.status != 0 or tool.record_bytes() >= tool.largest_bytes:
        raise tool.death()


def _remarks(program: str) -> tuple[str, ...]:
    """Return what tracing changes of `program`: under a tracer without root it gets no rights (execve(2))."""
    try:
        found = Path(program).stat()
    except OSError:
        return ()
    if found.st_mode & (stat.S_ISUID | stat.S_ISGID) and os.geteuid() != 0:
        return (f"{program} has the rights of another user or group, which it does not get under strace",)
    return ()
