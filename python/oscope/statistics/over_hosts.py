"""Comparison of sets of hosts: the host is a level of replication above the boot.

What a host has of a metric is the median over its blocks of the blocks' medians, as in `fleet`. That is one
value a host, whatever was measured there, since samples of one host say nothing of how hosts differ. From
there on it is the comparison of everything else (`compare`), with hosts in the place of blocks:

- *The same hosts twice*, as before and after an upgrade, are paired by host: what hosts have of their own
  cancels. How much two runs of a host differ though nothing was changed is in the spread of the differences.
- *Two groups of hosts* are compared as separate sides. Measured in the same randomised rounds, they share the
  time of day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from oscope.model.errors import UsageError
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, Floats, Ints, PointSamples
from oscope.statistics.compare import THRESHOLD, Comparison, compare_hosts
from oscope.statistics.machines import KERNEL, MACHINE
from oscope.statistics.pairing import refuse_unlike
from oscope.statistics.replication import codes

LEAST_HOSTS = 2
"""With fewer, nothing is known of how hosts differ."""
Side = Mapping[str, ExperimentResults]
"""The results of an experiment by host."""


def compare_groups(
    a: Side, b: Side, labels: tuple[str, str], *, threshold: float = THRESHOLD
) -> tuple[ExperimentResults, Comparison]:
    """Compare the hosts of B with those of A; return one result a host of A as well, for its descriptions.

    Raises UsageError for a host in both, for fewer than two on a side, and for figures of different meaning.
    """
    both = sorted(a.keys() & b.keys())
    if both:
        raise UsageError(f"{both[0]} is in both groups", remedy="choose groups without common hosts")
    return _compare(a, b, labels, threshold, paired=False, allow=(MACHINE, KERNEL))


def compare_times(
    a: Side, b: Side, labels: tuple[str, str], *, threshold: float = THRESHOLD, allow: Iterable[str] = ()
) -> tuple[ExperimentResults, Comparison]:
    """Compare what the hosts of both sides have in B with what they had in A, paired by host.

    `allow` is as of `compare_results`. Raises UsageError as `compare_groups` does.
    """
    shared = [host for host in a if host in b]
    found, comparison = _compare(
        {host: a[host] for host in shared},
        {host: b[host] for host in shared},
        labels,
        threshold,
        paired=True,
        allow=tuple(allow),
    )
    return found, comparison


def _compare(
    a: Side, b: Side, labels: tuple[str, str], threshold: float, *, paired: bool, allow: Iterable[str]
) -> tuple[ExperimentResults, Comparison]:
    if min(len(a), len(b)) < LEAST_HOSTS:
        raise UsageError(
            f"{min(len(a), len(b))} host on a side",
            remedy=f"{LEAST_HOSTS} are needed to know how hosts differ",
        )
    caveats = _caveats(a, b, frozenset(allow), paired=paired)
    number = {host: index for index, host in enumerate([*a, *(host for host in b if host not in a)])}
    first, second = (one_value_a_host(side, number) for side in (a, b))
    return first, compare_hosts(first, second, labels, caveats, paired=paired, threshold=threshold)


def _caveats(a: Side, b: Side, allow: frozenset[str], *, paired: bool) -> list[str]:
    """Refuse what does not mean the same; of pairs return what is to be known, with the hosts it is about."""
    if not paired:
        first = next(iter(a.values()))
        for other in [*list(a.values())[1:], *b.values()]:
            refuse_unlike(first, other, allow)
        return []
    found: dict[str, list[str]] = {}
    for host in a:
        try:
            caveats = refuse_unlike(a[host], b[host], allow)
        except UsageError as error:
            raise UsageError(f"{host}: {error.message}", remedy=error.remedy) from None
        for caveat in caveats:
            found.setdefault(caveat, []).append(host)
    return [f"{_names(hosts)}: {caveat}" for caveat, hosts in found.items()]


def _names(hosts: list[str]) -> str:
    return ", ".join(hosts) if len(hosts) <= 3 else f"{', '.join(hosts[:2])} and {len(hosts) - 2} more"


def one_value_a_host(side: Side, number: Mapping[str, int]) -> ExperimentResults:
    """Return results with one sample for each host, whose block is the host's `number`."""
    first = next(iter(side.values()))
    rows: dict[object, list[tuple[int, PointSamples]]] = {}
    for host, results in side.items():
        for point in results.points:
            if len(point):
                rows.setdefault(results.key(point, first), []).append((number[host], point))
    return ExperimentResults(
        run_id=first.run_id,
        experiment=first.experiment,
        workload=first.workload,
        workload_version=first.workload_version,
        started=first.started,
        seed=first.seed,
        points=tuple(_joined(own, list(first.metrics)) for own in rows.values()),
        metrics=first.metrics,
        covariates={},
        environment=first.environment,
        title=first.title,
        question=first.question,
        timing_model=first.timing_model,
        factor_types=first.factor_types,
        conditions=first.conditions,
        defaults=first.defaults,
    )


def _joined(rows: list[tuple[int, PointSamples]], metrics: list[str]) -> PointSamples:
    hosts = np.array([number for number, _ in rows], dtype=np.int64)
    factors: Mapping[str, Level] = rows[0][1].factors
    missing = np.full(len(rows), np.nan)

    def each(values: Iterable[float]) -> Floats:
        return np.array(list(values), dtype=float)

    return PointSamples(
        factors=factors,
        block=hosts,
        process=hosts,
        boot=np.zeros(len(rows), dtype=np.int64),
        rep=np.zeros(len(rows), dtype=np.int64),
        started_ns=np.array([int(point.started_ns.min()) for _, point in rows], dtype=np.int64),
        raw=each(float(np.nanmedian(point.raw)) for _, point in rows),
        iterations=np.array([int(np.median(point.iterations)) for _, point in rows], dtype=np.int64),
        correction=each(float(np.median(point.correction)) for _, point in rows),
        metrics={
            name: each(
                host_value(point.metrics[name], point.block) if name in point.metrics else np.nan
                for _, point in rows
            )
            if any(name in point.metrics for _, point in rows)
            else missing
            for name in metrics
        },
        covariates={},
    )


def host_value(values: Floats, block: Ints) -> float:
    """Return the median over blocks of their medians; NaN where there is no finite value."""
    finite = np.isfinite(values)
    if not finite.any():
        return float("nan")
    code, kept = codes(block[finite]), values[finite]
    parts = np.split(kept[np.argsort(code, kind="stable")], np.cumsum(np.bincount(code))[:-1])
    return float(np.median([np.median(part) for part in parts]))
