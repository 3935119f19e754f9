"""The runs in a store that tell how much runs of an experiment differ though nothing was changed."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from oscope.model.errors import StoreError
from oscope.model.samples import ExperimentResults
from oscope.statistics.between_runs import NEWEST
from oscope.storage.store import Store


def earlier_runs(
    place: str | Path | None, like: ExperimentResults, other: ExperimentResults | None = None
) -> list[ExperimentResults]:
    """Return the newest runs of the experiment of `like`, the oldest first; none where there is no store.

    Runs with injected interference are left out. The comparison finds which of the others may be compared.
    `like` and `other`, which is compared with it, are not read again.
    """
    try:
        with Store.read(place) as store:
            return earlier_runs_in(store, like, other)
    except StoreError:
        # A record file is compared wherever it lies; without a store the two runs speak for themselves.
        return []


def earlier_runs_in(
    store: Store, like: ExperimentResults, other: ExperimentResults | None = None
) -> list[ExperimentResults]:
    """Return what `earlier_runs` does, from an open store."""
    there = {each.run_id: (each,) for each in (like, other) if each is not None}
    entries = [each for each in store.runs() if like.experiment in each.experiments and each.samples]
    undisturbed = (
        results
        for entry in reversed(entries)
        for results in there.get(entry.id) or _read(store, entry.id, like.experiment)
        if not results.settings.get("injection")
    )
    return list(islice(undisturbed, NEWEST))[::-1]


def _read(store: Store, run_id: str, experiment: str) -> tuple[ExperimentResults, ...]:
    return store.results(run_id, experiment=experiment, columns="metrics").experiments
