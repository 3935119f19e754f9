"""Two fleet measurements compared, or two groups of hosts of one: hosts are what is sampled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oscope.analysis.fleet import results_of
from oscope.model.errors import UsageError
from oscope.model.host import Host
from oscope.model.samples import ExperimentResults, Results
from oscope.runner.fleet.hosts import FleetFile, Member
from oscope.statistics import Comparison
from oscope.statistics.compare import THRESHOLD
from oscope.statistics.over_hosts import Side, compare_groups, compare_times
from oscope.storage.fleets import FleetEntry
from oscope.storage.store import Store

Groups = Mapping[str, tuple[str, ...]]
"""The groups that each host is in."""


@dataclass(frozen=True)
class ComparedHosts:
    """What is compared: the results of the hosts of either side."""

    a: Mapping[str, Results]
    b: Mapping[str, Results]
    labels: tuple[str, str]
    same_hosts: bool
    """Two measurements of the same hosts, or two groups of one measurement."""
    fleets: tuple[str, ...] = ()
    """Ids of the measurements."""


def is_fleet(text: str) -> bool:
    """Say whether a text means a fleet's measurement, and not hosts of one."""
    return text == "last" or text.startswith("fleet-")


def find_sides(store: Store, a: str, b: str, within: str, groups: Groups) -> ComparedHosts:
    """Return what `a` and `b` mean: two fleet measurements, or hosts of the measurement `within`.

    Hosts are chosen as `--hosts` chooses them, by names, patterns, LABEL=VALUE, and @GROUP by `groups`.
    Raises UsageError for what means nothing, or one of each.
    """
    if is_fleet(a) != is_fleet(b):
        raise UsageError(
            f"{a} and {b} are a fleet and hosts", remedy="give two fleets, or two groups of hosts of one"
        )
    if is_fleet(a):
        entries = store.fleet(a), store.fleet(b)
        if entries[0].id == entries[1].id:
            raise UsageError(f"{entries[0].id} cannot be compared with itself", remedy="choose two fleets")
        first, second = (results_of(entry, store) for entry in entries)
        if not first.keys() & second.keys():
            raise UsageError(
                f"{entries[0].id} and {entries[1].id} have no host in common",
                remedy="choose two measurements of the same hosts",
            )
        names = entries[0].id, entries[1].id
        return ComparedHosts(first, second, names, same_hosts=True, fleets=names)
    entry = store.fleet(within)
    chosen = [{host.name for host in _members(entry, store, groups).choose(text, "")} for text in (a, b)]
    results = results_of(entry, store)
    first, second = ({host: each for host, each in results.items() if host in names} for names in chosen)
    labels = f"{a} of {entry.id}", f"{b} of {entry.id}"
    return ComparedHosts(first, second, labels, same_hosts=False, fleets=(entry.id,))


def _members(entry: FleetEntry, store: Store, groups: Groups) -> FleetFile:
    members = []
    for run in entry.runs:
        host = store.plan(run.run_id).host or Host(run.host, run.host)
        members.append(Member(host, groups.get(run.host, ())))
    return FleetFile(tuple(members))


def compare_sides(
    sides: ComparedHosts, *, threshold: float = THRESHOLD, allow: Iterable[str] = ()
) -> list[tuple[ExperimentResults, Comparison]]:
    """Compare every experiment that both sides have; with each comes a result that describes its figures.

    Raises UsageError where they have none in common, and as `compare_times` and `compare_groups` do.
    """
    first, second = (_by_experiment(side) for side in (sides.a, sides.b))
    shared = [name for name in first if name in second]
    if not shared:
        raise UsageError(
            f"{sides.labels[0]} and {sides.labels[1]} have no experiment in common",
            remedy="measure both by one plan",
        )
    found = []
    for name in shared:
        a, b = first[name], second[name]
        labels = (_label(sides.labels[0], a, b, sides), _label(sides.labels[1], b, a, sides))
        if sides.same_hosts:
            found.append(compare_times(a, b, labels, threshold=threshold, allow=allow))
        else:
            found.append(compare_groups(a, b, labels, threshold=threshold))
    return found


def _label(name: str, own: Side, other: Side, sides: ComparedHosts) -> str:
    count = len(own.keys() & other.keys()) if sides.same_hosts else len(own)
    return f"{name}, {count} host{'' if count == 1 else 's'}"


def _by_experiment(side: Mapping[str, Results]) -> dict[str, dict[str, ExperimentResults]]:
    found: dict[str, dict[str, ExperimentResults]] = {}
    for host, results in side.items():
        for experiment in results.experiments:
            if experiment.has_samples:
                found.setdefault(experiment.experiment, {})[host] = experiment
    return found
