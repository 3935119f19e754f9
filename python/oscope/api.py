"""The Python interface behind `oscope.run` and `oscope.load`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oscope import labs, report
from oscope.analysis.earlier_runs import earlier_runs
from oscope.model.clocks import Clock
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment, Inspection
from oscope.model.factors import Level, Profile
from oscope.model.samples import ExperimentResults, Results
from oscope.model.units import parse_bytes, parse_duration, parse_share
from oscope.planning.plan import Amount, make_plan
from oscope.probe import catalogue
from oscope.runner import recovery
from oscope.runner.execution import execute
from oscope.statistics import compare_results
from oscope.storage.record import to_json
from oscope.storage.store import Store
from oscope.targets.guest.spec import Where
from oscope.targets.guest.spec import place as place_experiments
from oscope.trace.factor import parse_kinds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from oscope.statistics import Comparison


@dataclass(frozen=True)
class Request:
    """How much a call of `oscope.run` asks for."""

    profile: Profile
    reps: int | None
    precision: float | str | None
    budget: float | str | None
    seed: int | None
    trace: Sequence[str] = ()
    on: str | None = None
    clock: Clock | None = None
    cpus: int | None = None
    memory: int | str | None = None
    again: bool = True
    spread: float | str | None = None

    def where(self) -> Where:
        """Return where it is to be measured, with texts converted."""
        memory = parse_bytes(self.memory) if isinstance(self.memory, str) else self.memory
        return Where(self.on, self.clock, self.cpus, memory)

    def amount(self) -> Amount:
        """Return it with texts converted."""
        precision = parse_share(self.precision) if isinstance(self.precision, str) else self.precision
        budget, spread = (
            parse_duration(time) if isinstance(time, str) else time for time in (self.budget, self.spread)
        )
        return Amount(self.reps, precision, budget, spread)


class Run:
    """A run that was measured: its results, and what can be made of them."""

    def __init__(self, run_id: str, results: Results, place: str | Path | None = None) -> None:
        self.id = run_id
        self.results = results
        self._place = place

    def __repr__(self) -> str:
        """Name the run, its experiments and inspections, and how many samples it has."""
        names = ", ".join(self.results.names)
        count = sum(len(p) for e in self.results.experiments for p in e.points)
        return f"<Run {self.id}: {names}, {count} samples>"

    def frame(self) -> pd.DataFrame:
        """Return a row per sample (see `oscope.storage.frames.to_frame`)."""
        from oscope.storage.frames import to_frame  # noqa: PLC0415 - pandas or matplotlib, half a second

        return to_frame(self.results)

    def summary(self) -> pd.DataFrame:
        """Return a row per point and metric (see `oscope.storage.frames.summary_frame`)."""
        from oscope.storage.frames import summary_frame  # noqa: PLC0415 - pandas or matplotlib, half a second

        return summary_frame(self.results)

    def record(self) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the record as plain values (see `oscope.storage.record`); a list for several parts."""
        record: dict[str, Any] | list[dict[str, Any]] = json.loads(to_json(self.results))
        return record

    def compare(self, other: Run, *, experiment: str | None = None, allow: Iterable[str] = ()) -> Comparison:
        """Compare an experiment of this run (before) with the same one of `other` (after).

        `experiment` may be left out where the runs share just one. `allow` may hold "machine" and "kernel",
        which else must be the same. The store of this run shows how much runs of it differ on this machine.
        Raises UsageError where they cannot be compared.
        """
        mine = {e.experiment: e for e in self.results.experiments}
        theirs = {e.experiment: e for e in other.results.experiments}
        name = _shared(mine, theirs, experiment)
        known = earlier_runs(self._place, mine[name])
        return compare_results(mine[name], theirs[name], allow=allow, earlier=known)

    def plot(self, *, experiment: str | None = None) -> Figure:
        """Return a matplotlib figure of the headline metric: samples, median and interval of each point."""
        from oscope.report.plot import plot_headline  # noqa: PLC0415 - pandas or matplotlib, half a second

        mine = {e.experiment: e for e in self.results.experiments}
        return plot_headline(mine[_shared(mine, mine, experiment)])

    def report(self, path: str | Path) -> Path:
        """Write the HTML report to `path` and return it."""
        return report.write(self.results, path, labs.LABS)


def _shared(
    mine: Mapping[str, ExperimentResults], theirs: Mapping[str, ExperimentResults], wanted: str | None
) -> str:
    shared = [name for name in mine if name in theirs]
    if wanted is not None and wanted not in shared:
        raise UsageError(
            f"{wanted!r} is not in both runs", remedy=f"shared is {', '.join(shared) or 'nothing'}"
        )
    if wanted is None and len(shared) != 1:
        raise UsageError(
            f"the runs share {len(shared)} experiments", remedy=f"name one of {', '.join(shared) or 'none'}"
        )
    return wanted or shared[0]


def measure(
    name: str, request: Request, place: str | Path | None, factors: Mapping[str, Level | Sequence[Level]]
) -> Run:
    """Do what `oscope.run` says."""
    recovery.restore_once(_tell)
    settings = {
        factor: [levels] if isinstance(levels, str | int | float | bool) else list(levels)
        for factor, levels in factors.items()
    }
    experiments, inspections = _parts(name)
    placed = place_experiments(experiments, (name,), request.where(), request.profile)
    for text in placed.left_out:
        _tell(text)
    plan = make_plan(
        placed.experiments,
        catalogue.load(),
        profile=request.profile,
        settings=settings,
        amount=request.amount(),
        trace=parse_kinds(request.trace) if request.trace else None,
        seed=request.seed,
        guests=placed.guests,
        inspections=inspections,
    )
    with Store.open(place) as store:
        outcome = execute(replace(plan, again=request.again), store, find_inspection=labs.inspection)
        return Run(outcome.run_id, store.results(outcome.run_id), place)


def _tell(text: str) -> None:
    print(f"oscope: {text}", file=sys.stderr, flush=True)


def load_run(run_id: str, place: str | Path | None) -> Run:
    """Do what `oscope.load` says."""
    with Store.read(place) as store:
        found = store.resolve(run_id)
        return Run(found, store.results(found), place)


def _parts(name: str) -> tuple[tuple[Experiment, ...], tuple[Inspection, ...]]:
    if any(lab.name == name for lab in labs.LABS):
        lab = labs.lab(name)
        return lab.experiments, lab.inspections
    found = labs.named(name)
    return ((found,), ()) if isinstance(found, Experiment) else ((), (found,))
