"""The runs taken where none is named: the last two that may be compared; the last experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from oscope import labs
from oscope.cli.errors import note
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment
from oscope.statistics.pairing import refuse_unlike
from oscope.storage.store import RunEntry, Store

MOST_TRIED = 20
"""Runs that are looked at, the newest first: reading one of a large store takes a moment."""


def last_two(place: str | None, allow: Iterable[str] = ()) -> tuple[str, str]:
    """Return the ids of the newest run and of the newest one before it that it may be compared with.

    They share an experiment, its version and clock, and machine and kernel unless `allow` says otherwise. A
    run that has not ended is left out: it may still be measured, and half of it is no answer. So is a run
    with injected interference: it is no clean measurement.
    Says on standard error which they are. UsageError where the store has no two such runs.
    """
    with Store.read(place) as store:
        ended = [entry for entry in store.runs() if entry.samples and entry.has_ended]
        entries = [entry for entry in ended if not entry.has_injection][-MOST_TRIED:]
        for later in range(len(entries) - 1, 0, -1):
            for earlier in range(later - 1, -1, -1):
                a, b = entries[earlier], entries[later]
                if any(_is_alike(store, a, b, name, frozenset(allow)) for name in _shared(a, b)):
                    note(f"the last two comparable runs: A is {a.id}, B is {b.id}")
                    return a.id, b.id
    raise UsageError(
        "the store has no two runs that may be compared",
        remedy="measure one experiment twice, or name two runs (oscope runs)",
    )


def last_experiment(place: str | None) -> str:
    """Return the experiment of the newest run that has samples; of several, the one that most runs have.

    Says on standard error which it is. UsageError where the store has no samples.
    """
    with Store.read(place) as store:
        entries = [entry for entry in store.runs() if entry.samples]
    if not entries:
        raise UsageError("the store has no samples yet", remedy="measure with oscope run EXPERIMENT")
    counts = Counter(name for entry in entries for name in entry.experiments)
    # The user's own experiments and programs are in no lab.
    inspections = {part.name for lab in labs.LABS for part in lab.parts if not isinstance(part, Experiment)}
    own = [name for name in entries[-1].experiments if name not in inspections]
    chosen = max(own or entries[-1].experiments, key=lambda name: counts[name])
    note(f"the last experiment: {chosen}")
    return chosen


def _shared(a: RunEntry, b: RunEntry) -> list[str]:
    return [name for name in b.experiments if name in a.experiments]


def _is_alike(store: Store, a: RunEntry, b: RunEntry, name: str, allow: frozenset[str]) -> bool:
    """Say whether an experiment of two runs may be compared."""
    sides = [store.results(each.id, experiment=name, columns="metrics").get(name) for each in (a, b)]
    first, second = sides
    if first is None or second is None or not all(any(map(len, each.points)) for each in (first, second)):
        return False
    try:
        refuse_unlike(first, second, allow)
    except UsageError:
        return False
    return True
