"""Makes the inspections of a run, in sequence, and stores what each gave at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from oscope.model.errors import OscopeError
from oscope.model.experiment import Inspection
from oscope.model.interruption import Interruption, raise_interrupt
from oscope.planning.plan import Plan
from oscope.runner.active_run import ActiveRun
from oscope.runner.events import Happened


def inspect_all(plan: Plan, run: ActiveRun, end: float | None, find: Callable[[str], Inspection]) -> None:
    """Make those inspections of `plan` that the run does not have yet; none is begun after `end` (monotonic).

    `find` returns an inspection by its name. One that cannot be made is stored as skipped with its remedy. A
    Ctrl-C ends the one under way, which is then not stored, and interrupts the run.
    """
    for name in plan.inspections:
        if name in run.state.inspected:
            continue
        if run.runner.interrupted:
            return
        if end is not None and time.monotonic() >= end:
            run.note(f"{name}: the budget ran out before its turn")
            continue
        run.listener.inspecting(name)
        try:
            with Interruption(raise_interrupt):
                found = _inspect(name, plan, find)
        except KeyboardInterrupt:
            run.runner.interrupt()
            return
        run.store([Happened("inspection", found)])


def _inspect(name: str, plan: Plan, find: Callable[[str], Inspection]) -> dict[str, Any]:
    """Return an inspection as the store has it."""
    told: dict[str, Any] = {
        "inspection": name,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        inspection = find(name)
        told |= {"title": inspection.title, "question": inspection.question}
        return told | {"result": inspection.inspect(plan.profile)}
    except OscopeError as error:
        return told | {"skipped": {"reason": error.message, "remedy": error.remedy}}
