"""What sections show of traced points: their probe effect, what was lost, and why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from oscope.figures.answer_text import listed
from oscope.figures.traced import Traced
from oscope.model.document import Figure
from oscope.model.samples import ExperimentResults
from oscope.questions import histograms
from oscope.questions.section_text import NOT_RUN, reasons
from oscope.questions.table import Column, count, text
from oscope.trace.tracer import Losses

_Row = TypeVar("_Row")


def effect_column(of: Callable[[_Row], Traced | None]) -> Column[_Row]:
    """Return the column of probe effects."""
    return text("probe effect (95 %)", lambda row: None if (found := of(row)) is None else found.effect_text)


def effect_note(found: Iterable[Traced]) -> str:
    """Return the probe effect of what a figure shows: every point's once, or the span of many."""
    points = {id(each): each for each in found}.values()
    known = [(each, each.effect) for each in points if each.effect is not None]
    if not known:
        return "Probe effect: not known, since no point was measured without the tracer as well."
    if len(known) <= 2:
        what = listed([f"{each.effect_text} at {each.name}" for each, _ in known])
    else:
        low, high = (end(known, key=lambda pair: pair[1].ratio)[0] for end in (min, max))
        what = f"from {low.effect_text} at {low.name} to {high.effect_text} at {high.name}"
    return f"Probe effect (time traced over untraced, 95 %): {what}."


def scheduling(*kinds: str, latency: str) -> list[Column[Traced]]:
    """Return the columns of how often threads were switched, by kind, and woken, and how long that took."""

    def counted(kind: str) -> Callable[[Traced], float]:
        return lambda each: float(each.reading["switches"][kind])

    return [
        *(count(kind, counted(kind)) for kind in kinds),
        count("wake-ups", counted("wakeups")),
        *histograms.columns(lambda each: each.reading["switches"]["wakeup_ns"], f"{latency}, median"),
    ]


def wakeups(
    title: str, found: Iterable[Traced], name: Callable[[Traced], str] = lambda each: each.name
) -> Figure | None:
    """Draw how long woken threads wait until they run, a line for each point that has any."""
    woken = [each for each in found if (each.reading.get("switches") or {}).get("wakeups")]
    rows = {name(each): each.reading["switches"]["wakeup_ns"] for each in woken}
    kept = {name: row for name, row in rows.items() if sum(count for *_, count in row)}
    note = effect_note(woken)
    return histograms.figure(title, "from woken to running [ns]", kept, note) if kept else None


def losses(found: Iterable[Traced]) -> list[str]:
    """Say what the tracers lost while attached, each loss once: an attachment may serve many points."""
    lost_at: dict[str, list[str]] = {}
    for each in found:
        lost = Losses.from_object(each.reading.get("losses", {}))
        if lost.any:
            lost_at.setdefault(lost.describe(), []).append(each.name)
    rows = [
        f"{what} ({names[0] if len(names) == 1 else f'in all, while {len(names)} points were traced'})"
        for what, names in lost_at.items()
    ]
    text = f"Lost while the tracer was attached, so that counts here are lower bounds: {'; '.join(rows)}."
    return [text] if rows else []


def missing_traces(experiment: ExperimentResults | None, name: str, found: Sequence[Traced]) -> str:
    """Say why there are no traces, or not at every point, and how to fix it; empty if nothing is missing."""
    if experiment is None:
        return "" if found else f"{NOT_RUN.format(name, name)}."
    why = reasons(experiment)
    if found or why:
        return why
    how = f"oscope run {name} --trace syscalls,sched,faults"
    return f"{name} has no traces: `{how}` takes them, as root and with bpftrace."
