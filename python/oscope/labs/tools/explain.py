"""The start of a program: its phases, what the trace proves, and each call."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from oscope import questions as q
from oscope.tools.explain.explanation import UNDER_STRACE

DOCUMENTS_FINDINGS = {"preload": "the preload list", "thread-local-storage": "thread-local storage"}
"""What the original report noted of a trace."""
_LONGEST = 90


def section(title: str, result: Mapping[str, Any]) -> q.Section:
    """Tell the start of the first program of the trace."""
    program = result["tasks"][0]["programs"][0]
    phases, findings = program["phases"], program["findings"]
    before = sum(phase["calls"] for phase in phases if phase["phase"] not in ("program", "exit"))
    whole, own = sum(phase["calls"] for phase in phases), f"{q.format_count(before)} before its own first"
    shown = {finding["name"]: _proved(finding) for finding in findings}
    noted = [shown[name] for name in DOCUMENTS_FINDINGS if name in shown]
    absent = [
        title for name, title in DOCUMENTS_FINDINGS.items() if name not in {f["name"] for f in findings}
    ]
    return q.Section(
        title=title,
        answer=f"`{shlex.join(result['command'])}` makes {q.counted(whole, 'system call')}, {own}.",
        text=[
            *([f"The trace shows what the original report noted: {' '.join(noted)}"] if noted else []),
            *(text for name, text in shown.items() if name not in DOCUMENTS_FINDINGS),
            f"Note: {UNDER_STRACE}.",
        ],
        tables=[PHASES.of(phases), CALLS.of(result["calls"])],
        figures=[_figure(phases)],
        missing=f"the trace shows nothing of {q.listed(absent)}" if absent else "",
    )


def _proved(finding: Mapping[str, Any]) -> str:
    calls = f"call{'s' if len(finding['calls']) > 1 else ''} {', '.join(map(str, finding['calls']))}"
    return f"{finding['text'].removesuffix('.')} ({calls})."


def _microseconds(heading: str, key: str) -> q.Column[Mapping[str, Any]]:
    """Return a column of times to what strace prints, which is whole microseconds."""
    return q.count(f"{heading} [µs]", lambda row: None if row[key] is None else row[key] / 1e3)


PHASES: q.TableOf[Mapping[str, Any]] = q.TableOf(
    "By phase",
    q.text("phase", lambda phase: phase["title"]),
    q.number("calls", lambda phase: phase["calls"], "d"),
    _microseconds("in calls", "time_ns"),
    _microseconds("took", "span_ns"),
    note="Took: from its first call to the next phase. Under strace: to be compared with each other.",
)


def _written(call: Mapping[str, Any]) -> str:
    text = f"{call['call']}({', '.join(call['arguments'])})"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"{text} = {call['result']}" if call["result"] else text


CALLS: q.TableOf[Mapping[str, Any]] = q.TableOf(
    "Every call",
    q.number("#", lambda call: call["number"], "d"),
    q.text("call", lambda call: call["call"]),
    _microseconds("took", "time_ns"),
    q.number("at [ms]", lambda call: None if call["at_ns"] is None else call["at_ns"] / 1e6, ".3f"),
    q.text("what it is for", lambda call: call["purpose"]),
    q.text("as strace has it", _written),
)


def _figure(phases: Sequence[Mapping[str, Any]]) -> q.Figure:
    parts = {"from its first call to the next phase": "span_ns", "in its calls": "time_ns"}
    known = (phase for phase in phases if phase["span_ns"] is not None)
    rows = ((name, phase["title"], phase[key]) for phase in known for name, key in parts.items())
    axis, note = (
        q.plots.axis("time under strace [ms]"),
        "What is not in calls is the program itself, and strace",
    )
    return q.bars("Time by phase", axis, rows, f"{note} between them.", 1e6)
