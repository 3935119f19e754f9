"""The runs in a store that show how much runs of an experiment differ though nothing was changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oscope.model.errors import StoreError
from oscope.model.samples import ExperimentResults
from oscope.statistics.between_runs import NEWEST
from oscope.statistics.earlier import digests_of, unchanged
from oscope.storage.store import Store

MOST_READ = 10 * NEWEST
"""Runs that are read at most to find them: of many, such as of another kernel, none may be comparable."""


def earlier_runs(
    place: str | Path | None, a: ExperimentResults, b: ExperimentResults
) -> list[ExperimentResults]:
    """Return the newest runs that may be compared with `a`, the oldest first; none where there is no store.

    Neither `a` nor `b`, which is compared with it, is among them (see `unchanged`).
    """
    try:
        with Store.read(place) as store:
            return earlier_runs_in(store, a, b)
    except StoreError:
        # A record file is compared wherever it lies; without a store the two runs speak for themselves.
        return []


def earlier_runs_in(store: Store, a: ExperimentResults, b: ExperimentResults) -> list[ExperimentResults]:
    """Return what `earlier_runs` does, from an open store.

    Of a bench these are the newest runs of each program or function of `a`: runs of changed ones say nothing
    of it, however many there are. The plans tell them apart, so that their samples are not read.
    """
    name = a.experiment
    # Without a digest all runs measure the same.
    missing = dict.fromkeys(digests_of(a).values() or (None,), NEWEST)
    found: list[ExperimentResults] = []

    def candidates() -> Iterator[ExperimentResults]:
        read = 0
        for entry in reversed(store.runs()):
            usable = name in entry.experiments and entry.samples and not entry.has_injection
            if not usable or entry.id in (a.run_id, b.run_id):
                continue
            digests = entry.digests.get(name) or (None,)
            if read < MOST_READ and any(missing.get(each, 0) > 0 for each in digests):
                read += 1
                yield from store.results(entry.id, experiment=name, columns="metrics").experiments

    for run in unchanged(a, b, candidates()):
        found.append(run)
        for digest in missing.keys() & set(digests_of(run).values() or (None,)):
            missing[digest] -= 1
    return found[::-1]
