"""Makes the inspections of a run, in sequence."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

from oscope.model.errors import OscopeError
from oscope.model.experiment import Inspection
from oscope.model.interruption import Interruption, raise_interrupt
from oscope.planning.plan import Plan
from oscope.runner.run_events import Events, InspectionBegan, RecordedEvent, note
from oscope.runner.stop_request import StopRequest
from oscope.runner.stopping import Budget


def inspect_all(
    plan: Plan, made: Collection[str], stop: StopRequest, budget: Budget, find: Callable[[str], Inspection]
) -> Events:
    """Make those inspections of `plan` that are not `made` yet; none is begun after the budget ran out.

    `find` returns an inspection by its name. One that cannot be made is skipped with its remedy. A Ctrl-C
    ends the one under way, of which nothing is kept, and the run.
    """
    for name in plan.inspections:
        if name in made:
            continue
        if stop.asked:
            return
        if budget.spent:
            yield note(f"{name}: the budget ran out before its turn")
            continue
        yield InspectionBegan(name)
        try:
            with Interruption(raise_interrupt):
                found = _inspect(name, plan, find)
        except KeyboardInterrupt:
            stop.interrupt()
            return
        yield RecordedEvent("inspection", found)


def _inspect(name: str, plan: Plan, find: Callable[[str], Inspection]) -> dict[str, Any]:
    """Return an inspection as the store has it."""
    about: dict[str, Any] = {
        "inspection": name,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        inspection = find(name)
        about |= {"title": inspection.title, "question": inspection.question}
        return about | {"result": inspection.inspect(plan.profile)}
    except OscopeError as error:
        return about | {"skipped": {"reason": error.message, "remedy": error.remedy}}
