"""The lab of the instrument itself: how often its verdicts are wrong on this machine. No samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oscope.experiment import Inspection, Lab, Profile

if TYPE_CHECKING:
    from oscope.report.document import Section
    from oscope.samples import Results


# Imported late, both: a list of names needs none.
def _calibrate(profile: Profile) -> Mapping[str, Any]:
    from oscope.calibration.result import calibrate
    from oscope.calibration.wanted import Wanted

    quick = Wanted(pairs=1, effects=(0.05,), blocks=5, reps=5)
    return calibrate(quick if profile == "quick" else Wanted(pairs=10, effects=(0.02,)))


CALIBRATION = Inspection(
    name="trust.calibration",
    title="How often verdicts are wrong here",
    question="How often are equal measurements told to differ, and how often is a true difference found?",
    inspect=_calibrate,
    quick=False,
    quick_share="not in it: hundreds of runs, some minutes; oscope calibrate says how many and shows how far",
)


def _sections(results: Results) -> list[Section]:
    """Draw the lab's answers from `results`; imported late, since reports are heavy."""
    from oscope.labs.trust.answers import sections

    return sections(results)


LAB = Lab(
    name="trust",
    title="Trust",
    document="no laboratory report: they guess why their numbers vary, and none says how often it is wrong",
    experiments=(),
    inspections=(CALIBRATION,),
    sections=_sections,
)
