"""The runs taken where none is named: the last two that may be compared; the last experiment."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable

from oscope import labs
from oscope.cli.errors import note
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment
from oscope.model.samples import ExperimentResults
from oscope.statistics.pairing import Match, match_points, refuse_unlike
from oscope.storage.store import Store

MOST_TRIED = 20
"""Runs that are looked at, the newest first: reading one of a large store takes a moment."""
_REMEDY = "measure one experiment twice, or name two runs (oscope runs)"


def last_two(place: str | None, allow: Iterable[str] = ()) -> tuple[str, str]:
    """Return the ids of the newest run and of the newest one before it that it may be compared with.

    They share an experiment with samples of a point in common, its version and clock, and machine and kernel
    unless `allow` says otherwise. A run that has not ended is left out: it may still be measured, and half of
    it is no answer. So is a run with injected interference: it is no clean measurement.
    Says on standard error which they are. UsageError where the store has no two such runs, with the reason
    for the newest two that share an experiment.
    """
    first: UsageError | None = None
    with Store.read(place) as store:
        ended = [entry for entry in store.runs() if entry.samples and entry.has_ended]
        entries = [entry for entry in ended if not entry.has_injection][-MOST_TRIED:]

        @functools.cache
        def sampled(run_id: str, name: str) -> ExperimentResults | None:
            found = store.results(run_id, experiment=name, columns="metrics").get(name)
            return found if found is not None and found.has_samples else None

        for later in range(len(entries) - 1, 0, -1):
            for earlier in range(later - 1, -1, -1):
                a, b = entries[earlier], entries[later]
                if not (names := [name for name in b.experiments if name in a.experiments]):
                    continue
                try:
                    sides = ((sampled(a.id, name), sampled(b.id, name)) for name in names)
                    pairs = [(one, other) for one, other in sides if one is not None and other is not None]
                    _check_comparable((a.id, b.id), pairs, frozenset(allow))
                except UsageError as error:
                    first = first or error
                    continue
                note(f"the last two comparable runs: A is {a.id}, B is {b.id}")
                return a.id, b.id
    raise UsageError(
        f"the store has no two runs that may be compared{f': {first.message}' if first else ''}",
        remedy=(first and first.remedy) or _REMEDY,
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


def _check_comparable(
    ids: tuple[str, str],
    pairs: Iterable[tuple[ExperimentResults, ExperimentResults]],
    allow: frozenset[str],
) -> None:
    """Raise UsageError where the comparison of two runs would be refused; `pairs` are what both measured."""
    matches: list[Match] = []
    for a, b in pairs:
        refuse_unlike(a, b, allow)
        matches += match_points(a, b)[0]
    if not any(len(match.a) and len(match.b) for match in matches):
        raise UsageError(f"runs {ids[0]} and {ids[1]} have no samples of a point in common", remedy=_REMEDY)
