"""Where one side has a largest resident set, and the other's programs were no larger than their launcher.

That side has a bound instead of a value (`command.run`), and there is no ratio. That all samples with a size
lie above the bound, and none of the other side's does, is tested by Fisher's exact test over blocks.
Of the other `CENSORED` metrics, the parts of the CPU time, `cpu_ns` has a value on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import comb, nan

import numpy as np

from oscope.analysis.missing import has_value, is_censored
from oscope.model.formatting import format_value
from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples
from oscope.statistics import replication
from oscope.statistics.compared import Answer, ComparedMetric
from oscope.statistics.effect import LEVEL
from oscope.statistics.interrupt_filter import CPU_TIME, without_partial

METRIC = "max_rss_bytes"
LARGEST_LAUNCHER = 4.0 * (1 << 20)
"""Bytes. Launchers have up to 3 MiB; what exceeds its launcher by less than 256 KiB has no value either."""
METHOD = "Fisher's exact test over blocks, one side bounded by its launcher's size"
_WORKLOAD = "command.run"
_SMALL = "is no larger than its launcher (about 3 MiB)"


def sizes_beside_launcher(
    a: ExperimentResults, b: ExperimentResults, limit: float
) -> tuple[ComparedMetric, ...]:
    """Return a row for each point where only one side has a size: `different` where they are proven to be.

    `matters` where `b` is proven to be worse by more than the limit. Where only `a` has a size, and is not
    proven to be larger, there is no row: nothing is known to be worse.
    """
    column = a.metrics.get(METRIC)
    if column is None or METRIC not in b.metrics or a.workload != b.workload or a.workload != _WORKLOAD:
        return ()
    rows = list(_rows(a, b, column))
    judged = [_judged(row, factor, limit, len(rows)) for row, factor in rows]
    if len(a.points) > 1:
        judged = [replace(row, sentence=f"{_levels(row)}, {row.sentence}") for row in judged]
    return tuple(row for row in judged if is_larger(row) or row.different == "yes")


def is_larger(row: ComparedMetric) -> bool:
    """Whether it is B that has a size."""
    return bool(np.isfinite(row.median_b))


def _rows(
    a: ExperimentResults, b: ExperimentResults, column: Column
) -> Iterator[tuple[ComparedMetric, float]]:
    """Yield the rows, not yet judged, each with by what factor all sizes lie above the bound."""
    others = {b.key(point, a): point for point in b.points}
    for point in a.points:
        other = others.get(a.key(point, b))
        if other is None or has_value(point, METRIC) == has_value(other, METRIC):
            continue
        small, large = (other, point) if has_value(point, METRIC) else (point, other)
        if is_censored(small, METRIC):
            yield _row(point, small, large, column)


def _row(
    a: PointSamples, small: PointSamples, large: PointSamples, column: Column
) -> tuple[ComparedMetric, float]:
    runs, sizes = small.metrics[CPU_TIME], without_partial(large, METRIC).metrics[METRIC]
    # Some runs of the small program may have exceeded their launcher.
    known = small.metrics.get(METRIC, np.zeros(0))
    bound = float(np.max(known[np.isfinite(known)], initial=LARGEST_LAUNCHER))
    median = float(np.nanmedian(sizes))
    size = f"is {format_value(median, 0.05 * median, column.unit)}"
    figures = [
        (int(np.isfinite(values).sum()), _clusters(side, values), shown, text)
        for side, values, shown, text in ((small, runs, nan, _SMALL), (large, sizes, median, size))
    ]
    (n_a, clusters_a, median_a, text_a), (n_b, clusters_b, median_b, text_b) = (
        figures if small is a else figures[::-1]
    )
    row = ComparedMetric(
        factors=a.factors,
        metric=METRIC,
        unit=column.unit,
        ratio=nan,
        difference=nan,
        ci95=(nan, nan),
        p=min(1.0, 2 / comb(clusters_a + clusters_b, clusters_a)),
        p_holm=1.0,
        different="cannot tell",
        matters="cannot tell",
        detectable=nan,
        n_a=n_a,
        n_b=n_b,
        clusters_a=clusters_a,
        clusters_b=clusters_b,
        median_a=median_a,
        median_b=median_b,
        method=METHOD,
        sentence=f"{METRIC}: A {text_a}, B {text_b}",
    )
    return row, float(np.nanmin(sizes)) / bound


def _judged(row: ComparedMetric, factor: float, limit: float, tests: int) -> ComparedMetric:
    """Return the row with its answers; `factor`: how far all sizes lie above the bound."""
    p = min(1.0, row.p * tests)
    different: Answer = "yes" if p < LEVEL and factor > 1 else "cannot tell"
    matters: Answer = "yes" if different == "yes" and factor > 1 + limit and is_larger(row) else "cannot tell"
    return replace(row, p_holm=p, tests=tests, different=different, matters=matters)


def _levels(row: ComparedMetric) -> str:
    return " ".join(map(str, row.factors.values()))


def _clusters(point: PointSamples, values: Floats) -> int:
    """Return in how many boots, or blocks of one boot, there are values."""
    measured = np.isfinite(values)
    level, unit = replication.highest_level(point.block[measured], point.boot[measured])
    return 1 if level == "repetition" else len(np.unique(unit))
