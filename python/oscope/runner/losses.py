"""What becomes of a point whose turn failed or whose probe died: it is tried in other blocks, or skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oscope.model.errors import OscopeError, ProbeError, SilentProgramError, UsageError
from oscope.probe.wire import Refusal
from oscope.runner.point_state import PointState
from oscope.runner.run_events import Events, RecordedEvent, RunEvent

_MOST_DEATHS = 2
_MOST_FAILURES = 2


def refuse(point: PointState, block: int, refusal: Refusal) -> Events:
    """Skip or fail a point of which the probe refused a request; UsageError where the request is at fault."""
    if refusal.kind == "request":
        blamed = point.experiment.workload.parameter(refusal.field or "")
        final = blamed is None or blamed.type != "path"
        reason = f"{point.label}: {refusal.message}"
        yield RecordedEvent("refused", {"reason": reason, "remedy": refusal.remedy, "final": final})
        raise UsageError(reason, remedy=refusal.remedy)
    if refusal.kind == "unavailable":
        yield skip(point, refusal.message, refusal.remedy)
        return
    yield from fail(point, block, refusal)


def fail(point: PointState, block: int, why: Refusal | OscopeError) -> Events:
    """Give up a point's turn, and the point if it fails again and again."""
    text = f"{why.message}: {why.remedy}" if why.remedy else why.message
    failures = point.failures + 1
    yield _close_block(point, block, "failure", text)
    if failures >= _MOST_FAILURES:
        yield skip(point, f"it failed {failures} times, last: {why.message}", why.remedy)


def lose(point: PointState, block: int, error: ProbeError) -> Events:
    """Close the block of a point over which the probe died; another process measures the other points.

    A program of the user's own that hangs is not tried again: that would take its patience once more.
    """
    if isinstance(error, SilentProgramError):
        yield RecordedEvent("death", {"block": block, "text": str(error)}, point)
        what = error.message.partition("; ")[0]
        yield replace(skip(point, error.message, error.remedy, shown=what), failure=True)
        return
    deaths = point.deaths + 1
    yield _close_block(point, block, "death", str(error))
    if deaths >= _MOST_DEATHS:
        # Of a guest, the error names the file that has all that its console said.
        alone = f"`oscope-probe run` with {point.experiment.workload.name} alone shows what it says"
        remedy = alone if point.experiment.guest is None else "see what its console said"
        if point.experiment.program is not None:
            often = f"its program was lost over it {deaths} times"
            # Whoever follows the run has just read the error.
            yield skip(point, f"{often}, last: {error.message}", error.remedy, shown=often)
            return
        yield skip(point, f"{deaths} probes were lost over it, last: {error}", remedy)


def skip(point: PointState, reason: str, remedy: str | None, shown: str | None = None) -> RecordedEvent:
    """Measure nothing more of a point; `shown` is the reason for whoever follows the run."""
    text = f"{point.label} is skipped: {shown or reason}"
    return RecordedEvent("skipped", {"reason": reason, "remedy": remedy}, point, text)


def skip_all(points: Sequence[PointState], reason: str, remedy: str | None) -> Events:
    """Measure nothing more of these points."""
    for point in points:
        if not point.skipped:
            yield skip(point, reason, remedy)


def _close_block(point: PointState, block: int, kind: str, text: str) -> RunEvent:
    """Give up the block's missing samples: tried again later, they would be out of the block's order."""
    return RecordedEvent(kind, {"block": block, "text": text}, point, f"{point.label}: {text}", failure=True)
