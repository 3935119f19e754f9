"""All samples of an experiment, packed for the report so that a browser unpacks them bit for bit.

A million samples must fit beside the figures, so a column is stored as what is new in it:

- whole numbers as steps from the one before, or as offsets from their median;
- a float as the distance, in units in the last place, from a prediction: a base column times a ratio that is
  fixed within a probe process. The base is the corrected raw reading of one iteration, or a column stored
  before; a metric in nanoseconds then costs next to nothing, and is exact whatever it was computed from;
- differences are folded to unsigned (zigzag), split into byte planes (Blosc's shuffle) and gzipped.

`decode` is the reference for the browser's decoder in `report.js`; tests compare both with the samples.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oscope.model.samples import ExperimentResults, Floats, Ints, PointSamples

Bytes = npt.NDArray[np.uint8]
Column = Floats | Ints

EXACT_WHOLE = 2.0**53
"""Above it a double cannot hold every whole number."""
NEAR_ULPS = 1 << 20
"""A prediction is used if the median miss is below this: 20 of a double's 52 bits."""
COMPRESSION = 6
_BASE = frozenset({"raw", "correction", "iterations"})
"""The columns from which the corrected reading of one iteration follows."""


@dataclass(frozen=True)
class Packed:
    """The samples of one experiment: what the page embeds."""

    header: Mapping[str, Any]
    """Plain values: points with their counts, columns in order with their encoding, number of rows."""
    payload: Sequence[str]
    """gzip + base64 of each column's byte planes, in the header's order; empty for a constant."""
    left_out: Sequence[str]
    """Columns for which there was no room."""

    @property
    def size(self) -> int:
        """Bytes of text that the payload takes in the page."""
        return sum(map(len, self.payload))


def pack(experiment: ExperimentResults, room: int) -> Packed:
    """Pack every sample of `experiment` into at most `room` bytes of text, the most useful columns first."""
    points = [point for point in experiment.points if len(point)]
    columns = _columns(experiment, points)
    runs = _process_runs(columns["process"].astype(np.int64))
    stored: dict[str, Floats] = {}
    header: list[dict[str, Any]] = []
    payload: list[str] = []
    left_out: list[str] = []
    for name in _by_use(experiment, columns):
        encoding, planes = _encode(columns[name], stored, runs)
        text = (
            base64.b64encode(gzip.compress(planes.tobytes(), COMPRESSION, mtime=0)).decode()
            if planes.size
            else ""
        )
        if len(text) > room:
            left_out.append(name)
            continue
        room -= len(text)
        if columns[name].dtype == np.float64:
            stored[name] = columns[name].astype(np.float64, copy=False)
        header.append({"name": name, **encoding})
        payload.append(text)
        if {column["name"] for column in header} >= _BASE:
            stored.setdefault("each", _each(columns))
    return Packed(_header(experiment, points, header, runs), payload, left_out)


def _columns(experiment: ExperimentResults, points: Sequence[PointSamples]) -> dict[str, Column]:
    """Return the columns, each with the values of all points in sequence."""

    def joined(name: str) -> Any:
        parts = [getattr(point, name) for point in points]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def gathered(name: str, group: str) -> Floats:
        parts = [getattr(point, group).get(name, np.full(len(point), np.nan)) for point in points]
        return np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)

    columns = {
        name: joined(name) for name in ("block", "process", "boot", "rep", "raw", "iterations", "correction")
    }
    columns |= {name: gathered(name, "metrics") for name in experiment.metrics}
    # A covariate may have a metric's name, such as instructions.
    columns |= {
        f"covariate_{name}" if name in columns else name: gathered(name, "covariates")
        for name in experiment.covariates
    }
    return columns | {"started_ns": joined("started_ns")}


def _by_use(experiment: ExperimentResults, columns: Mapping[str, Any]) -> list[str]:
    """Return the column names, the most useful in front: later ones are left out where there is no room."""
    # Whole-numbered metrics go before the others, which may then be predicted from them.
    metrics = sorted(experiment.metrics, key=lambda name: not _whole(columns[name]))
    first = [*sorted(_BASE), *metrics, "block", "process", "boot", "rep"]
    return [*first, *(name for name in columns if name not in first)]


def _each(columns: Mapping[str, Any]) -> Floats:
    """Return the corrected reading of one iteration, in ticks: what most metrics follow from."""
    with np.errstate(all="ignore"):
        return np.asarray((columns["raw"] - columns["correction"]) / columns["iterations"], dtype=np.float64)


def _process_runs(process: Ints) -> list[int]:
    """Return the lengths of the stretches of samples taken by one process."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(process)) + 1, [len(process)]])
    return np.diff(starts).tolist() if len(process) else []


def _encode(
    values: Column, stored: Mapping[str, Floats], runs: Sequence[int]
) -> tuple[dict[str, Any], Bytes]:
    """Return how a column is encoded, and its byte planes."""
    nothing = np.zeros(0, np.uint8)
    if _constant(values):
        return {"kind": "constant", "value": _plain(values[0]) if len(values) else None}, nothing
    if values.dtype != np.float64 or _whole(values):
        kind, first, differences = _differences(values.astype(np.int64))
        description, planes = _fold(differences)
        return {"kind": kind, "first": str(first), **description}, planes
    floats = values.astype(np.float64, copy=False)
    base, ratios, misses = _prediction(floats, stored, runs)
    description, planes = _fold(misses)
    return {"kind": "float", "base": base, "ratios": ratios, **description}, planes


def _differences(whole: Ints) -> tuple[str, int, Ints]:
    """Return whole numbers as steps from the one before or as offsets from the median, what is smaller."""
    steps, middle = np.diff(whole, prepend=whole[:1]), int(np.median(whole))
    offsets = whole - middle
    if np.abs(steps).sum(dtype=np.float64) <= np.abs(offsets).sum(dtype=np.float64):
        return "steps", int(whole[0]), steps
    return "offsets", middle, offsets


def _constant(values: Column) -> bool:
    """Say whether one number that JSON can write stands for all, bit for bit; all NaN count as one (null)."""
    if len(values) == 0 or np.isnan(values).all():
        return True
    bits = values.view(np.int64)
    return bool(
        np.isfinite(values[0]) and (bits == bits[0]).all() and not (values[0] == 0 and np.signbit(values[0]))
    )


def _plain(value: Any) -> float | None:
    number = float(value)
    return None if np.isnan(number) else number


def _whole(values: Column) -> bool:
    """Say whether a whole number stands for each value, bit for bit."""
    if not np.isfinite(values).all() or np.abs(values).max(initial=0) >= EXACT_WHOLE:
        return False
    return bool((values == np.rint(values)).all() and not np.signbit(values[values == 0]).any())


def _prediction(
    values: Floats, stored: Mapping[str, Floats], runs: Sequence[int]
) -> tuple[str | None, list[float], Ints]:
    """Return a base column, its ratio within each process, and by how many last places each value is off."""
    for name, base in stored.items():
        ratios = _ratios(values, base, runs)
        misses = values.view(np.int64) - predicted(base, ratios, runs).view(np.int64)
        # A miss may wrap around; that is exact too, since the decoder wraps back.
        if np.median(np.abs(misses.astype(np.float64))) < NEAR_ULPS:
            return name, ratios, misses
    return None, [], values.view(np.int64).copy()


def _ratios(values: Floats, base: Floats, runs: Sequence[int]) -> list[float]:
    """Return values over base in each stretch of one process, from its first usable sample; 1 without one."""
    with np.errstate(all="ignore"):
        ratio = values / base
    found, begin = [], 0
    for length in runs:
        usable = ratio[begin : begin + length]
        usable = usable[np.isfinite(usable) & (usable != 0)]
        found.append(float(usable[0]) if len(usable) else 1.0)
        begin += length
    return found


def predicted(base: Floats, ratios: Sequence[float], runs: Sequence[int]) -> Floats:
    """Return base × ratio; NaNs in the one form that JavaScript has, too."""
    with np.errstate(over="ignore", invalid="ignore"):
        product: Floats = base * np.repeat(ratios, runs)
    product[np.isnan(product)] = np.nan
    return product


def _fold(differences: Ints) -> tuple[dict[str, int], Bytes]:
    """Return the number of byte planes, and the planes of the folded differences, lowest byte first."""
    folded = ((differences << 1) ^ (differences >> 63)).view(np.uint64)
    planes = max(1, (int(folded.max(initial=0)).bit_length() + 7) // 8)
    split = folded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :planes]
    return {"planes": planes}, np.ascontiguousarray(split.T)


def _header(
    experiment: ExperimentResults,
    points: Sequence[PointSamples],
    columns: Sequence[Mapping[str, Any]],
    runs: Sequence[int],
) -> dict[str, Any]:
    begin, failed = 0, []
    for point in points:
        failed += [[begin + index, reason] for index, reason in point.failed]
        begin += len(point)
    return {
        "run": experiment.run_id,
        "experiment": experiment.experiment,
        "rows": begin,
        "points": [{"factors": dict(point.factors), "rows": len(point)} for point in points],
        "failed": failed,
        "runs": list(runs),
        "columns": list(columns),
    }


def decode(packed: Packed) -> dict[str, Column]:
    """Return the columns of a packed experiment: what the browser's decoder must agree with."""
    rows, runs = packed.header["rows"], packed.header["runs"]
    found: dict[str, Column] = {}
    for column, text in zip(packed.header["columns"], packed.payload, strict=True):
        found[column["name"]] = _decode_column(column, text, rows, found, runs)
    return found


def _decode_column(
    column: Mapping[str, Any], text: str, rows: int, found: Mapping[str, Any], runs: Sequence[int]
) -> Column:
    if column["kind"] == "constant":
        return np.full(rows, np.nan if column["value"] is None else column["value"])
    planes = np.frombuffer(gzip.decompress(base64.b64decode(text)), np.uint8).reshape(column["planes"], rows)
    folded = np.zeros((rows, 8), np.uint8)
    folded[:, : column["planes"]] = planes.T
    unsigned = folded.view("<u8").ravel()
    differences = (unsigned >> np.uint64(1)).view(np.int64) ^ -(unsigned & np.uint64(1)).view(np.int64)
    if column["kind"] in ("steps", "offsets"):
        return int(column["first"]) + (np.cumsum(differences) if column["kind"] == "steps" else differences)
    if column["base"] is None:
        return differences.view(np.float64)
    base = _each(found) if column["base"] == "each" else found[column["base"]]
    return (predicted(base.astype(np.float64), column["ratios"], runs).view(np.int64) + differences).view(
        np.float64
    )
