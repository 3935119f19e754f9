"""Invented results of the file systems' lab with known causes in them, for tests of what reads results.

Time of an operation: START_NS for its system + bytes at RATE + TRIPS round trips. oscope-fs waits for few
round trips and moves whole files; NFS waits for many and moves little.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np

import synthetic
import synthetic_instructions
from oscope import labs
from oscope.labs.fs import LOCAL, OPERATIONS
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from oscope.probe import instructions
from synthetic_disk import Maker

MEBIBYTE = 1 << 20
SIZE, FILES = 64 * MEBIBYTE, 200
RATE = 400.0 * MEBIBYTE
"""Bytes a second of the line."""
START_NS = {"local": 0.5e6, "oscope": 2e6, "sshfs": 2e6, "nfs": 1e6}
TRIPS: Mapping[str, Mapping[str, float]] = {
    "oscope": {
        **dict.fromkeys(("read-first", "change-block", "append"), 6.0),
        **dict.fromkeys(("create", "read-small", "unpack", "git-status"), 300.0),
        "read-again": 1.0,
        "read-random": 0.0,
        "list": 2.0,
    },
    "sshfs": {**dict.fromkeys(OPERATIONS, 500.0), "list": 2.0, "append": 5.0},
    "nfs": {
        **dict.fromkeys(OPERATIONS, 400.0),
        **dict.fromkeys(("change-block", "append"), 4.0),
        "list": 2.0,
    },
}
"""Round trips that are waited for, by system and operation."""
MOVED_WHOLE = {
    "oscope": ("read-first", "change-block", "append"),
    "sshfs": ("read-first",),
    "nfs": ("read-first",),
}
SMALL_BYTES = 64 << 10
PACKET = 1024
NOTES = {
    "local": (),
    "oscope": ("oscope-fs 0.1.0, without passthrough",),
    "sshfs": ("sshfs 3.7.3",),
    "nfs": ("NFS 4.2, sync",),
}
COLUMNS = tuple(
    Column(name, unit, name.replace("_", " "), better)
    for name, unit, better in (
        ("time_ns", "ns", "less"),
        ("bytes", "B", None),
        ("bytes_per_s", "B/s", "more"),
        ("files", "1", None),
        ("open_ns", "ns", "less"),
        ("close_ns", "ns", "less"),
        ("received_bytes", "B", None),
        ("sent_bytes", "B", None),
        ("received_packets", "1", None),
        ("sent_packets", "1", None),
    )
)


def line_bytes(system: str, operation: str, size: int) -> float:
    """Return the bytes that cross the line."""
    if system == LOCAL:
        return 0.0
    whole = operation in MOVED_WHOLE[system]
    both = system == "oscope" and operation in ("change-block", "append")
    return float(size * (2 if both else 1) if whole else SMALL_BYTES)


def time_ns(factors: Mapping[str, Level]) -> float:
    """Return the time of an operation."""
    system, operation = str(factors["system"]), str(factors["operation"])
    trips = TRIPS[system][operation] if system != LOCAL else 0.0
    moved = line_bytes(system, operation, int(factors["size"]))
    return START_NS[system] + moved / RATE * 1e9 + trips * 2 * float(factors["delay"]) * 1e9


def used(maker: Maker, factors: Mapping[str, Level]) -> PointSamples:
    """Return a point of the workload `fs.compare`."""
    system, operation, size = str(factors["system"]), str(factors["operation"]), int(factors["size"])
    time = time_ns(factors) * maker.spread()
    moved = line_bytes(system, operation, size)
    there = np.nan if system == LOCAL else 1.0
    metrics = {
        "time_ns": time,
        "bytes": size,
        "bytes_per_s": size / (time / 1e9),
        "files": 1,
        "open_ns": time * 0.4,
        "close_ns": time * 0.1,
        "received_bytes": there * moved * 0.75,
        "sent_bytes": there * moved * 0.25,
        "received_packets": there * moved / PACKET / 2,
        "sent_packets": there * moved / PACKET / 2,
    }
    return maker.point(factors, metrics, notes=NOTES[system])


def experiment(name: str, seed: int = 0, profile: str = "full") -> ExperimentResults:
    """Return every point of an experiment's design; `fs.compare` in an emulated guest."""
    maker, known = Maker(seed), labs.experiment(name)
    design = known.full if profile == "full" else known.quick
    assert design is not None
    assert known.exclude is not None
    # A size of their own, so that what is found again does not hang on the designs'.
    factors = {**design.factors, "size": (SIZE,), "files": (FILES,)}
    product = (dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values()))
    points = tuple(used(maker, factors) for factors in product if not known.exclude(factors))
    made = synthetic._results(name, points, COLUMNS, "time = raw - correction")
    environment = {**made.environment, "cpu": {**made.environment["cpu"], "allowed": [0, 1]}}
    if known.guest is not None:
        guest = synthetic_instructions.guest("base", clock="wall")
        environment = {**guest, "clock": synthetic.ENVIRONMENT["clock"]}
    return dataclasses.replace(made, environment=environment)


def survey() -> Results:
    """All experiments of the lab."""
    return Results(tuple(experiment(each.name) for each in labs.lab("fs").experiments))


sections = synthetic.sections_of("fs")


def counted(made: ExperimentResults) -> ExperimentResults:
    """Return the results of a guest as the instructions clock would have them: the same figures, counted."""
    names = {name: instructions.translate_names([name])[0] for name in made.metrics}
    columns = {names[name]: column for name, column in made.metrics.items()}
    units = {name: "instructions" if column.unit == "ns" else column.unit for name, column in columns.items()}
    return dataclasses.replace(
        made,
        points=tuple(
            dataclasses.replace(
                point, metrics={names[name]: values for name, values in point.metrics.items()}
            )
            for point in made.points
        ),
        metrics={
            name: dataclasses.replace(column, name=name, unit=units[name]) for name, column in columns.items()
        },
        environment=synthetic_instructions.guest("base"),
    )
