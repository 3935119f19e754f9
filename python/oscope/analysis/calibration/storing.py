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
from oscope.runner.events import Happened
from oscope.runner.execution import begin, finish, make_runner, recording_failure
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
    runner = make_runner(Placement(), find_probe())
    try:
        with begin(plan, store, runner, Silence()) as run:
            # The pairs have probes of their own.
            runner.chain.end()
            with recording_failure(run):
                result = calibrate(wanted, listener, keep, find=find)
            about = {"title": inspection.title, "question": inspection.question, "started": started}
            run.store([Happened("inspection", {"inspection": INSPECTION, **about, "result": result})])
            brief = in_brief(result, run.recorder.run_id)
            run.append(Happened("calibration", {"machine": runner.chain.environment["machine"], **brief}))
            return finish(run).run_id
    finally:
        runner.kill()
