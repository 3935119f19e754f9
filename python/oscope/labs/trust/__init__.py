"""The lab of the instrument itself: how often its verdicts are wrong on this machine. No samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.labs.late import late
from oscope.model.experiment import Inspection, Lab
from oscope.model.factors import Profile


# Imported late, both: a list of names needs none.
def _calibrate(profile: Profile) -> Mapping[str, Any]:
    from oscope import labs  # noqa: PLC0415 - a list of names needs none of it
    from oscope.analysis.calibration.result import calibrate  # noqa: PLC0415 - a list of names needs none of it
    from oscope.analysis.calibration.spec import CalibrationSpec  # noqa: PLC0415 - a list of names needs none of it

    quick = CalibrationSpec(pairs=1, effects=(0.05,), blocks=5, reps=5)
    wanted = quick if profile == "quick" else CalibrationSpec(pairs=10, effects=(0.02,))
    return calibrate(wanted, find=labs.experiment)


CALIBRATION = Inspection(
    name="trust.calibration",
    title="How often verdicts are wrong here",
    question="How often are equal measurements found to differ, and how often is a true difference found?",
    inspect=_calibrate,
    quick=False,
    quick_share="not in it: hundreds of runs, some minutes; oscope calibrate says how many and shows how far",
)


LAB = Lab(
    name="trust",
    title="Trust",
    document="no laboratory report: they guess why their numbers vary, and none says how often it is wrong",
    experiments=(),
    inspections=(CALIBRATION,),
    sections=late("trust", "answers"),
)
