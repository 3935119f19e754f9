"""A trace explained, as a whole: what a report or another program needs of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oscope.tools.explain import findings, summary
from oscope.tools.explain.narration import narrate
from oscope.tools.explain.phases import TITLES
from oscope.tools.explain.purposes import purpose
from oscope.tools.explain.reading import Call, Trace
from oscope.tools.explain.tasks import Image, Task, Tree, build
from oscope.trace.command import Ended

SCHEMA = "oscope.explain/1"
UNDER_STRACE = (
    "all times are under strace, which stops the program at the entry and at the return of each call: "
    "without it calls take a small part of that; compare times with each other only"
)


@dataclass(frozen=True)
class Run:
    """The command that was traced, where it was traced here."""

    command: tuple[str, ...]
    ended: Ended
    beside_s: float | None = None
    """How long a second run took, without strace; None where none was asked for."""
    remarks: tuple[str, ...] = ()
    """What is known of the command beside its trace."""


@dataclass(frozen=True)
class Explanation:
    """A trace, its tasks, and where it comes from."""

    source: str
    """The command, or the name of the file."""
    trace: Trace
    tree: Tree
    run: Run | None = None

    def notes(self) -> list[str]:
        """Return what is to be known of how far the trace can be relied on, a sentence each."""
        trace = self.trace
        notes = []
        if trace.truncated:
            notes.append("the trace ends within a line")
        if trace.cut:
            notes.append(f"{_many(trace.cut, 'call')} without beginning or end in the trace")
        if trace.not_understood:
            lines = _many(trace.not_understood, "line")
            notes.append(f"{lines} of {trace.lines} not understood, such as {trace.example[:80]!r}")
        if trace.left_out:
            notes.append(f"{trace.left_out} later calls are left out: the trace is too long to be kept whole")
        if self.tree.unfollowed:
            made = _many(len(self.tree.unfollowed), "process or thread", "processes or threads")
            notes.append(f"{made} made of which no call is in the trace: strace follows them with -f")
        if trace.clock is None:
            notes.append("the trace has no times: strace writes them with -ttt -T")
        elif not any(call.took_ns is not None for call in trace.calls):
            notes.append("the trace does not contain how long calls took: strace does with -T")
        return notes + list(self.run.remarks if self.run else ())

    def to_object(self) -> dict[str, Any]:
        """Return it as plain values for JSON, of the schema `SCHEMA`."""
        calls = list(self.trace.calls)
        numbers = {id(task): index for index, task in enumerate(self.tree.tasks)}
        return {
            "schema": SCHEMA,
            "source": self.source,
            **_run(self.run),
            "clock": self.trace.clock,
            "notes": self.notes(),
            "tasks": [_task(task, numbers) for task in self.tree.tasks],
            "calls": [each for task in self.tree.tasks for each in _calls(task, numbers)],
            "summary": {
                "calls": [_call_sum(each) for each in summary.by_call(calls)],
                "files": [_file_sum(each) for each in summary.by_file(calls)],
                "phases": [_phase_sum(each) for each in summary.of_all_phases(self.tree)],
            },
        }


def explain(trace: Trace, source: str, run: Run | None = None) -> Explanation:
    """Explain `trace`, which comes from `source`."""
    tree = build(trace)
    narrate(tree)
    return Explanation(source, trace, tree, run)


def _many(count: int, one: str, more: str | None = None) -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def _run(run: Run | None) -> dict[str, Any]:
    if run is None:
        return {"command": None, "status": None, "time_s": None, "untraced_s": None}
    return {
        "command": list(run.command),
        "status": run.ended.status,
        "time_s": run.ended.time_s,
        "untraced_s": run.beside_s,
    }


def _task(task: Task, numbers: Mapping[int, int]) -> dict[str, Any]:
    return {
        "pid": task.pid,
        "kind": task.kind,
        "maker": None if task.maker is None else numbers[id(task.maker)],
        "made_by": None if task.made_by is None else task.made_by.number,
        "ended": task.ended or None,
        "signals": [{"at_ns": signal.at_ns, "text": signal.text} for signal in task.signals],
        "programs": [_program(image) for image in task.images],
    }


def _program(image: Image) -> dict[str, Any]:
    return {
        "path": image.path,
        "command": image.command,
        "exec": None if image.started_by is None else image.started_by.number,
        "phases": [_phase_sum(each) for each in summary.by_phase(image)],
        "findings": [
            {"name": each.name, "text": each.text, "calls": list(each.calls)}
            for each in findings.of_image(image)
        ],
    }


def _calls(task: Task, numbers: Mapping[int, int]) -> list[dict[str, Any]]:
    return [
        _one(call, phase, meaning) | {"task": numbers[id(task)], "program": index}
        for index, image in enumerate(task.images)
        for call, phase, meaning in zip(image.calls, image.phases, image.purposes, strict=True)
    ]


def _one(call: Call, phase: str, meaning: str) -> dict[str, Any]:
    return {
        "number": call.number,
        "at_ns": call.at_ns,
        "time_ns": call.took_ns,
        "call": call.name,
        "group": purpose(call.name).group,
        "arguments": call.words,
        "result": call.result or None,
        "error": call.error,
        "file": call.file or None,
        "target": call.target or None,
        "phase": phase,
        "purpose": meaning,
    }


def _call_sum(each: summary.CallSum) -> dict[str, Any]:
    return {
        "call": each.name,
        "group": each.group,
        "purpose": each.purpose,
        "count": each.count,
        "errors": _plain(each.errors),
        "time_ns": each.time_ns if each.timed else None,
    }


def _file_sum(each: summary.FileSum) -> dict[str, Any]:
    return {
        "path": each.path,
        "calls": each.calls,
        "opened": each.opened,
        "read_bytes": each.read_bytes,
        "written_bytes": each.written_bytes,
        "mapped_bytes": each.mapped_bytes,
        "errors": _plain(each.errors),
    }


def _phase_sum(each: summary.PhaseSum) -> dict[str, Any]:
    return {
        "phase": each.name,
        "title": TITLES[each.name],
        "calls": each.count,
        "time_ns": each.time_ns,
        "span_ns": each.span_ns,
    }


def _plain(errors: Counter[str]) -> dict[str, int]:
    return dict(sorted(errors.items()))
