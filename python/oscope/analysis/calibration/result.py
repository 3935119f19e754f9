"""A whole calibration as a JSON object, `oscope.calibration/1`, and the short form that runs carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oscope.analysis.calibration import certificate, trials
from oscope.analysis.calibration.pair_measurement import measure
from oscope.analysis.calibration.spec import CalibrationSpec
from oscope.analysis.calibration.trials import SCHEMA, Trial

if TYPE_CHECKING:
    from oscope.analysis.calibration.pair_measurement import Listener
    from oscope.model.experiment import Experiment
    from oscope.model.factors import Profile

INSPECTION = "trust.calibration"
"""The inspection by whose name the store has it."""


class NullListener:
    """A listener that ignores everything."""

    def trial(self, done: int, total: int, name: str) -> None:
        """Ignore it."""


def inspect(profile: Profile, *, find: Callable[[str], Experiment]) -> dict[str, Any]:
    """Calibrate this machine as the inspection does: with few pairs in the quick profile; see `calibrate`."""
    quick = CalibrationSpec(pairs=1, effects=(0.05,), blocks=5, reps=5)
    spec = quick if profile == "quick" else CalibrationSpec(pairs=10, effects=(0.02,))
    return calibrate(spec, find=find)


def calibrate(
    spec: CalibrationSpec,
    listener: Listener | None = None,
    keep: Path | None = None,
    *,
    find: Callable[[str], Experiment],
) -> dict[str, Any]:
    """Measure and judge all pairs of `spec`; return `{"schema", "wanted", "interrupted", "trials"}`.

    `find` returns an experiment by its name. After a signal it returns the pairs judged up to then; where
    there is none yet KeyboardInterrupt is raised. OscopeError where a pair cannot be measured.
    """
    found: list[Trial] = []
    interrupted = False
    try:
        found.extend(measure(spec, listener or NullListener(), keep, find=find))
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    return {
        "schema": SCHEMA,
        "wanted": spec.to_object(),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "interrupted": interrupted,
        "trials": trials.to_object(found),
    }


def in_brief(result: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """Return what the runs that come after a calibration carry of it: its date and its rates.

    A rate is `{"count", "of"}`; `found` has one for each effect, a list of `{"effect", "count", "of"}`;
    `certificate` has a member for each class of work (`oscope.analysis.calibration.certificate`).
    """
    own = trials.from_object(result["trials"])
    alarms, held = trials.false_alarms(own), trials.coverage(own)
    return {
        "run": run_id,
        "ended": result["ended"],
        "load": result["wanted"]["load"],
        "false_alarms": {"count": alarms.count, "of": alarms.of},
        "coverage": {"count": held.count, "of": held.of},
        "found": [
            {"effect": effect, "count": rate.count, "of": rate.of}
            for effect in trials.effects(own)
            for rate in [trials.found(own, effect)]
        ],
        "certificate": certificate.to_object(certificate.entries(own)),
    }
