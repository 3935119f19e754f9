"""A fleet's measurement: which hosts are odd, by how much, and which settings go with that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.statistics.fleet import (
    THRESHOLD,
    Cell,
    FleetMetric,
    HostSamples,
    Series,
    Verdict,
    judge,
)
from oscope.statistics.multiplicity import quantity
from oscope.storage.fleets import FleetEntry
from oscope.storage.store import Store

_VOLATILE = frozenset(
    {
        *("boot_id", "boots", "after", "laboratory", "machine", "hostname_hash", "host", "load", "uptime_s"),
        *("tsc_offsets", "self_check", "unavailable", "uid"),
    }
)
"""Parts of the environment that no two hosts, or no two moments, have alike."""
_VOLATILE_INNER = frozenset({"available_bytes", "overhead", "overhead_mad", "why"})
_SAME_NUMBER = 0.02
"""Numbers that differ by less are one setting: two hosts hardly have the same total of bytes."""
_LEAST_SCORE = 0.1
_MOST_SUSPECTS = 8
_COMMANDS: Mapping[str, str] = {
    "kernel.release": "uname -r",
    "kernel.version": "uname -v",
    "kernel.cmdline": "cat /proc/cmdline",
    "kernel": "uname -a",
    "cpu.smt": "cat /sys/devices/system/cpu/smt/active",
    "cpu.governor": "cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    "cpu.turbo": "cat /sys/devices/system/cpu/cpufreq/boost /sys/devices/system/cpu/intel_pstate/no_turbo",
    "cpu.microcode": "grep -m1 microcode /proc/cpuinfo",
    "cpu.mitigations": "grep . /sys/devices/system/cpu/vulnerabilities/*",
    "cpu.allowed": "grep Cpus_allowed_list /proc/self/status",
    "cpu": "lscpu",
    "memory.thp": "cat /sys/kernel/mm/transparent_hugepage/enabled",
    "memory.lru_gen": "cat /sys/kernel/mm/lru_gen/enabled",
    "memory.overcommit": "cat /proc/sys/vm/overcommit_memory",
    "memory": "grep -E '^(MemTotal|SwapTotal)' /proc/meminfo",
    "hypervisor": "systemd-detect-virt",
    "clocksource": "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
    "clock": "dmesg | grep -i tsc",
    "cgroup.cpu_max": "cat /sys/fs/cgroup/$(sed -n s/^0:://p /proc/self/cgroup)/cpu.max",
    "cgroup.memory_max": "cat /sys/fs/cgroup/$(sed -n s/^0:://p /proc/self/cgroup)/memory.max",
    "cgroup": "cat /proc/self/cgroup",
    "limits": "ulimit -a",
    "libc": "ldd --version",
    "counters": "ls /sys/bus/event_source/devices",
}
"""The command that shows a setting, by its name or the start of it."""


@dataclass(frozen=True)
class MetricKey:
    """Which figure a row of the fleet is about."""

    experiment: str
    point: str
    """Levels of the factors that vary."""
    metric: str
    unit: str
    better: str | None

    @property
    def label(self) -> str:
        """For people."""
        where = f" [{self.point}]" if self.point else ""
        return f"{self.experiment}{where} {self.metric}"


@dataclass(frozen=True)
class Suspect:
    """A setting that an odd host has otherwise than ordinary hosts: an association, not a cause."""

    setting: str
    value: str
    """On the odd host."""
    others: str
    """On the ordinary hosts, with how many have it."""
    score: float
    """Symmetric uncertainty of the setting and being odd: 1 where each determines the other."""
    command: str | None
    """Shows the setting on a host; None for a label of the fleet's file."""


@dataclass(frozen=True)
class HostFinding:
    """What is known of a host."""

    host: str
    run_id: str
    verdict: Verdict
    reason: str
    """What cannot be judged, and why; empty otherwise."""
    odd: tuple[tuple[MetricKey, Cell], ...]
    """By which it is odd, the surest first."""
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True)
class FleetFindings:
    """A fleet's measurement, compared."""

    fleet: str
    threshold: float
    metrics: tuple[FleetMetric, ...]
    hosts: tuple[HostFinding, ...]
    """Odd ones first, then those that cannot be judged, then ordinary ones."""

    @property
    def odd(self) -> tuple[HostFinding, ...]:
        """Hosts that are odd."""
        return tuple(host for host in self.hosts if host.verdict == "odd")


def examine(entry: FleetEntry, store: Store, threshold: float = THRESHOLD) -> FleetFindings:
    """Compare the hosts of a fleet's measurement; `threshold` is the minimum effect that matters, a share.

    One host is read at a time: of a large fleet only what is compared is kept in memory.
    """
    gathered = _Gathered()
    for run in entry.runs:
        gathered.add(run.host, store.results(run.run_id, columns="metrics"))
    return gathered.compare(entry.id, threshold)


def results_of(entry: FleetEntry, store: Store) -> dict[str, Results]:
    """Return what was measured on each host of a fleet."""
    return {run.host: store.results(run.run_id, columns="metrics") for run in entry.runs}


def compare_hosts(fleet: str, results: Mapping[str, Results], threshold: float = THRESHOLD) -> FleetFindings:
    """Compare hosts by their results of the same experiments."""
    gathered = _Gathered()
    for host, own in results.items():
        gathered.add(host, own)
    return gathered.compare(fleet, threshold)


class _Gathered:
    """What is compared of hosts: each metric at each point, and their settings.

    Left out are metrics of which neither less nor more is better, as in comparisons, and of equal quantities
    all but the first metric.
    """

    def __init__(self) -> None:
        self._series: dict[MetricKey, dict[str, HostSamples]] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self._run_ids: dict[str, str] = {}

    def add(self, host: str, results: Results) -> None:
        """Take over what was measured on a host."""
        self._settings[host] = settings_of(results)
        self._run_ids[host] = _run_id(results)
        for experiment in results.experiments:
            varied = experiment.varied()
            for point in experiment.points:
                for key in keys_of(experiment, point, varied) if len(point) else ():
                    # Copied, since a column keeps all columns of its point in memory.
                    samples = HostSamples(point.metrics[key.metric].copy(), point.block)
                    self._series.setdefault(key, {})[host] = samples

    def compare(self, fleet: str, threshold: float) -> FleetFindings:
        """Return which hosts are odd."""
        metrics = judge([Series(key, hosts) for key, hosts in self._series.items()], threshold)
        cells: dict[str, list[tuple[MetricKey, Cell]]] = {host: [] for host in self._settings}
        for metric in metrics:
            for cell in metric.cells:
                if isinstance(metric.key, MetricKey):
                    cells[cell.host].append((metric.key, cell))
        verdicts = {host: _verdict([cell for _, cell in own]) for host, own in cells.items()}
        ordinary = [host for host, (verdict, _) in verdicts.items() if verdict == "ordinary"]
        hosts = [self._finding(host, cells[host], *verdicts[host], ordinary) for host in self._settings]
        order: dict[Verdict, int] = {"odd": 0, "cannot tell": 1, "ordinary": 2}
        hosts.sort(key=lambda each: (order[each.verdict], each.odd[0][1].q if each.odd else 0.0))
        return FleetFindings(fleet, threshold, metrics, tuple(hosts))

    def _finding(
        self,
        host: str,
        cells: Sequence[tuple[MetricKey, Cell]],
        verdict: Verdict,
        reason: str,
        ordinary: Sequence[str],
    ) -> HostFinding:
        odd = sorted(
            (each for each in cells if each[1].verdict == "odd"),
            key=lambda each: (each[1].q, -abs(each[1].effect)),
        )
        suspects = find_suspects(self._settings, host, ordinary) if verdict == "odd" else ()
        return HostFinding(host, self._run_ids[host], verdict, reason, tuple(odd), suspects)


def keys_of(experiment: ExperimentResults, point: PointSamples, varied: Sequence[str]) -> Iterable[MetricKey]:
    """Yield what is judged of a point: a metric for each quantity of which less or more is better."""
    label = ", ".join(f"{name}={point.factors[name]}" for name in varied if name in point.factors)
    quantities: set[str] = set()
    for column in experiment.metrics.values():
        if column.better is not None and quantity(column.name) not in quantities:
            quantities.add(quantity(column.name))
            yield MetricKey(experiment.experiment, label, column.name, column.unit, column.better)


def _run_id(results: Results) -> str:
    return results.experiments[0].run_id if results.experiments else ""


def _verdict(cells: Sequence[Cell]) -> tuple[Verdict, str]:
    """Return what a host is by all its metrics, and why it cannot be judged."""
    if any(cell.verdict == "odd" for cell in cells):
        return "odd", ""
    inconclusive = [cell for cell in cells if cell.verdict == "cannot tell"]
    if not cells:
        return "cannot tell", "nothing was measured"
    reason = f"{inconclusive[0].reason} ({len(inconclusive)} of {len(cells)} metrics)" if inconclusive else ""
    return ("cannot tell" if 2 * len(inconclusive) >= len(cells) else "ordinary"), reason


def settings_of(results: Results) -> dict[str, Any]:
    """Return the settings of a host by their names: the environment's, and the labels of the fleet's file."""
    if not results.experiments:
        return {}
    environment = results.experiments[0].environment
    flat: dict[str, Any] = {}
    for name, value in environment.items():
        if name not in _VOLATILE:
            _flatten(name, value, flat)
    labels = (environment.get("host") or {}).get("labels", {})
    return flat | {f"label {name}": value for name, value in labels.items()}


def _flatten(name: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _VOLATILE_INNER:
                _flatten(f"{name}.{key}", inner, into)
    else:
        into[name] = json.dumps(value) if isinstance(value, list) else value


def find_suspects(
    settings: Mapping[str, Mapping[str, Any]], odd: str, ordinary: Sequence[str]
) -> tuple[Suspect, ...]:
    """Return the settings by which one odd host differs from ordinary ones, the best separating first.

    A setting that most ordinary hosts have each in their own way separates nothing, though the odd one's is
    unlike all: the score is the mutual information of setting and oddness over the mean of both entropies.
    """
    names = dict.fromkeys(name for host in (odd, *ordinary) for name in settings[host])
    found = []
    for name in names:
        values = grouped([settings[host].get(name) for host in (odd, *ordinary)])
        others = values[1:]
        if not others or values[0] in others:
            continue
        score = _symmetric_uncertainty(values, [True, *[False] * len(others)])
        if score >= _LEAST_SCORE:
            # Most have few values, but a serial number has as many as there are hosts.
            counts = Counter(others)
            each_other = [f"{show(value)} ({counts[value]})" for value in list(counts)[:4]]
            value = show(values[0])
            found.append(Suspect(name, value, ", ".join(each_other), score, command_of(name)))
    return tuple(sorted(found, key=lambda each: -each.score)[:_MOST_SUSPECTS])


def show(value: Any) -> str:
    """Write a setting in a few letters."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def grouped(values: Sequence[Any]) -> list[Any]:
    """Return the values, numbers that hardly differ as one."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return list(values)
    stands_for: dict[Any, Any] = {}
    last: Any = None
    for value in sorted(set(values)):
        if last is None or abs(value - last) > _SAME_NUMBER * max(abs(value), abs(last)):
            last = value
        stands_for[value] = last
    return [stands_for[value] for value in values]


def _symmetric_uncertainty(values: Sequence[Any], odd: Sequence[bool]) -> float:
    """Return 2 I(X; Y) / (H(X) + H(Y)) (Press et al., Numerical Recipes, 14.7.4)."""
    both = _entropy(list(zip(map(repr, values), odd, strict=True)))
    own, other = _entropy([repr(value) for value in values]), _entropy(list(odd))
    total = own + other
    return 2 * (total - both) / total if total > 0 else 0.0


def _entropy(labels: Sequence[Any]) -> float:
    counts = np.array(list(Counter(labels).values()), dtype=float)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def command_of(setting: str) -> str | None:
    """Return the command that shows a setting on a host; None where none is known."""
    name = setting
    while name:
        if name in _COMMANDS:
            return _COMMANDS[name]
        name = name.rpartition(".")[0]
    return None
