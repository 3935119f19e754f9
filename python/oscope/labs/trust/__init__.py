"""The lab of the instrument itself: how often its verdicts are wrong on this machine. No samples."""

from __future__ import annotations

from oscope.labs.late import late_inspected, late_inspection
from oscope.model.experiment import Inspection, Lab

CALIBRATION = Inspection(
    name="trust.calibration",
    title="How often verdicts are wrong here",
    question="How often are equal measurements found to differ, and how often is a true difference found?",
    inspect=late_inspection("labs.trust.answers", "calibrate"),
    quick=False,
    quick_share="not in it: hundreds of runs, some minutes; oscope calibrate says how many and shows how far",
)


LAB = Lab(
    name="trust",
    title="Trust",
    document="no laboratory report: they guess why their numbers vary, and none says how often it is wrong",
    experiments=(),
    inspections=(CALIBRATION,),
    sections=late_inspected("trust", calibration="answers"),
)
