"""The records: one experiment's or inspection's results as a JSON object that explains itself.

`record.schema.json` beside this file describes every field of an experiment's (`oscope.record/1`),
`inspection.schema.json` those of an inspection's (`oscope.inspection/1`).
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from oscope.model import atomic_write
from oscope.model.errors import UsageError
from oscope.model.factors import Factors
from oscope.model.samples import Column, ExperimentResults, Inspected, PointSamples, Results
from oscope.probe.catalogue import read_conditions
from oscope.statistics import carryover, summarise_point

SCHEMA = "oscope.record/1"
INSPECTION_SCHEMA = "oscope.inspection/1"
_INTEGERS = ("block", "process", "boot", "rep", "started_ns", "iterations")
_REALS = ("raw", "correction")
_FROM_RAW = ("time = (raw - correction) / iterations", "time_ns = (raw - correction) / iterations")
"""How a record describes a time that its raw readings give."""
_CLOCKS = ("tsc", "cntvct", "monotonic_raw")
"""Those whose readings have a frequency, or are in ns."""


def to_record(results: ExperimentResults) -> dict[str, Any]:
    """Return the record of one experiment; numpy arrays in it stand for JSON arrays, NaN for null."""
    points = [p for p in results.points if len(p) or p.skipped is None]
    moved = carryover.find(results) if results.settings.get("order") == "fixed" else {}
    return {
        "schema": SCHEMA,
        "id": results.run_id,
        "experiment": results.experiment,
        "started": results.started,
        "seed": results.seed,
        "title": results.title,
        "question": results.question,
        "workload": results.workload,
        "workload_version": results.workload_version,
        "timing_model": results.timing_model,
        "status": results.status,
        "settings": dict(results.settings),
        "environment": dict(results.environment),
        "factor_types": dict(results.factor_types),
        **({"conditions": _conditions(results)} if results.conditions else {}),
        **_defaults(results),
        "metrics": {
            name: {"unit": c.unit, "better": c.better, "doc": c.doc}
            | ({"null_when": c.null_when} if c.null_when else {})
            for name, c in results.metrics.items()
        },
        "covariates": {name: {"unit": c.unit, "doc": c.doc} for name, c in results.covariates.items()},
        "points": [_point(results, p, moved) for p in points],
        "skipped": [
            {"factors": dict(p.factors), "reason": p.skipped, "remedy": p.remedy, "notes": list(p.notes)}
            for p in results.points
            if p.skipped is not None
        ],
    }


def to_inspection_record(inspected: Inspected) -> dict[str, Any]:
    """Return the record of one inspection."""
    found: dict[str, Any] = {"result": inspected.result}
    if inspected.result is None:
        found = {"skipped": {"reason": inspected.skipped, "remedy": inspected.remedy}}
    return {
        "schema": INSPECTION_SCHEMA,
        "id": inspected.run_id,
        "inspection": inspected.inspection,
        "started": inspected.started,
        "title": inspected.title,
        "question": inspected.question,
        "environment": dict(inspected.environment),
        **found,
    }


def to_json(results: Results) -> bytes:
    """Return the records as JSON: one part gives an object, several an array. NaN becomes null."""
    records = [to_record(e) for e in results.experiments]
    records += [to_inspection_record(i) for i in results.inspections]
    return dump(records[0] if len(records) == 1 else records)


def dump(value: object) -> bytes:
    """Return `value`, in which records may stand, as JSON. NaN and the infinities become null."""
    # In arrays too.
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(value, option=options)


def write(results: Results, destination: str | Path) -> None:
    """Write the records to a file, whole or not at all; `-` is standard output. Raises OscopeError."""
    write_out(to_json(results), destination)


def write_out(text: bytes, destination: str | Path) -> None:
    """Write `text` to a file, whole or not at all; `-` is standard output. Raises OscopeError."""
    if str(destination) == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        return
    atomic_write.write_bytes(Path(destination), text)


def read(path: str | Path) -> Results:
    """Read the records of a file; UsageError where it is not one."""
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror})", remedy="give a file written by --json"
        ) from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error})", remedy="give a file written by --json") from error
    if data == []:
        raise UsageError(f"{path} holds no record", remedy="give a file written by --json")
    try:
        return from_records(data if isinstance(data, list) else [data])
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", remedy=error.remedy) from error


def from_records(data: Sequence[Any]) -> Results:
    """Return the results from which `to_json` made these records. UsageError where one is no such record."""
    experiments, inspections = [], []
    for one in data:
        if isinstance(one, Mapping) and one.get("schema") == INSPECTION_SCHEMA:
            inspections.append(from_inspection_record(one))
        else:
            experiments.append(from_record(one))
    return Results(tuple(experiments), tuple(inspections))


def from_record(data: Mapping[str, Any]) -> ExperimentResults:
    """Return the results from which `to_record` made `data`. UsageError where it is not such a record."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise UsageError(f"not an {SCHEMA} but {found!r}", remedy="give a file written by --json")
    with _telling_malformed():
        found = _read_record(data)
        _check_values(found)
        return found


def from_inspection_record(data: Mapping[str, Any]) -> Inspected:
    """Return what `to_inspection_record` made `data` from. UsageError where it is not such a record."""
    with _telling_malformed():
        # A record has one of the two.
        skip = None if "result" in data else data["skipped"]
        return Inspected(
            run_id=data["id"],
            inspection=data["inspection"],
            title=data["title"],
            question=data["question"],
            started=data["started"],
            environment=data.get("environment", {}),
            result=None if skip else data["result"],
            skipped=skip["reason"] if skip else None,
            remedy=skip["remedy"] if skip else None,
        )


@contextlib.contextmanager
def _telling_malformed() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UsageError(
            f"the record is malformed ({error!r})", remedy="write it anew with --json"
        ) from error


def _check_values(results: ExperimentResults) -> None:
    """Raise UsageError where a time is not what its raw reading gives, as the record describes it.

    Each process finds the clock's frequency anew, and a busy machine disturbs that: 1 % is allowed.
    """
    clock = results.environment.get("clock") or {}
    frequency = 1e9 if clock.get("kind") == "monotonic_raw" else clock.get("hz")
    described = results.timing_model.startswith(_FROM_RAW) and "time_ns" in results.metrics
    if not described or clock.get("kind") not in _CLOCKS or not frequency or results.environment.get("guest"):
        return
    for point in results.points:
        values = point.metrics["time_ns"]
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = (point.raw - point.correction) / point.iterations * (1e9 / frequency)
        wrong = np.flatnonzero(np.isfinite(values) & ~np.isclose(values, expected, rtol=1e-2, atol=1e-3))
        if len(wrong):
            at = wrong[0]
            where = " ".join(
                [results.experiment, *(f"{name}={level}" for name, level in point.factors.items())]
            )
            raise UsageError(
                f"run {results.run_id} was changed after it was measured: {where}: time_ns of "
                f"sample {at + 1} is {values[at]:.6g}, and its raw reading gives {expected[at]:.6g}",
                remedy="take the record as it was written",
            )


def _read_record(data: Mapping[str, Any]) -> ExperimentResults:
    skips = {_key(s["factors"]): s for s in data["skipped"]}
    points = [_read_point(p, skips.pop(_key(p["factors"]), None)) for p in data["points"]]
    names = (list(data["metrics"]), list(data["covariates"]))
    points += [_empty_point(s, *names) for s in skips.values()]
    return ExperimentResults(
        run_id=data["id"],
        experiment=data["experiment"],
        workload=data["workload"],
        workload_version=data["workload_version"],
        started=data["started"],
        seed=data["seed"],
        points=tuple(points),
        metrics={
            n: Column(n, m["unit"], m["doc"], m["better"], m.get("null_when"))
            for n, m in data["metrics"].items()
        },
        covariates={n: Column(n, c["unit"], c["doc"]) for n, c in data["covariates"].items()},
        environment=data["environment"],
        title=data["title"],
        question=data["question"],
        timing_model=data["timing_model"],
        status=data["status"],
        settings=data["settings"],
        # Optional: without it levels are written as plain numbers.
        factor_types=data.get("factor_types", {}),
        # Optional, as above: without it every factor has a meaning at every point.
        conditions={name: read_conditions(each) for name, each in data.get("conditions", {}).items()},
        defaults={c["parameter"]: c["default"] for each in data.get("conditions", {}).values() for c in each}
        | data.get("defaults", {}),
    )


def _conditions(results: ExperimentResults) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [
            {
                "parameter": c.parameter,
                "levels": list(c.levels),
                "within": c.within,
                "default": results.defaults[c.parameter],
            }
            for c in every
        ]
        for name, every in results.conditions.items()
    }


def _defaults(results: ExperimentResults) -> dict[str, Factors]:
    """Return the defaults that are not beside a condition already."""
    beside = {condition.parameter for every in results.conditions.values() for condition in every}
    rest = {name: level for name, level in results.defaults.items() if name not in beside}
    return {"defaults": rest} if rest else {}


def _key(factors: Mapping[str, Any]) -> str:
    return json.dumps(factors, sort_keys=True)


def _point(
    results: ExperimentResults,
    point: PointSamples,
    moved: Mapping[tuple[carryover.Key, str], carryover.Range],
) -> dict[str, Any]:
    key = results.key(point)
    return {
        "factors": dict(point.factors),
        "metrics": {
            name: _metric(results, point, name) | _carryover(moved.get((key, name)))
            for name in results.metrics
        },
        "notes": list(point.notes),
        **({"traces": [dict(reading) for reading in point.traces]} if point.traces else {}),
        "samples": {
            **{name: getattr(point, name) for name in (*_INTEGERS, *_REALS)},
            "covariates": {name: np.ascontiguousarray(values) for name, values in point.covariates.items()},
            "failed": {str(index): reason for index, reason in point.failed},
            **(_marks(point) if results.settings.get("again") else {}),
        },
    }


def _marks(point: PointSamples) -> dict[str, Any]:
    return {
        "disturbed": {str(index): name for index, name in point.interference},
        "again": list(point.again),
    }


def _carryover(moved: carryover.Range | None) -> dict[str, Any]:
    return {} if moved is None else {"carryover": [moved.low, moved.high]}


def _metric(experiment: ExperimentResults, point: PointSamples, name: str) -> dict[str, Any]:
    summary = summarise_point(experiment, point, name)
    return {
        "unit": experiment.metrics[name].unit,
        "n": summary.n,
        "mean": summary.mean,
        "median": summary.median,
        "std": summary.std,
        "min": summary.minimum,
        "max": summary.maximum,
        "ci95": list(summary.ci95) if summary.ci95 is not None else None,
        "representative": summary.representative,
        "reason": summary.reason,
        "level": summary.level,
        "values": np.ascontiguousarray(point.metrics[name]),
    }


def _read_point(data: Mapping[str, Any], skip: Mapping[str, Any] | None) -> PointSamples:
    samples = data["samples"]
    arrays: dict[str, Any] = {name: np.array(samples[name], dtype=np.int64) for name in _INTEGERS}
    arrays |= {name: np.array(samples[name], dtype=np.float64) for name in _REALS}
    metrics = {name: np.array(m["values"], dtype=np.float64) for name, m in data["metrics"].items()}
    covariates = {name: np.array(values, dtype=np.float64) for name, values in samples["covariates"].items()}
    for name, values in {**arrays, **metrics, **covariates}.items():
        if values.shape != arrays["block"].shape:
            raise ValueError(f"{name} has not as many values as there are samples")
    return PointSamples(
        factors=data["factors"],
        metrics=metrics,
        covariates=covariates,
        failed=tuple((int(index), reason) for index, reason in samples["failed"].items()),
        # Only of runs that repeat after interference.
        interference=tuple((int(index), name) for index, name in samples.get("disturbed", {}).items()),
        again=tuple(samples.get("again", ())),
        notes=tuple(data["notes"]),
        skipped=skip["reason"] if skip else None,
        remedy=skip["remedy"] if skip else None,
        # Only of points that were traced.
        traces=tuple(data.get("traces", ())),
        **arrays,
    )


def _empty_point(skip: Mapping[str, Any], metrics: Sequence[str], covariates: Sequence[str]) -> PointSamples:
    arrays: dict[str, Any] = {name: np.empty(0, np.int64) for name in _INTEGERS}
    arrays |= {name: np.empty(0) for name in _REALS}
    return PointSamples(
        factors=skip["factors"],
        metrics={name: np.empty(0) for name in metrics},
        covariates={name: np.empty(0) for name in covariates},
        notes=tuple(skip["notes"]),
        skipped=skip["reason"],
        remedy=skip["remedy"],
        **arrays,
    )
