"""The Python interface: `oscope.fleet` and `oscope.load_fleet`, and what they return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from oscope.analysis import fleet_compare, fleet_drift
from oscope.analysis.fleet import FleetFindings, examine
from oscope.analysis.fleet_drift import Drift
from oscope.api import Run, as_share, check_levels, check_types, notify, parts_named
from oscope.model.arguments import naming_arguments
from oscope.model.atomic_write import write_bytes
from oscope.model.errors import UsageError
from oscope.model.factors import Level, Profile
from oscope.model.host import Host
from oscope.model.samples import ExperimentResults
from oscope.planning.plan import Amount, make_plan
from oscope.probe import catalogue
from oscope.report import fleet as fleet_report
from oscope.report import fleet_drift as drift_report
from oscope.report.comparison import comparison_table
from oscope.report.forms import html
from oscope.runner.fleet import hosts as fleet_file
from oscope.runner.fleet.engine import Engine
from oscope.runner.fleet.fleet_measurement import NewFleet, measure_fleet, place_of
from oscope.statistics import Comparison
from oscope.storage.fleets import FleetEntry
from oscope.storage.store import Store


@dataclass(frozen=True)
class Outliers:
    """Which hosts are odd, and which settings go with that, as a notebook shows it."""

    findings: FleetFindings

    @property
    def odd(self) -> tuple[str, ...]:
        """Names of the odd hosts, the surest first."""
        return tuple(host.host for host in self.findings.odd)

    def __repr__(self) -> str:
        """Say which hosts are odd."""
        return f"<Outliers: {fleet_report.headline(self.findings)}>"

    def _repr_html_(self) -> str:
        lines = [line for host in self.findings.odd for line in fleet_report.describe(host)]
        tables = [*fleet_report.tables(self.findings), fleet_report.spread_table(self.findings)]
        return _prose(fleet_report.headline(self.findings), lines) + html(tables)


@dataclass(frozen=True)
class Changes:
    """Which hosts changed since a baseline, as a notebook shows it."""

    drift: Drift

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the changed hosts, the surest first."""
        return tuple(host.host for host in self.drift.changed)

    def __repr__(self) -> str:
        """Say which hosts changed."""
        return f"<Changes: {drift_report.headline(self.drift)}>"

    def _repr_html_(self) -> str:
        lines = [line for host in self.drift.changed for line in drift_report.describe(host)]
        return _prose(drift_report.headline(self.drift), lines) + html(drift_report.tables(self.drift))


@dataclass(frozen=True)
class FleetComparison:
    """Two sets of hosts compared: an experiment's comparison by its name, as a notebook shows it."""

    experiments: Mapping[str, tuple[ExperimentResults, Comparison]]
    """With each comparison comes what describes its figures, with a sample for each host."""

    def __getitem__(self, experiment: str) -> Comparison:
        """Return the comparison of an experiment."""
        return self.experiments[experiment][1]

    def _repr_html_(self) -> str:
        return html([comparison_table(*each) for each in self.experiments.values()])


class Fleet:
    """A fleet's measurement: a run for each host, and what can be made of them."""

    def __init__(self, entry: FleetEntry, place: str, missing: Mapping[str, str] | None = None) -> None:
        self.id = entry.id
        self.missing = dict(missing or {})
        """Hosts that were given up, and why."""
        self._entry = entry
        self._place = place

    def __repr__(self) -> str:
        """Name the measurement and its hosts."""
        return f"<Fleet {self.id}: {', '.join(run.host for run in self._entry.runs)}>"

    def _repr_html_(self) -> str:
        return self.outliers()._repr_html_()

    @cached_property
    def results(self) -> dict[str, Run]:
        """The run of each host."""
        with Store.read(self._place) as store:
            return {
                run.host: Run(run.run_id, store.results(run.run_id), self._place) for run in self._entry.runs
            }

    def outliers(self, threshold: float | str = "5%") -> Outliers:
        """Return which hosts differ from the others by more than `threshold`, a share of their median."""
        with Store.read(self._place) as store:
            return Outliers(examine(self._entry, store, as_share(threshold)))

    def compare(
        self, other: Fleet, *, threshold: float | str = "1%", allow: Iterable[str] = ()
    ) -> FleetComparison:
        """Compare this measurement (before) with another of the same hosts, paired by host.

        `allow` may hold "machine" and "kernel". Raises UsageError where they cannot be compared, TypeError
        where `other` is no fleet.
        """
        before, after = self._results(), _is_fleet(other)._results()
        if not before.keys() & after.keys():
            raise UsageError(f"{self.id} and {other.id} have no host in common", remedy="choose another")
        sides = fleet_compare.ComparedHosts(before, after, (self.id, other.id), same_hosts=True)
        return _compared(fleet_compare.compare_sides(sides, threshold=as_share(threshold), allow=allow))

    def compare_groups(
        self, a: Sequence[str], b: Sequence[str], *, threshold: float | str = "1%"
    ) -> FleetComparison:
        """Compare the hosts `b` of this measurement with its hosts `a`, given by name.

        Raises UsageError for a host that is not there or in both, and for fewer than two on a side.
        """
        every = self._results()
        unknown = [host for host in (*a, *b) if host not in every]
        if unknown:
            raise UsageError(f"{self.id} has no host {unknown[0]!r}", remedy=f"there is {', '.join(every)}")
        first, second = ({host: every[host] for host in names} for names in (a, b))
        sides = fleet_compare.ComparedHosts(first, second, ("A", "B"), same_hosts=False)
        return _compared(fleet_compare.compare_sides(sides, threshold=as_share(threshold)))

    def drift(self, baseline: Fleet, threshold: float | str = "5%") -> Changes:
        """Return which hosts changed since `baseline` by more than `threshold`, each beside itself.

        Raises UsageError where they have no host in common, TypeError where `baseline` is no fleet.
        """
        with Store.read(self._place) as store:
            found = fleet_drift.find_drift(
                store, _is_fleet(baseline)._entry, self._entry, as_share(threshold)
            )
        return Changes(found)

    def report(self, path: str | Path, threshold: float | str = "5%") -> Path:
        """Write the fleet's page to `path` and return it."""
        write_bytes(Path(path), fleet_report.encode(self.outliers(threshold).findings))
        return Path(path)

    def _results(self) -> dict[str, Any]:
        return {host: run.results for host, run in self.results.items()}


@naming_arguments
def fleet(
    name: str,
    *,
    hosts: str | Sequence[str] | None = None,
    file: str | Path = "fleet.toml",
    rounds: int = 2,
    parallel: int | None = None,
    rack_aware: bool = False,
    retries: int = 2,
    profile: Profile = "full",
    reps: int | None = None,
    seed: int | None = None,
    scheduler: str | None = None,
    store: str | Path | None = None,
    **factors: Level | Sequence[Level],
) -> Fleet:
    """Measure the experiment or lab called `name` on many hosts over ssh, and return the fleet's measurement.

    `hosts` is a list of hosts as ssh names them; or a text as of `oscope fleet run --hosts`, which chooses of
    those in `file`; or None for all of these. They are measured in so many `rounds`, so many at a time
    (`parallel`: 4), with `rack_aware` one of each rack. A host that fails is tried again (`retries`).
    `scheduler` is the address of a Dask scheduler. `factors`, `reps`, `seed` and `store` are as of `run`.
    Hosts that were given up are in the `missing` of the result. Raises UsageError for a request that cannot
    be, OscopeError without Dask, where it was interrupted and where all hosts were given up, StoreError where
    the store fails.
    """
    check_types(name=name, store=store, profile=profile, reps=reps, seed=seed)
    settings = check_levels(factors)
    experiments, inspections = parts_named(name)
    if not experiments:
        raise UsageError(f"{name} is an inspection", remedy="a fleet measures experiments")
    if inspections:
        notify(f"a fleet makes no inspections: left out is {', '.join(each.name for each in inspections)}")
    plan = make_plan(
        experiments,
        catalogue.load(),
        profile=profile,
        settings=settings,
        amount=Amount(reps=reps),
        seed=seed,
    )
    where = place_of(None if store is None else str(store))
    engine = Engine.of(parallel, retries, scheduler, rack_aware=rack_aware)
    outcome = measure_fleet(NewFleet(plan, _chosen(hosts, file), rounds), where, engine, notify)
    failure = outcome.failure()
    measured = any(each.rounds for each in outcome.hosts)
    if failure is not None and (outcome.interrupted or outcome.undelivered is not None or not measured):
        raise failure
    missing = {each.host: str(each.error) for each in outcome.hosts if each.rounds < outcome.rounds}
    with Store.read(where) as opened:
        return Fleet(opened.fleet(outcome.fleet), where, missing)


def load_fleet(fleet: str = "last", *, store: str | Path | None = None) -> Fleet:
    """Return a stored fleet's measurement by its id, the start of it, or `last`. Raises UsageError."""
    check_types(fleet=fleet, store=store)
    where = place_of(None if store is None else str(store))
    with Store.read(where) as opened:
        return Fleet(opened.fleet(fleet), where)


def _chosen(hosts: str | Sequence[str] | None, file: str | Path) -> tuple[Host, ...]:
    """Return the hosts: of the file, all or those that an expression means; or those that are named."""
    if hosts is None or isinstance(hosts, str):
        return fleet_file.read(Path(file)).choose(hosts)
    if not hosts:
        raise UsageError("hosts names none", remedy="name hosts, or leave it out for those of the file")
    return tuple(member.host for member in fleet_file.of_names(hosts))


def _compared(found: Sequence[tuple[ExperimentResults, Comparison]]) -> FleetComparison:
    return FleetComparison({experiment.experiment: (experiment, each) for experiment, each in found})


def _is_fleet(other: object) -> Fleet:
    if not isinstance(other, Fleet):
        raise TypeError(f"a fleet is compared with a fleet, and not with {other!r} ({type(other).__name__})")
    return other


def _prose(headline: str, lines: Iterable[str]) -> str:
    return f"<p><strong>{escape(headline)}</strong></p>" + "".join(f"<p>{escape(line)}</p>" for line in lines)
