"""The lab of the instrument itself: how often its verdicts are wrong on this machine. No samples."""

from __future__ import annotations

from collections.abc import Callable

from oscope.figures.lazy_answers import lazy_inspected, lazy_inspection
from oscope.model.experiment import Experiment, Inspection, Lab


def lab(find: Callable[[str], Experiment]) -> Lab:
    """Return the lab; `find` returns one of the experiments that it judges by its name."""
    calibration = Inspection(
        name="trust.calibration",
        title="How often verdicts are wrong here",
        question="How often are equal measurements found to differ, and how often is a difference found?",
        inspect=lazy_inspection("analysis.calibration.result", "inspect", find=find),
        quick=False,
        quick_share="not in it: hundreds of runs, some minutes; oscope calibrate shows how far it is",
    )
    return Lab(
        name="trust",
        title="Trust",
        document="no laboratory report: they guess why their numbers vary, none says how often it is wrong",
        experiments=(),
        inspections=(calibration,),
        sections=lazy_inspected(__name__, calibration="answers"),
    )
