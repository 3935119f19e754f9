"""The answer of a calibration: rates of error with their intervals, beside those of common habits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oscope import questions as q
from oscope.analysis.calibration import trials
from oscope.analysis.calibration.certificate import entries
from oscope.analysis.calibration.trials import Trial
from oscope.figures import error_rates, mde


def section(title: str, result: Mapping[str, Any]) -> q.Section:
    """Return the rates of one calibration, `oscope.calibration/1`."""
    found = trials.from_object(result["trials"])
    certified = entries(found)
    answer, *rates = error_rates.sentences(found)
    return q.Section(
        title=title,
        answer=answer,
        text=[*rates, _described(result, found)],
        tables=[
            *([mde.table(certified)] if certified else []),
            error_rates.by_subject(found),
            error_rates.by_method(found),
        ],
        figures=[*([mde.figure(certified)] if certified else []), error_rates.figure(found)],
    )


def _described(result: Mapping[str, Any], found: Sequence[Trial]) -> str:
    spec = result["wanted"]
    seconds = float(np.median([trial.seconds for trial in found])) if found else float("nan")
    text = (
        f"Each side has {spec['blocks']} blocks of {spec['reps']} samples, which took "
        f"{seconds:.2g} s. A known difference is a wait in the measured region of side B, so many ns for "
        "each iteration; equal sides are measured by the same code as any run."
    )
    if spec["load"] != "none":
        text += f" Meanwhile oscope inject caused interference by {spec['load']}, in phases."
    if result["interrupted"]:
        text += " It was interrupted, and covers the pairs up to then."
    return text
