"""Which hosts of a fleet changed since a baseline: each host against itself, all of them one family of tests.

A host's two runs are compared as any two separate runs are (`oscope.statistics.compare`), so that how much
runs of a host differ though nothing was changed is part of it. All hosts x metrics are one family: of the
changes that are reported, 5 % are none (Benjamini and Hochberg, JRSS B 57, 1995).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal

from oscope.analysis.fleet import MetricKey, command_of, grouped, keys_of, results_of, settings_of, show
from oscope.model.errors import UsageError
from oscope.model.formatting import format_share
from oscope.model.samples import ExperimentResults, Results
from oscope.statistics import ComparedMetric, compare_results
from oscope.statistics.compared import is_beyond
from oscope.statistics.fleet import FALSE_DISCOVERIES, THRESHOLD
from oscope.statistics.machines import KERNEL
from oscope.statistics.multiplicity import false_discoveries
from oscope.storage.fleets import FleetEntry
from oscope.storage.store import Store

Verdict = Literal["changed", "unchanged", "cannot tell"]
MOST_EARLIER = 10
"""Earlier runs of a host that are read: so many show how much its runs differ."""
_MOST_SETTINGS = 8


@dataclass(frozen=True)
class DriftCell:
    """One metric of one host, today against the baseline."""

    host: str
    key: MetricKey
    row: ComparedMetric
    q: float
    """p corrected for all hosts x metrics: the share of false ones among the changes down to it."""
    verdict: Verdict


@dataclass(frozen=True)
class SettingChange:
    """A setting that a changed host has otherwise than before: an association, not a cause."""

    setting: str
    before: str
    after: str
    others: int
    """Unchanged hosts on which it has changed too."""
    of: int
    """Unchanged hosts."""
    command: str | None


@dataclass(frozen=True)
class HostDrift:
    """What is known of a host."""

    host: str
    verdict: Verdict
    reason: str
    """What cannot be judged, and why; empty otherwise."""
    changed: tuple[DriftCell, ...] = ()
    """What changed, the surest first."""
    settings: tuple[SettingChange, ...] = ()
    run_a: str = ""
    run_b: str = ""


@dataclass(frozen=True)
class Drift:
    """A fleet's measurement against a baseline."""

    baseline: str
    fleet: str
    threshold: float
    hosts: tuple[HostDrift, ...]
    """Changed ones first, then those that cannot be judged, then unchanged ones."""
    cells: tuple[DriftCell, ...]

    @property
    def changed(self) -> tuple[HostDrift, ...]:
        """Hosts that changed."""
        return tuple(host for host in self.hosts if host.verdict == "changed")


Earlier = Mapping[str, Sequence[Results]]
"""Results of earlier runs of each host, in order of time."""


def find_drift(store: Store, baseline: FleetEntry, fleet: FleetEntry, threshold: float = THRESHOLD) -> Drift:
    """Compare a fleet's measurement with a baseline, host by host.

    Raises UsageError where they are one, or have no host in common.
    """
    if baseline.id == fleet.id:
        raise UsageError(f"{fleet.id} cannot be compared with itself", remedy="name an earlier fleet first")
    earlier: dict[str, list[Results]] = {}
    hosts = {run.host for run in fleet.runs}
    # The newest are looked at, in order of time.
    for entry in reversed(store.fleets()):
        for run in entry.runs if entry.id not in (baseline.id, fleet.id) else ():
            own = earlier.setdefault(run.host, [])
            if run.host in hosts and run.rounds_done and len(own) < MOST_EARLIER:
                own.insert(0, store.results(run.run_id, columns="metrics"))
    first, second = results_of(baseline, store), results_of(fleet, store)
    return compare_with_baseline((baseline.id, fleet.id), first, second, threshold, earlier)


def compare_with_baseline(
    names: tuple[str, str],
    a: Mapping[str, Results],
    b: Mapping[str, Results],
    threshold: float = THRESHOLD,
    earlier: Earlier | None = None,
) -> Drift:
    """Compare hosts by their results: those of `b` with those of `a`, the baseline. Raises UsageError."""
    if not a.keys() & b.keys():
        raise UsageError(f"{names[0]} and {names[1]} have no host in common", remedy="name another baseline")
    compared: list[tuple[str, MetricKey, ComparedMetric]] = []
    reasons: dict[str, str] = {}
    for host in dict.fromkeys([*b, *a]):
        if host not in a or host not in b:
            reasons[host] = f"not measured in {names[0] if host not in a else names[1]}"
            continue
        own = (earlier or {}).get(host, ())
        found, lacks = _compare_host(a[host], b[host], threshold, own)
        compared += [(host, *each) for each in found]
        reasons[host] = "; ".join(dict.fromkeys(lacks))
    cells = _judge(compared, threshold)
    hosts = [
        _host(host, [cell for cell in cells if cell.host == host], reasons.get(host, ""))
        for host in dict.fromkeys([*b, *a])
    ]
    unchanged = [host.host for host in hosts if host.verdict == "unchanged"]
    changes = {host: _setting_changes(a[host], b[host]) for host in b if host in a}
    hosts = [
        replace(
            host,
            run_a=_run_id(a.get(host.host)),
            run_b=_run_id(b.get(host.host)),
            settings=_settings(changes, host.host, unchanged) if host.verdict == "changed" else (),
        )
        for host in hosts
    ]
    order: dict[Verdict, int] = {"changed": 0, "cannot tell": 1, "unchanged": 2}
    hosts.sort(key=lambda each: (order[each.verdict], each.changed[0].q if each.changed else 0.0))
    return Drift(*names, threshold, tuple(hosts), tuple(cells))


def _compare_host(
    a: Results, b: Results, threshold: float, earlier: Sequence[Results]
) -> tuple[list[tuple[MetricKey, ComparedMetric]], list[str]]:
    """Return what is judged of a host, and why the rest is not: mostly, as figures do not mean the same."""
    found: list[tuple[MetricKey, ComparedMetric]] = []
    reasons = []
    shared = [(each, other) for each in b.experiments if (other := a.get(each.experiment)) is not None]
    if not shared:
        reasons.append("no experiment was measured both times")
    for now, before in shared:
        if not now.has_samples and not before.has_samples:
            # This host cannot measure it.
            continue
        known = [run for results in earlier if (run := results.get(now.experiment)) is not None]
        try:
            # A host's kernel is one of the things that may have changed.
            rows = compare_results(before, now, threshold=threshold, allow=(KERNEL,), earlier=known).rows
        except UsageError as error:
            reasons.append(error.message)
            continue
        judged = _judged_metrics(before)
        keys = ((judged.get((frozenset(row.factors.items()), row.metric)), row) for row in rows)
        found += [(key, row) for key, row in keys if key is not None]
    return found, reasons


def _judged_metrics(experiment: ExperimentResults) -> dict[tuple[object, str], MetricKey]:
    varied = experiment.varied()
    return {
        (frozenset(point.factors.items()), key.metric): key
        for point in experiment.points
        for key in keys_of(experiment, point, varied)
    }


def _judge(compared: Sequence[tuple[str, MetricKey, ComparedMetric]], threshold: float) -> list[DriftCell]:
    """Return the verdict on each row, all as one family of tests."""
    q = false_discoveries([row.p for _, _, row in compared])
    return [
        DriftCell(host, key, row, float(own), _verdict(row, float(own), threshold))
        for (host, key, row), own in zip(compared, q, strict=True)
    ]


def _verdict(row: ComparedMetric, q: float, threshold: float) -> Verdict:
    if row.matters == "no":
        return "unchanged"
    agrees = (row.median_b - row.median_a) * row.difference > 0
    # Not by the row's own answer, which is corrected for the tests of its host alone.
    beyond = is_beyond(row.ci95, threshold)
    return "changed" if q <= FALSE_DISCOVERIES and agrees and beyond else "cannot tell"


def _host(host: str, cells: Sequence[DriftCell], reason: str) -> HostDrift:
    changed = sorted((cell for cell in cells if cell.verdict == "changed"), key=lambda cell: cell.q)
    if changed:
        return HostDrift(host, "changed", reason, tuple(changed))
    if not cells or reason:
        return HostDrift(host, "cannot tell", reason or "nothing was measured")
    inconclusive = [cell.row.detectable for cell in cells if cell.verdict == "cannot tell"]
    # A host of which half the metrics are open is not unchanged.
    verdict: Verdict = "cannot tell" if 2 * len(inconclusive) >= len(cells) else "unchanged"
    return HostDrift(host, verdict, _open(inconclusive, len(cells)) if inconclusive else "")


def _open(detectable: Sequence[float], metrics: int) -> str:
    """Say how large a change of the metrics without an answer would have been found."""
    count = f"({len(detectable)} of {metrics} metrics)"
    sizes = [size for size in detectable if isfinite(size)]
    if len(sizes) < len(detectable):
        return f"too few samples to find a change {count}"
    ends = dict.fromkeys(format_share(end) for end in (min(sizes), max(sizes)))
    return f"a change of {' to '.join(ends)} would have been found {count}"


def _setting_changes(a: Results, b: Results) -> dict[str, tuple[Any, Any]]:
    before, after = settings_of(a), settings_of(b)
    found = {}
    for name in dict.fromkeys([*before, *after]):
        one, other = grouped([before.get(name), after.get(name)])
        if one != other:
            found[name] = (before.get(name), after.get(name))
    return found


def _settings(
    changes: Mapping[str, Mapping[str, tuple[Any, Any]]], host: str, unchanged: Sequence[str]
) -> tuple[SettingChange, ...]:
    found = [
        SettingChange(
            name,
            show(before),
            show(after),
            sum(name in changes[other] for other in unchanged),
            len(unchanged),
            command_of(name),
        )
        for name, (before, after) in changes[host].items()
    ]
    return tuple(sorted(found, key=lambda each: each.others)[:_MOST_SETTINGS])


def _run_id(results: Results | None) -> str:
    return results.experiments[0].run_id if results is not None and results.experiments else ""
