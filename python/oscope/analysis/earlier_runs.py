"""The runs in a store that show how much runs of an experiment differ though nothing was changed."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from oscope.model.errors import StoreError
from oscope.model.samples import ExperimentResults
from oscope.statistics.between_runs import NEWEST
from oscope.statistics.earlier import unchanged
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
    """Return what `earlier_runs` does, from an open store."""
    name = a.experiment
    ids = [
        entry.id
        for entry in reversed(store.runs())
        if name in entry.experiments
        and entry.samples
        and not entry.has_injection
        and entry.id not in (a.run_id, b.run_id)
    ]
    read = (
        results
        for run_id in ids[:MOST_READ]
        for results in store.results(run_id, experiment=name, columns="metrics").experiments
    )
    return list(islice(unchanged(a, b, read), NEWEST))[::-1]
