"""Sentences of the labs that must not say more than the results do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import synthetic_ipc
import synthetic_memory
from oscope.model.samples import PointSamples
from synthetic_disk import changed
from test_ipc_lab import SIZES
from test_ipc_lab_traced import retraced

# ---- a median of 0 is not none


def test_blocks_of_some_repetitions_are_not_none() -> None:
    def once(point: PointSamples) -> dict[str, np.ndarray]:
        return {"oublock": 32832 * np.eye(1, len(point), 2)[0]}

    made = changed(synthetic_memory.mapping(dirtied=0.0), once, mapping="shared")
    answer = synthetic_memory.sections(made)["Mapping a file"].answer
    assert answer == "With shared memory the median is no block to write; the maximum is 32\u202f832."
    none = synthetic_memory.sections(synthetic_memory.mapping(dirtied=0.0))["Mapping a file"].answer
    assert none == "With shared memory the function has no block to write."


def test_short_reads_of_some_repetitions_are_not_none() -> None:
    def none(point: PointSamples) -> dict[str, np.ndarray]:
        return {"short_reads": np.zeros(len(point)), "reads": np.full(len(point), 10.0)}

    def some(point: PointSamples) -> dict[str, np.ndarray]:
        return {"short_reads": np.where(np.arange(len(point)) < 2, 5.0, 0.0)}

    made = changed(synthetic_ipc.throughput(), none)
    assert synthetic_ipc.sections(made)[SIZES].answer == "By the workload's own counts, no read is short."
    answer = synthetic_ipc.sections(changed(made, some, channel="pipe"))[SIZES].answer
    assert "the median of short reads is 0 at every point; the maximum is 50 % of the reads, at " in answer


def test_points_without_reads_are_not_counted_as_without_short_ones() -> None:
    def unknown(point: PointSamples) -> dict[str, np.ndarray]:
        return {"short_reads": np.full(len(point), np.nan)}

    assert not synthetic_ipc.sections(changed(synthetic_ipc.throughput(), unknown))[SIZES].answer


# ---- calls


def test_calls_that_were_refused_did_not_move_what_they_were_asked_to() -> None:
    def refused(reading: dict[str, Any], errors: int = 40) -> dict[str, Any]:
        call = {"count": 100, "errors": {"EAGAIN": errors} if errors else {}, "time_ns": 1000}
        call |= {
            "asked": 409_600,
            "returned": 4096 * (100 - errors),
            "short": 0,
            "sizes": [[4096, 100 - errors]],
        }
        return {**reading, "calls": {"read": call}}

    answer = synthetic_ipc.sections(retraced(synthetic_ipc.trace(), refused))[SIZES].answer
    assert re.fullmatch(r"No successful call was short; .* of .* calls returned an error\.", answer)
    all_done = retraced(synthetic_ipc.trace(), lambda reading: refused(reading, 0))
    assert synthetic_ipc.sections(all_done)[SIZES].answer == "Every call moves what it was asked to."
