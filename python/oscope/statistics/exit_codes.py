"""Notes on programs that failed: what a failed run takes is no measure of their work."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oscope.model.formatting import format_count
from oscope.model.samples import ExperimentResults, PointSamples

METRIC = "exit_code"
"""Of command.run: 128 and the signal's number where one ended the program."""
MOST_NAMED = 3


def failed_runs(point: PointSamples, name: str) -> str | None:
    """Say how many runs of a program, called `name`, failed, and how; None where none did."""
    codes = point.metrics[METRIC] if METRIC in point.metrics else np.zeros(0)
    codes = codes[np.isfinite(codes)]
    failed = codes[codes != 0]
    if not len(failed):
        return None
    each = [f"{code:.0f}" for code in np.unique(failed)]
    what = "exit code" if len(each) == 1 else "exit codes"
    named = f"{', '.join(each[:-1])} and {each[-1]}" if len(each) > 1 else each[0]
    share = (
        f"{format_count(len(failed))} of {format_count(len(codes))} {'run' if len(codes) == 1 else 'runs'}"
    )
    return f"{share} of {name} ended with {what} {named}"


def caveats(sides: Mapping[str, ExperimentResults]) -> list[str]:
    """Return a caveat for each side, given under its name, of whose programs some runs failed."""
    found = []
    for side, results in sides.items():
        named = ((point, str(point.factors.get("command", "the program"))) for point in results.points)
        sentences = [text for point, name in named if (text := failed_runs(point, name))]
        more = f" (and {len(sentences) - MOST_NAMED} more programs)" if len(sentences) > MOST_NAMED else ""
        if sentences:
            found.append(f"{side}: {'; '.join(sentences[:MOST_NAMED])}{more}: no measure of what they do")
    return found
