"""A calibration as a run in the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from oscope.analysis.calibration.pair_measurement import Listener
from oscope.analysis.calibration.result import INSPECTION, calibrate, in_brief
from oscope.analysis.calibration.spec import CalibrationSpec
from oscope.model.experiment import Experiment, Inspection
from oscope.planning.plan import Plan
from oscope.probe.locate import find_probe
from oscope.runner.execution import begin, finish, recording_end
from oscope.runner.process_chain import ProcessChain
from oscope.runner.progress import NullListener
from oscope.runner.run_events import RecordedEvent
from oscope.storage.store import Store
from oscope.targets.affinity import Affinity


def calibrate_and_store(
    spec: CalibrationSpec,
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
    plan = Plan(spec.seed, "full", "local", None, None, (), inspections=(INSPECTION,))
    started = datetime.now(UTC).isoformat(timespec="seconds")
    chain = ProcessChain(find_probe(), Affinity())
    try:
        with begin(plan, store, chain, NullListener()) as active:
            # The pairs have probes of their own.
            chain.end()
            with recording_end(active):
                result = calibrate(spec, listener, keep, find=find)
            about = {"title": inspection.title, "question": inspection.question, "started": started}
            active.append(RecordedEvent("inspection", {"inspection": INSPECTION, **about, "result": result}))
            brief = in_brief(result, active.recorder.run_id)
            active.append(RecordedEvent("calibration", {"machine": chain.environment["machine"], **brief}))
            return finish(active, chain).run_id
    finally:
        chain.kill()
