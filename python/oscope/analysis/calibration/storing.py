"""A calibration as a run in the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from oscope.analysis.calibration.result import INSPECTION, calibrate, in_brief
from oscope.analysis.calibration.running import Listener
from oscope.analysis.calibration.spec import CalibrationSpec
from oscope.model.experiment import Experiment, Inspection
from oscope.planning.plan import Plan
from oscope.probe.locate import find_probe
from oscope.runner.execution import begin, finish, make_turns, recording_failure
from oscope.runner.progress import Silence
from oscope.storage.store import Store
from oscope.targets.affinity import Placement


def calibrate_and_store(
    wanted: CalibrationSpec,
    store: Store,
    listener: Listener,
    keep: Path | None = None,
    *,
    find: Callable[[str], Experiment],
    inspection: Inspection,
) -> str:
    """Calibrate, and store the result as the one inspection of a new run, whose id is returned.

    `find` returns an experiment by its name; `inspection` is that of which it is the result.

    Raises what `calibrate` raises; nothing is stored of it then but that it was tried.
    """
    plan = Plan(wanted.seed, "full", "local", None, None, (), inspections=(INSPECTION,))
    started = datetime.now(UTC).isoformat(timespec="seconds")
    turns = make_turns(Placement(), find_probe())
    try:
        begin(plan, store, turns, Silence())
        # The pairs have probes of their own.
        turns.end_process()
        with recording_failure(turns):
            result = calibrate(wanted, listener, keep, find=find)
        told = {"title": inspection.title, "question": inspection.question, "started": started}
        turns.recorder.add_inspection({"inspection": INSPECTION, **told, "result": result})
        brief = in_brief(result, turns.recorder.run_id)
        turns.recorder.add_event("calibration", {"machine": turns.environment["machine"], **brief})
        return finish(turns).run_id
    finally:
        turns.kill()
