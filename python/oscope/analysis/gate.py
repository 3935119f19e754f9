"""A gate between a baseline and a run: whether anything is proven to be worse by more than a limit.

Every metric that is better less or more is compared at every point that both have. The headlines of all
experiments are corrected for together (Holm), the other metrics of each experiment by Benjamini and Hochberg.
How much unchanged runs differ is taken from earlier runs, where there are some. A row is

- `regressed` if there is a difference and its whole interval lies beyond the limit, in the worse direction;
- `improved` if there is a difference, and it is for the better;
- `within` if the whole interval lies on this side of the limit;
- `not proven` otherwise: a regression of the limit or more can neither be shown nor ruled out.

A row that is not proven, and where a difference as large as the limit would not have been found (with 80 %
power), *cannot tell*: more blocks are needed, and their number is reported.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, log1p, sqrt
from typing import Any, Literal

import numpy as np

from oscope.analysis.launcher_size import is_larger, sizes_beside_launcher
from oscope.analysis.missing import Missing, has_value, missing_points
from oscope.analysis.side_warnings import side_warnings
from oscope.model.errors import NoCommonValueError, UsageError
from oscope.model.samples import ExperimentResults, Results
from oscope.statistics import ComparedMetric, compare_results
from oscope.statistics.effect import LEVEL, Estimate
from oscope.statistics.estimating import FEWEST_CLUSTERS
from oscope.statistics.multiplicity import one_of_each_quantity, quantity
from oscope.statistics.quantiles import TailDifference

SCHEMA = "oscope.gate/1"
MOST_CLUSTERS = 1000
"""More blocks than this are not asked for: the spread allows no such limit."""

Verdict = Literal["regressed", "not proven", "within", "improved"]
_WORST_FIRST: Sequence[Verdict] = ("regressed", "not proven", "within", "improved")


@dataclass(frozen=True)
class GateRow:
    """One metric at one point of an experiment, and what the gate makes of it."""

    experiment: ExperimentResults
    """The baseline's."""
    row: ComparedMetric
    better: str
    """"less" or "more"."""
    verdict: Verdict
    can_tell: bool
    """Whether a verdict was reached, or a difference as large as the limit would have been found."""
    enough: int | None
    """Blocks (or boots) a side that would find such a difference; None where it can, or nobody knows."""

    @property
    def worse(self) -> float:
        """Return by what factor it is worse, below 1 if better; NaN where there is no ratio.

        Infinite where more is better and nothing is left.
        """
        if self.better == "less":
            return self.row.ratio
        return 1 / self.row.ratio if self.row.ratio else inf


@dataclass(frozen=True)
class Tail:
    """A quantile of the slow tail of an experiment that differs."""

    experiment: ExperimentResults
    """The baseline's."""
    found: TailDifference


@dataclass(frozen=True)
class Gate:
    """The answers, worst first, and what to keep in mind about them."""

    limit: float
    rows: tuple[GateRow, ...]
    missing: tuple[Missing, ...]
    caveats: tuple[str, ...]
    baseline: tuple[str, ...]
    """Ids of the runs compared with."""
    runs: tuple[str, ...]
    tails: tuple[Tail, ...] = ()
    """The slow tails that differ: reported, never judged."""
    calibrated: Mapping[str, Any] | None = None
    """The newest calibration that the judged run carries, in brief; None where its machine had none."""

    @property
    def regressed(self) -> tuple[GateRow, ...]:
        """The rows with a proven regression."""
        return tuple(judged for judged in self.rows if judged.verdict == "regressed")

    @property
    def blind(self) -> tuple[GateRow, ...]:
        """The rows that cannot tell."""
        return tuple(judged for judged in self.rows if not judged.can_tell)

    @property
    def detectable(self) -> float:
        """Smallest relative difference that would have been found in every row; NaN where a row has none."""
        return float(np.max([judged.row.detectable for judged in self.rows]))

    @property
    def provable(self) -> float:
        """Smallest relative regression that would have broken the limit in any row, with 80 % power."""
        return (1 + self.limit) * (1 + self.detectable) - 1


def judge(
    baseline: Results,
    run: Results,
    limit: float,
    *,
    metrics: Collection[str] = (),
    allow: Iterable[str] = (),
    earlier: Callable[[ExperimentResults, ExperimentResults], Sequence[ExperimentResults]] = lambda *_: (),
) -> Gate:
    """Hold `run` against `baseline`: regressions are relative, such as 0.03. No `metrics`: all.

    `earlier` gives the runs that tell how much runs of an experiment differ (see `compare_results`).

    An experiment of which nothing can be compared is named among the caveats.

    Raises UsageError where they have nothing in common, where figures do not mean the same (see
    `compare_results`), for an unknown metric, and for a limit that is not above 0.
    """
    pairs, missing = _pair(baseline, run)
    pairs = _only(pairs, frozenset(metrics))
    counts = [_tests(a, b) for a, b in pairs]
    rows, tails, caveats = [], [], []
    lacking: NoCommonValueError | None = None
    for (a, b), (headlines, others) in zip(pairs, counts, strict=True):
        missing += missing_points(a, b)
        beside = sum(own for own, _ in counts) - headlines
        sizes = sizes_beside_launcher(a, b, limit)
        rows += [_of_size(a, row) for row in sizes]
        caveats += [f"{a.experiment}: {row.sentence}" for row in sizes]
        caveats += [f"{s.experiment}: run {s.run_id} is {s.status}" for s in (a, b) if s.status != "done"]
        try:
            comparison = compare_results(
                a, b, threshold=limit, allow=allow, earlier=earlier(a, b), beside=beside
            )
        except NoCommonValueError as error:
            lacking = lacking or error
            caveats += [] if sizes else [f"{a.experiment}: {error.message}"]
            continue
        family = {True: headlines + beside, False: others}
        rows += [
            _judged(a, row, limit, family[quantity(row.metric) == quantity(a.headline)])
            for row in comparison.rows
        ]
        tails += [Tail(a, found) for found in comparison.tails if found.different]
        caveats += [f"{a.experiment}: {caveat}" for caveat in comparison.caveats]
    if lacking is not None and not rows:
        raise lacking
    order = {verdict: place for place, verdict in enumerate(_WORST_FIRST)}
    rows.sort(key=lambda each: (order[each.verdict], -each.worse if isfinite(each.worse) else -float("inf")))
    ids = [tuple(dict.fromkeys(side.run_id for side in sides)) for sides in zip(*pairs, strict=True)]
    caveats += side_warnings(zip(*pairs, strict=True))
    notes = tuple(dict.fromkeys(caveats))
    return Gate(
        limit,
        tuple(rows),
        tuple(missing),
        notes,
        ids[0],
        ids[1],
        tuple(tails),
        # One for all experiments of a run.
        calibrated=next((found for _, b in pairs if (found := b.settings.get("calibrated"))), None),
    )


def each_quantity_once(gate: Gate) -> tuple[Gate, tuple[str, ...]]:
    """Return the gate without rows that repeat another one in another unit, and a note that names these.

    What is decided stays: a row whose verdict is another than that of the unit shown is kept.
    """
    shown = {_quantity_at(judged): judged for judged in gate.rows if _stands_for_quantity(judged)}

    def stays(judged: GateRow) -> bool:
        instead = shown.get(_quantity_at(judged), judged)
        return instead is judged or (instead.verdict, instead.can_tell) != (judged.verdict, judged.can_tell)

    rows = tuple(judged for judged in gate.rows if stays(judged))
    left_out = [judged for judged in gate.rows if not stays(judged)]
    instead = dict.fromkeys(
        f"{judged.row.metric} as {shown[_quantity_at(judged)].row.metric}" for judged in left_out
    )
    note = (f"in other units, with --json: {', '.join(instead)}",) if instead else ()
    return replace(gate, rows=rows), note


def _quantity_at(judged: GateRow) -> tuple[object, ...]:
    """Return the experiment, the quantity and the point that a row is about."""
    factors = sorted(judged.row.factors.items())
    return judged.experiment.experiment, quantity(judged.row.metric), *factors


def _stands_for_quantity(judged: GateRow) -> bool:
    """Whether its metric is the one that is shown for its quantity."""
    experiment = judged.experiment
    return judged.row.metric in one_of_each_quantity(experiment.metrics, experiment.headline).values()


def to_object(gate: Gate) -> dict[str, Any]:
    """Return it as an object for JSON (`oscope.gate/1`). Shares are relative (0.03 is 3 %).

    `rows` has every unit of a quantity. What is counted is each quantity once, as in the table.
    """
    counted, _ = each_quantity_once(gate)
    return {
        "schema": SCHEMA,
        "baseline": list(gate.baseline),
        "run": list(gate.runs),
        "max_regression": gate.limit,
        "judged": len(counted.rows),
        "regressed": len(counted.regressed),
        "cannot_tell": len(counted.blind),
        "rows": [_row_object(judged) for judged in gate.rows],
        "missing": [
            {"experiment": m.experiment, "factors": m.factors and dict(m.factors), "metric": m.metric}
            for m in gate.missing
        ],
        "caveats": list(gate.caveats),
        "tails": [_tail_object(tail) for tail in gate.tails],
        "calibrated": gate.calibrated,
    }


def _tail_object(tail: Tail) -> dict[str, Any]:
    found = tail.found
    return {
        "experiment": tail.experiment.experiment,
        "factors": dict(found.factors),
        "metric": found.metric,
        "unit": found.unit,
        "quantile": found.quantile,
        "ratio": found.ratio,
        "difference": found.difference,
        "ci95": list(found.ci95),
        "p": found.p,
        "p_corrected": found.p_corrected,
        "value_baseline": found.value_a,
        "value_run": found.value_b,
        "beyond_baseline": found.beyond_a,
        "beyond_run": found.beyond_b,
        "method": found.method,
    }


def _row_object(judged: GateRow) -> dict[str, Any]:
    row = judged.row
    return {
        "experiment": judged.experiment.experiment,
        "factors": dict(row.factors),
        "metric": row.metric,
        "unit": row.unit,
        "better": judged.better,
        "verdict": judged.verdict,
        "can_tell": judged.can_tell,
        "blocks_needed": judged.enough,
        "ratio": row.ratio,
        "ci95": list(row.ci95),
        "p": row.p,
        "p_holm": row.p_holm,
        "detectable": row.detectable,
        "median_baseline": row.median_a,
        "median_run": row.median_b,
        "clusters_baseline": row.clusters_a,
        "clusters_run": row.clusters_b,
        "method": row.method,
    }


def _pair(
    baseline: Results, run: Results
) -> tuple[list[tuple[ExperimentResults, ExperimentResults]], list[Missing]]:
    """Pair the experiments of both; name those that the run has not."""
    pairs, missing = [], []
    for a in baseline.experiments:
        b = run.get(a.experiment)
        if b is None:
            missing.append(Missing(a.experiment, None, None))
        else:
            pairs.append((a, b))
    if not pairs:
        names = [", ".join(side.names) or "no experiment" for side in (baseline, run)]
        raise UsageError(
            f"the baseline has {names[0]}, the run {names[1]}: nothing in common",
            remedy="name a run of the same experiment",
        )
    return pairs, missing


def _only(
    pairs: list[tuple[ExperimentResults, ExperimentResults]], names: frozenset[str]
) -> list[tuple[ExperimentResults, ExperimentResults]]:
    """Leave only the metrics that are judged: all that are better less or more, or those named."""
    judged = {name for a, _ in pairs for name, column in a.metrics.items() if column.better is not None}
    unknown = names - judged
    if unknown:
        raise UsageError(
            f"no metric {', '.join(sorted(unknown))} to judge", remedy=f"there is {', '.join(sorted(judged))}"
        )
    kept = []
    for a, b in pairs:
        metrics = {n: c for n, c in a.metrics.items() if n in (names or judged) and c.better is not None}
        if metrics:
            kept.append((replace(a, metrics=metrics), b))
    if not kept:
        raise UsageError("nothing to judge", remedy="no metric of the baseline is better less or more")
    return kept


def _tests(a: ExperimentResults, b: ExperimentResults) -> tuple[int, int]:
    """Return how many tests their comparison makes: of the headline, and of other metrics."""
    others = {b.key(point, a): point for point in b.points}
    tests = {
        (number, quantity(name))
        for number, point in enumerate(a.points)
        for name in a.metrics
        if has_value(point, name) and has_value(others.get(a.key(point, b)), name)
    }
    headlines = sum(what == quantity(a.headline) for _, what in tests)
    return headlines, len(tests) - headlines


def _judged(experiment: ExperimentResults, row: ComparedMetric, limit: float, tests: int) -> GateRow:
    better = str(experiment.metrics[row.metric].better)
    is_worse = (row.ratio > 1) == (better == "less")
    low, high = row.ci95
    verdict: Verdict = "not proven"
    if row.different == "yes" and not isfinite(row.ratio):
        verdict = _without_ratio(row, better, limit)
    elif row.matters == "yes" and is_worse:
        verdict = "regressed"
    elif row.different == "yes" and not is_worse:
        verdict = "improved"
    elif (high <= 1 + limit) if better == "less" else (low >= 1 - limit):
        verdict = "within"
    # A difference was seen that the medians of all samples contradict: it was not shown to be none.
    contradicted = row.p_holm < LEVEL and row.different == "cannot tell"
    can_tell = verdict != "not proven" or (row.detectable <= limit and not contradicted)
    return GateRow(
        experiment, row, better, verdict, can_tell, None if can_tell else blocks_needed(row, limit, tests)
    )


def _of_size(experiment: ExperimentResults, row: ComparedMetric) -> GateRow:
    """Judge a size where one side has only a bound."""
    verdict: Verdict = "not proven"
    if row.matters == "yes":
        verdict = "regressed"
    elif not is_larger(row):
        verdict = "improved"
    return GateRow(experiment, row, "less", verdict, verdict != "not proven", None)


def _without_ratio(row: ComparedMetric, better: str, limit: float) -> Verdict:
    """Judge a proven difference from a baseline that is not clearly above 0, of which no share can be taken.

    More than no errors at all is worse by more than any share of them.
    """
    if (row.difference > 0) != (better == "less"):
        return "improved"
    low, high = row.difference_ci95
    least = low if row.difference > 0 else -high
    return "regressed" if least > limit * abs(row.median_a) else "not proven"


def blocks_needed(row: ComparedMetric, share: float, tests: int) -> int | None:
    """Return how many blocks (or boots) a side would find a difference of `share`, with the spread seen.

    The standard error falls with the square root of their number, and the limit of Student's t with their
    degrees of freedom; `tests` rows are corrected for. None where the spread is not known: of one block, of
    values around 0, or where it would take more than `MOST_CLUSTERS`.
    """
    seen = min(row.clusters_a, row.clusters_b)
    if seen < 2 or not isfinite(row.detectable):
        return None
    sides = 1 if row.method.startswith("paired") else 2

    def factor(clusters: int) -> float:
        return Estimate(0, 0, 0, 1, 1.0, sides * (clusters - 1)).detectable(LEVEL / tests)

    error = log1p(row.detectable) * sqrt(seen) / factor(seen)
    counts = range(max(seen + 1, FEWEST_CLUSTERS), MOST_CLUSTERS + 1)
    place = bisect_left(counts, True, key=lambda n: error * factor(n) / sqrt(n) <= log1p(share))
    return counts[place] if place < len(counts) else None
