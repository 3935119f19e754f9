"""The start of a program: its phases, what the trace proves, and each call."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from oscope.figures.plots import Bars
from oscope.labs import engine as q
from oscope.tools.explain.explanation import UNDER_STRACE

DOCUMENTS_FINDINGS = ("preload", "thread-local-storage")
"""What the original report noted of a trace."""
_LONGEST = 90
_TITLES = {"preload": "the preload list", "thread-local-storage": "thread-local storage"}


def section(title: str, result: Mapping[str, Any]) -> q.Section:
    """Tell the start of the first program of the trace."""
    program = result["tasks"][0]["programs"][0]
    phases, findings = program["phases"], program["findings"]
    command = shlex.join(result["command"])
    before = sum(phase["calls"] for phase in phases if phase["phase"] not in ("program", "exit"))
    whole = sum(phase["calls"] for phase in phases)
    answer = (
        f"`{command}` makes {q.counted(whole, 'system call')}, {q.format_count(before)} before its own first."
    )
    named = {finding["name"]: finding for finding in findings}
    shown = [named[name] for name in DOCUMENTS_FINDINGS if name in named]
    if shown:
        answer += " The trace shows what the original report noted: " + " ".join(
            _proved(finding) for finding in shown
        )
    absent = [_TITLES[name] for name in DOCUMENTS_FINDINGS if name not in named]
    missing = f"the trace shows nothing of {' and '.join(absent)}" if absent else ""
    others = [_proved(each) for each in findings if each["name"] not in DOCUMENTS_FINDINGS]
    return q.Section(
        title=title,
        answer=answer,
        text=[*others, f"Note: {UNDER_STRACE}."],
        tables=[_phases(phases), _every_call(result["calls"])],
        figures=[_figure(phases)],
        missing=missing,
    )


def _proved(finding: Mapping[str, Any]) -> str:
    return f"{finding['text'].removesuffix('.')} ({_calls(finding)})."


def _calls(finding: Mapping[str, Any]) -> str:
    numbers = ", ".join(map(str, finding["calls"]))
    return f"call{'s' if len(finding['calls']) > 1 else ''} {numbers}"


def _phases(phases: Sequence[Mapping[str, Any]]) -> q.Table:
    rows = [
        [phase["title"], str(phase["calls"]), *(_microseconds(phase[key]) for key in ("time_ns", "span_ns"))]
        for phase in phases
    ]
    columns = ["phase", "calls", "in calls [µs]", "took [µs]"]
    note = "Took: from its first call to the next phase. Under strace: to be compared with each other."
    return q.Table("By phase", columns, rows, frozenset({1, 2, 3}), note)


def _microseconds(time_ns: int | None) -> str:
    """Return a time to what strace prints, which is whole microseconds."""
    return q.MISSING if time_ns is None else q.format_count(time_ns / 1e3)


def _every_call(calls: Sequence[Mapping[str, Any]]) -> q.Table:
    rows = [
        [
            str(call["number"]),
            call["call"],
            _microseconds(call["time_ns"]),
            q.MISSING if call["at_ns"] is None else f"{call['at_ns'] / 1e6:.3f}",
            call["purpose"],
            _written(call),
        ]
        for call in calls
    ]
    columns = ["#", "call", "took [µs]", "at [ms]", "what it is for", "as strace has it"]
    return q.Table("Every call", columns, rows, frozenset({0, 2, 3}))


def _written(call: Mapping[str, Any]) -> str:
    text = f"{call['call']}({', '.join(call['arguments'])})"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"{text} = {call['result']}" if call["result"] else text


def _figure(phases: Sequence[Mapping[str, Any]]) -> q.Figure:
    timed = [phase for phase in phases if phase["span_ns"] is not None]
    return q.plots.bars(
        "Time by phase",
        q.plots.axis("time under strace [ms]"),
        [phase["title"] for phase in timed],
        [
            Bars("from its first call to the next phase", [phase["span_ns"] / 1e6 for phase in timed]),
            Bars("in its calls", [phase["time_ns"] / 1e6 for phase in timed]),
        ],
        "What is not in calls is the program itself, and strace between them.",
    )
