"""A calibration as a run in the store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from oscope import labs
from oscope.calibration.result import INSPECTION, calibrate, in_brief
from oscope.calibration.running import Listener
from oscope.calibration.wanted import Wanted
from oscope.execution import begin, failing_told, finish, make_turns
from oscope.locate import find_probe
from oscope.placement import Placement
from oscope.plan import Plan
from oscope.progress import Silence
from oscope.store import Store


def calibrate_and_store(wanted: Wanted, store: Store, listener: Listener, keep: Path | None = None) -> str:
    """Calibrate, and store the result as the one inspection of a new run, whose id is returned.

    Raises what `calibrate` raises; nothing is stored of it then but that it was tried.
    """
    inspection = labs.inspection(INSPECTION)
    plan = Plan(wanted.seed, "full", "local", None, None, (), inspections=(INSPECTION,))
    started = datetime.now(UTC).isoformat(timespec="seconds")
    turns = make_turns(Placement(), find_probe())
    try:
        begin(plan, store, turns, Silence())
        # The pairs have probes of their own.
        turns.end_process()
        with failing_told(turns):
            result = calibrate(wanted, listener, keep)
        told = {"title": inspection.title, "question": inspection.question, "started": started}
        turns.recorder.add_inspection({"inspection": INSPECTION, **told, "result": result})
        brief = in_brief(result, turns.recorder.run_id)
        turns.recorder.add_event("calibration", {"machine": turns.environment["machine"], **brief})
        return finish(turns).run_id
    finally:
        turns.kill()
