"""Results as pandas tables: a row per sample, and a row per point and metric."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.statistics import summarise_point

_RESERVED = frozenset(
    (
        "run",
        "experiment",
        "block",
        "process",
        "boot",
        "rep",
        "started",
        "iterations",
        "raw",
        "correction",
        "failed",
        "disturbed",
        "again",
    )
)


def to_frame(results: Results) -> pd.DataFrame:
    """Return a row per sample, in the order in which each point's were taken.

    Columns: `run`, `experiment`; the factors; `block`, `process`, `boot`, `rep`, `started` (UTC),
    `iterations`, `raw`, `correction` (both in clock units), `failed` (the reason, or missing), `disturbed`
    (the covariate that shows it, or missing), `again` (whether it was taken because others of its block
    were affected by interference); the metrics and the covariates in their units, as floats, NaN where
    there is no value. A factor, metric or covariate whose name another column has (a factor `block`) carries
    its kind in its name (`factor_block`).
    """
    frames = [_point_frame(e, p) for e in results.experiments for p in e.points if len(p)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=sorted(_RESERVED))


def summary_frame(results: Results) -> pd.DataFrame:
    """Return a row per point and metric.

    Columns: `run`, `experiment`; the factors; `metric`, `unit`, `n`, `effective_n` (how many independent
    samples would tell as much), `mean`, `median`, `std`, `min`, `max`, `ci95_low`, `ci95_high` (of the
    median), `representative`, `level`, `skipped` (why nothing was measured, or missing),
    `failed` (how many of the point's samples failed).
    """
    rows = [
        _summary_row(experiment, point, metric)
        for experiment in results.experiments
        for point in experiment.points
        for metric in experiment.metrics
    ]
    return pd.DataFrame(rows)


def factor_columns(experiment: ExperimentResults, point: PointSamples) -> dict[str, object]:
    """Return a point's factors under the names of their columns."""
    taken = _RESERVED | experiment.metrics.keys() | experiment.covariates.keys()
    return {f"factor_{name}" if name in taken else name: level for name, level in point.factors.items()}


def _covariate(name: str, experiment: ExperimentResults) -> str:
    return f"covariate_{name}" if name in experiment.metrics or name in _RESERVED else name


def _metric(name: str) -> str:
    return f"metric_{name}" if name in _RESERVED else name


def _point_frame(experiment: ExperimentResults, point: PointSamples) -> pd.DataFrame:
    again = np.zeros(len(point), dtype=bool)
    again[list(point.again)] = True
    return pd.DataFrame(
        {
            "run": experiment.run_id,
            "experiment": experiment.experiment,
            **factor_columns(experiment, point),
            "block": point.block,
            "process": point.process,
            "boot": point.boot,
            "rep": point.rep,
            "started": pd.to_datetime(point.started_ns, unit="ns", utc=True),
            "iterations": point.iterations,
            "raw": point.raw,
            "correction": point.correction,
            "failed": _texts(len(point), point.failed),
            "disturbed": _texts(len(point), point.interference),
            "again": again,
            **{_metric(name): values for name, values in point.metrics.items()},
            **{_covariate(name, experiment): values for name, values in point.covariates.items()},
        }
    )


def _texts(count: int, indexed: Iterable[tuple[int, str]]) -> pd.api.extensions.ExtensionArray:
    """Return a column of `count` texts, missing where there is none."""
    texts = np.full(count, None, dtype=object)
    for index, text in indexed:
        texts[index] = text
    return pd.array(texts, dtype="string")


def _summary_row(experiment: ExperimentResults, point: PointSamples, metric: str) -> dict[str, object]:
    row: dict[str, object] = {
        "run": experiment.run_id,
        "experiment": experiment.experiment,
        **factor_columns(experiment, point),
        "metric": metric,
        "unit": experiment.metrics[metric].unit,
    }
    summary = summarise_point(experiment, point, metric)
    low, high = summary.ci95 or (np.nan, np.nan)
    return row | {
        "n": summary.n,
        "effective_n": summary.effective_n,
        "mean": summary.mean,
        "median": summary.median,
        "std": np.nan if summary.std is None else summary.std,
        "min": summary.minimum,
        "max": summary.maximum,
        "ci95_low": low,
        "ci95_high": high,
        "representative": summary.representative,
        "level": summary.level,
        "skipped": point.skipped,
        "failed": len(point.failed),
    }
