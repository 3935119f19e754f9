"""The Python interface: `oscope.run` and `oscope.load`, and what they return."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from oscope import labs, report
from oscope.analysis.earlier_runs import earlier_runs
from oscope.figures.analysed import Analysed
from oscope.figures.experiments import failures
from oscope.figures.tables import summary_table
from oscope.model.arguments import naming_arguments
from oscope.model.clocks import Clock
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment, Inspection
from oscope.model.factors import Level, Profile
from oscope.model.labs import Labs
from oscope.model.samples import ExperimentResults, Results
from oscope.model.units import parse_bytes, parse_duration, parse_share
from oscope.planning.plan import Amount, make_plan
from oscope.probe import catalogue
from oscope.probe.own_program import with_programs
from oscope.programs.export import rows
from oscope.programs.findings import Findings, find
from oscope.report.comparison import comparison_table
from oscope.report.forms import html
from oscope.report.plot import plot_headline
from oscope.runner import recovery
from oscope.runner.execution import execute
from oscope.statistics import Comparison, compare_results
from oscope.storage.named_results import read_named
from oscope.storage.record import to_json
from oscope.storage.store import RunEntry, Store
from oscope.targets.guest.spec import Where
from oscope.targets.guest.spec import place as place_experiments
from oscope.trace.factor import parse_kinds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


Value = TypeVar("Value")

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "name": ((str,), "the name of an experiment or lab, such as 'syscall.cost'"),
    "profile": ((str,), "'quick' or 'full'"),
    "reps": ((int, NoneType), "a whole number"),
    "warmup": ((int, NoneType), "a whole number"),
    "pin": ((int, NoneType), "the number of a CPU"),
    "timeout": ((int, float, str), "seconds, or a text such as '30s'"),
    "precision": ((int, float, str, NoneType), "a share, such as 0.02 or '2%'"),
    "budget": ((int, float, str, NoneType), "seconds, or a text such as '30s'"),
    "spread": ((int, float, str, NoneType), "seconds, or a text such as '10m'"),
    "seed": ((int, NoneType), "a whole number"),
    "on": ((str, NoneType), "'local', 'guest' or 'guest:KERNEL'"),
    "clock": ((str, NoneType), "'wall' or 'instructions'"),
    "cpus": ((int, NoneType), "a whole number"),
    "memory": ((int, str, NoneType), "bytes, or a text such as '1G'"),
    "again": ((bool,), "True or False"),
    "store": ((str, Path, NoneType), "a path or URL"),
    "workload": ((str, Path, NoneType), "a path of a workload program, such as './mybench'"),
    "run_id": ((str, Path), "the id of a run, the start of it, 'last', or a record file"),
    "parameters": ((Mapping, NoneType), "a mapping from names to lists of values"),
    "fleet": ((str,), "the id of a fleet's measurement, the start of it, or 'last'"),
}
"""What each argument may be, and how an error names it."""


def check_types(**given: object) -> None:
    """Raise TypeError with a sentence for an argument that is of no type it may have."""
    for name, value in given.items():
        allowed, what = _TYPES[name]
        # A bool is an int to Python, and no number to a person.
        is_flag = isinstance(value, bool) and bool not in allowed
        if is_flag or not isinstance(value, allowed):
            raise TypeError(f"{name} is {what}, and not {value!r} ({type(value).__name__})")


def check_levels(factors: Mapping[str, Any]) -> dict[str, list[Level]]:
    """Return lists of levels; TypeError with a sentence for what is none."""
    for name, levels in factors.items():
        is_one = isinstance(levels, str | int | float | bool)
        if not is_one and not isinstance(levels, Sequence | range):
            raise TypeError(
                f"{name} is a level or a list of levels, and not {levels!r} ({type(levels).__name__})"
            )
        for level in () if isinstance(levels, str | int | float | bool) else levels:
            if not isinstance(level, str | int | float | bool):
                raise TypeError(f"a level of {name} is a text or a number, and not {level!r}")
    return {
        factor: [levels] if isinstance(levels, str | int | float | bool) else list(levels)
        for factor, levels in factors.items()
    }


class RunComparison(Comparison):
    """A comparison that a notebook shows as a table."""

    experiment: ExperimentResults

    @classmethod
    def of(cls, comparison: Comparison, experiment: ExperimentResults) -> RunComparison:
        """Return `comparison`, which is of `experiment`, as a notebook shows it."""
        made = cls(**{each.name: getattr(comparison, each.name) for each in fields(comparison)})
        object.__setattr__(made, "experiment", experiment)
        return made

    def _repr_html_(self) -> str:
        """Return the table with the verdict, for a notebook."""
        return html([comparison_table(self.experiment, self)])


class Run:
    """A run that was measured: its results, and what can be made of them."""

    def __init__(self, run_id: str, results: Results, place: str | Path | None = None) -> None:
        self.id = run_id
        self.results = results
        self._place = place

    def __repr__(self) -> str:
        """Name the run, its experiments and inspections, and how many samples it has, failed ones too."""
        names = ", ".join(self.results.names)
        points = [point for each in self.results.experiments for point in each.points]
        failed = sum(len(point.failed) for point in points)
        text = (
            f"{failed} of {sum(map(len, points))} samples failed"
            if failed
            else f"{sum(map(len, points))} samples"
        )
        return f"<Run {self.id}: {names}, {text}>"

    def _repr_html_(self) -> str:
        """Return each experiment's headline metric as tables, and what failed, for a notebook."""
        analysed = Analysed.of(self.results)
        failed = "".join(f"<p>{escape(text)}</p>" for each in analysed.experiments for text in failures(each))
        return html([summary_table(analysed, each, each.headline) for each in analysed.experiments]) + failed

    def frame(self) -> pd.DataFrame:
        """Return a row per sample (see `oscope.storage.frames.to_frame`)."""
        from oscope.storage.frames import to_frame  # noqa: PLC0415 - pandas, half a second

        return to_frame(self.results)

    def summary(self) -> pd.DataFrame:
        """Return a row per point and metric (see `oscope.storage.frames.summary_frame`)."""
        from oscope.storage.frames import summary_frame  # noqa: PLC0415 - pandas, half a second

        return summary_frame(self.results)

    def record(self) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the record as plain values (see `oscope.storage.record`); a list for several parts."""
        record: dict[str, Any] | list[dict[str, Any]] = json.loads(to_json(self.results))
        return record

    def compare(self, other: Run, *, experiment: str | None = None, allow: Iterable[str] = ()) -> Comparison:
        """Compare an experiment of this run (before) with the same one of `other` (after).

        `experiment` may be left out where the runs share just one. `allow` may hold "machine" and "kernel",
        which else must be the same. The store of this run shows how much runs of it differ on this machine.
        Raises UsageError where they cannot be compared, TypeError where `other` is
        no run.
        """
        if not isinstance(other, Run):
            raise TypeError(f"a run is compared with a run, and not with {other!r} ({type(other).__name__})")
        mine = {e.experiment: e for e in self.results.experiments}
        theirs = {e.experiment: e for e in other.results.experiments}
        name = _shared(mine, theirs, experiment)
        known = earlier_runs(self._place, mine[name], theirs[name])
        found = compare_results(mine[name], theirs[name], allow=allow, earlier=known)
        return RunComparison.of(found, mine[name])

    def plot(self, *, experiment: str | None = None) -> Figure:
        """Return a matplotlib figure of the headline metric: samples, median and interval of each point."""
        mine = {e.experiment: e for e in self.results.experiments}
        return plot_headline(mine[_shared(mine, mine, experiment)])

    def report(self, path: str | Path) -> Path:
        """Write the HTML report to `path` and return it."""
        return report.write(self.results, path, labs.LABS)


class Bench(Run):
    """A run of commands or functions: what was found in sentences, and a row for each."""

    def __init__(self, run_id: str, results: Results, place: str | Path | None = None) -> None:
        super().__init__(run_id, results, place)
        self.findings: Findings = find(results)

    def __repr__(self) -> str:
        """Name the run, and say what was found."""
        return f"<Bench {self.id}: {'; '.join(self.sentences)}>"

    def _repr_html_(self) -> str:
        """Return what was found, the table, and what to know beside, for a notebook."""
        found = "".join(f"<p><strong>{escape(sentence)}</strong></p>" for sentence in self.sentences)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.findings.notes)
        return found + super()._repr_html_() + notes

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found: one command's time, or how each other command differs from the first."""
        return self.findings.sentences

    @property
    def comparison(self) -> Comparison | None:
        """The other commands against the first, paired by block; None with one command."""
        return self.findings.comparison

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each command or function, in the units of the metrics (ns, bytes)."""
        return rows(self.findings)


def _shared(
    mine: Mapping[str, ExperimentResults], theirs: Mapping[str, ExperimentResults], requested: str | None
) -> str:
    shared = [name for name in mine if name in theirs]
    if not shared:
        names = (", ".join(each) or "no experiment" for each in (mine, theirs))
        raise UsageError(
            f"A has {next(names)}, B has {next(names)}: nothing in common",
            remedy="choose runs of the same experiment",
        )
    if requested is not None and requested not in shared:
        raise UsageError(
            f"{requested!r} is not in both runs", remedy=f"shared is {', '.join(shared) or 'nothing'}"
        )
    if requested is None and len(shared) != 1:
        raise UsageError(
            f"the runs share {len(shared)} experiments", remedy=f"name one of {', '.join(shared) or 'none'}"
        )
    return requested or shared[0]


@naming_arguments
def run(
    name: str,
    *,
    profile: Profile = "full",
    reps: int | None = None,
    precision: float | str | None = None,
    budget: float | str | None = None,
    spread: float | str | None = None,
    seed: int | None = None,
    trace: Sequence[str] = (),
    on: str | None = None,
    clock: Clock | None = None,
    cpus: int | None = None,
    memory: int | str | None = None,
    again: bool = True,
    workload: str | Path | None = None,
    store: str | Path | None = None,
    **factors: Level | Sequence[Level],
) -> Run:
    """Measure the experiment or lab called `name` and return the run.

    It may be a workload of yours: one that the program `workload` describes, or one of the `oscope.toml` of
    this folder or of one above it.
    `factors` give a parameter one level or several, as values or as typed (`buffer=["4K", "1M"]`).
    `precision` is a share (`0.02` or `"2%"`), `budget` seconds or a text such as `"30s"`, and so is `spread`,
    the time over which the blocks are spread with pauses. With `trace` (some
    of counts, syscalls, sched, faults) every point is measured under bpftrace as well. `on` is `local`,
    `guest` or `guest:KERNEL`; a guest has this `clock` (`wall` or `instructions`), so many `cpus` and so much
    `memory` (bytes, or a text such as `"1G"`). With `again`, points are repeated after interference.
    `store` is a path or URL, as for the command line. Raises UsageError for a request that cannot be,
    ProbeError and StoreError where those fail, TypeError for an argument of a wrong type.
    """
    check_types(
        name=name,
        profile=profile,
        reps=reps,
        precision=precision,
        budget=budget,
        spread=spread,
        seed=seed,
        on=on,
        clock=clock,
        cpus=cpus,
        memory=memory,
        again=again,
        workload=workload,
        store=store,
    )
    if profile not in get_args(Profile):
        raise UsageError(f"there is no profile {profile!r}", remedy='give "quick" or "full"')
    settings = check_levels(factors)
    # Guests and programs are asked for their catalogues, and that takes a while.
    Store.check(store)
    recovery.restore_once(notify)
    known, _ = labs.with_own([name], None if workload is None else str(workload))
    experiments, inspections = parts_named(name, known)
    where = Where(on, clock, cpus, as_bytes(memory))
    placed = place_experiments(experiments, (name,), where, profile)
    for text in placed.left_out:
        notify(text)
    plan = make_plan(
        placed.experiments,
        with_programs(catalogue.load(), (each.program for each in placed.experiments)),
        profile=profile,
        settings=settings,
        amount=Amount(reps, as_share(precision), as_seconds(budget), as_seconds(spread)),
        trace=parse_kinds(trace) if trace else None,
        seed=seed,
        guests=placed.guests,
        inspections=inspections,
    )
    with Store.open(store) as opened:
        outcome = execute(replace(plan, again=again), opened, find_inspection=labs.inspection)
        for text in outcome.failures:
            notify(text)
        return Run(outcome.run_id, opened.results(outcome.run_id), store)


def load(run_id: str | Path = "last", *, store: str | Path | None = None) -> Run:
    """Return a stored run by its id, the start of it, or `last`, or what a record file holds.

    Raises UsageError where there is neither.
    """
    check_types(run_id=run_id, store=store)
    found = read_named(run_id, store)
    return Run(found.parts[0].run_id, found, store)


def runs(*, store: str | Path | None = None) -> tuple[RunEntry, ...]:
    """Return the runs in the store, the oldest first: id, start, status, experiments, number of samples.

    Raises StoreError where the store cannot be read.
    """
    check_types(store=store)
    with Store.read(store) as opened:
        return opened.runs()


def experiments() -> tuple[Experiment, ...]:
    """Return every experiment that `run` can measure: name, title, question, factors with their levels."""
    return tuple({each.name: each for lab in labs.LABS for each in lab.experiments}.values())


def as_seconds(time: str | Value) -> float | Value:
    """Return seconds, of a number of them or a text such as `30s`."""
    return parse_duration(time) if isinstance(time, str) else time


def as_share(share: str | Value) -> float | Value:
    """Return a share, of a number below 1 or a text such as `2%`."""
    if isinstance(share, int | float) and share >= 1:
        # As on the command line: 5 mostly means 5 %. This raises.
        return parse_share(f"{share:g}")
    return parse_share(share) if isinstance(share, str) else share


def as_bytes(size: str | Value) -> int | Value:
    """Return bytes, of a number of them or a text such as `1G`."""
    return parse_bytes(size) if isinstance(size, str) else size


def notify(text: str) -> None:
    """Write a line of Oscope's on standard error."""
    print(f"oscope: {text}", file=sys.stderr, flush=True)


def parts_named(
    name: str, known: Labs | None = None
) -> tuple[tuple[Experiment, ...], tuple[Inspection, ...]]:
    """Return the experiments and inspections of a lab, or the one that is named; of `known`, or built in."""
    known = known or labs.built_in()
    for lab in known.all:
        if lab.name == name:
            return lab.experiments, lab.inspections
    found = known.named(name)
    return ((found,), ()) if isinstance(found, Experiment) else ((), (found,))
