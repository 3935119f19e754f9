"""Why a point of a run has no samples, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.planning.plan import Plan
from oscope.storage.fleets import FLEET, GIVEN_UP


def why_unmeasured(plan: Plan, run_id: str, events: Mapping[str, list[Any]]) -> dict[str, str | None]:
    """Say why a point has no samples although nothing forbade it."""
    status = events["status"][-1]
    refused = events["refused"][-1] if status == "failed" and events.get("refused") else None
    given_up = [text for text in events.get("note", ()) if text.startswith(GIVEN_UP)]
    when = "the budget ran out" if status == "done" else "the run ended"
    reason = given_up[-1] if status == "failed" and given_up else f"{when} before its turn"
    if refused is not None:
        reason = f"the run ended: {refused['reason']}"
        if refused["final"]:
            return {"reason": reason, "remedy": refused["remedy"]}
    can_resume = "interleaved" not in events and plan.build is None
    what = f"fleet run --resume {events[FLEET][-1]['fleet']}" if FLEET in events else f"run --resume {run_id}"
    remedy = f"oscope {what}" if can_resume else "begin the comparison anew"
    return {"reason": reason, "remedy": remedy}
