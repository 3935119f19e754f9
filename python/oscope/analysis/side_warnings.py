"""What has to be known of each side of a comparison before its figures are believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from oscope.analysis.waiting import waiting_note
from oscope.model.samples import ExperimentResults
from oscope.planning import interference


def side_warnings(
    sides: Iterable[Sequence[ExperimentResults]],
    waiting: Callable[[ExperimentResults], str | None] = waiting_note,
) -> Iterator[str]:
    """Yield, with a side's runs, that its self-check failed, others took the CPU, or its commands waited.

    Each side has the experiments that were measured of it.
    """
    for side in sides:
        found = [interference.warning(side), *map(waiting, side)]
        if any(each.has_failed_self_check for each in side):
            found.insert(0, "do not trust its figures: the probe's self-check failed")
        runs = ", ".join(dict.fromkeys(each.run_id for each in side))
        yield from (f"run {runs}: {text}" for text in found if text is not None)
