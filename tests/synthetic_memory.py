"""Invented results of the memory lab with known causes in them, for tests of what reads results.

A set takes `SET_NS` by pattern and footprint; memory has three levels, and base pages cost more beyond what a
TLB of `TLB_PAGES` reaches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

import synthetic
from oscope import labs
from oscope.labs.memory import FAULTS, FEW_SIZES, FLUSHED, FOOTPRINTS, LINE, MAPPINGS, PAGE_AND_LINE, PATTERNS
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from synthetic import every
from synthetic_disk import MEBIBYTE, Maker, columns

SETS = 32768
SIZE = 1 << 30
PLACES = [(pattern, footprint) for footprint in FOOTPRINTS for pattern in PATTERNS]
SET_NS = dict(zip(PLACES, (3000.0, 4500.0, 6000.0, 9000.0), strict=True))
PAGES = dict(zip(PLACES, (4104.0, 4104.0, 262136.0, 165800.0), strict=True))
FILE_TIME = {"anonymous": 1.0, "private": 1.0, "shared": 1.5}
"""Time of a set against that of anonymous memory."""
SLOWED = 1.4
"""Time of a set beside a competitor over that alone."""
MAJOR = 24.0
"""Major faults beside a competitor."""
CACHES = ((32 << 10, 1.5), (512 << 10, 5.0), (1 << 40, 90.0))
"""Bytes that a level holds, and the time of a load from it, in ns."""
TLB_PAGES = 64
TLB_MISS = 1.5
"""Time of a load on base pages beyond the TLB's reach, over that on huge ones."""
TOUCH_NS = dict(zip(FAULTS, (250.0, 500.0, 400.0, 80_000.0, 700.0, 90_000.0, 30_000.0), strict=True))
SCALES = {"zero-page": 1.9, "anonymous": 1.6}
"""Faults a second by two threads over those by one; the other kinds do not gain."""
SPEED = {"read": 10_000.0, "write": 8_000.0, "copy": 6_000.0}
RESOURCES = ("utime_s", "stime_s", "minflt", "majflt", "maxrss_kib", "inblock", "oublock")
SIMULATED = (
    *("l1d_read_access", "l1d_write_access", "l1d_read_miss", "l1d_write_miss", "l2_miss"),
    *("dtlb_read_miss", "dtlb_write_miss", "stlb_miss"),
)
HARDWARE = ("l1d_read_access", "l1d_write_access", "l1d_read_miss", "dtlb_read_miss", "dtlb_write_miss")
MODEL_ERROR = 1.1
"""Simulated over counted misses."""


def _access_columns() -> tuple[Column, ...]:
    """Return the metrics of the workload memory.access, as it describes them."""
    less = {"time_s": "s", "set_ns": "ns", "init_time_s": "s", "utime_s": "s", "stime_s": "s"}
    less |= {"init_utime_s": "s", "init_stime_s": "s"}
    counts = [name for name in RESOURCES if not name.endswith("_s")]
    counts += [f"init_{name}" for name in counts]
    counts += ["resident_kib", "touched_pages", "accesses", "reads", "writes", "pressure_resident_kib"]
    units = {name: "KiB" if name.endswith("_kib") else "1" for name in counts}
    units |= dict.fromkeys((*HARDWARE, *(f"simulated_{name}" for name in SIMULATED)), "1")
    units |= {"simulation_rate": "1/s", "pressure_wait_s": "s"}
    return (
        *(Column(name, unit, name, "less") for name, unit in less.items()),
        *(Column(name, unit, name, None) for name, unit in units.items()),
    )


ACCESS = _access_columns()


def results(name: str, points: list[PointSamples], metrics: tuple[Column, ...]) -> ExperimentResults:
    """Return the points as results of the experiment `name`, its headline metrics in front."""
    made = synthetic._results(name, tuple(points), metrics, "time_s = (raw - correction) / hz")
    order = [each for each in labs.experiment(name).metrics if each in made.metrics]
    kept = {each: made.metrics[each] for each in (*order, *made.metrics)}
    return dataclasses.replace(made, metrics=kept)


def walking(
    maker: Maker, factors: Mapping[str, Level], slow: float = 1.0, **changes: np.ndarray | float
) -> PointSamples:
    """Return a point of memory.access, `slow` times as slow as `SET_NS`; `changes` are metrics."""
    where = (str(factors["pattern"]), str(factors["footprint"]))
    sets = int(factors["sets"])
    pages = PAGES[where] * int(factors["size"]) / SIZE
    time = SET_NS[where] * slow * maker.spread()
    accesses = sets * 16 * 512
    metrics: dict[str, np.ndarray | float] = {
        **{column.name: np.nan for column in ACCESS},
        "time_s": time * sets / 1e9,
        "set_ns": time,
        "init_time_s": 1e-5 * maker.spread(),
        "utime_s": 0.9 * time * sets / 1e9,
        "stime_s": 0.1 * time * sets / 1e9,
        **dict.fromkeys(("majflt", "inblock", "oublock"), 0.0),
        "minflt": pages * (1.8 if where[0] == "random" else 1.0),
        "maxrss_kib": pages * 4,
        # The initialisation has the flush of the L1 in it.
        **{f"init_{name}": 0.0 for name in RESOURCES},
        "init_maxrss_kib": FLUSHED / 1024,
        "init_minflt": FLUSHED / 4096,
        "resident_kib": pages * 4,
        "touched_pages": pages,
        "accesses": float(accesses),
        "reads": accesses * 7 / 8,
        "writes": accesses / 8,
        **changes,
    }
    return maker.point(factors, metrics)


def access(seed: int = 30, slow: Mapping[tuple[str, str], float] | None = None) -> ExperimentResults:
    """`memory.access`: each pattern over each footprint, `slow` times as slow where it says so."""
    maker = Maker(seed)
    own = {"mapping": "anonymous", "counters": "none", "sets": SETS, "size": SIZE}
    factors = every(pattern=PATTERNS, footprint=FOOTPRINTS, **own)
    slower = {**dict.fromkeys(SET_NS, 1.0), **(slow or {})}
    points = [walking(maker, each, slower[str(each["pattern"]), str(each["footprint"])]) for each in factors]
    return results("memory.access", points, ACCESS)


def misses(pattern: str, footprint: str) -> dict[str, float]:
    """Return the events of a set that the model counts."""
    times = (3.0 if pattern == "random" else 1.0) * (10.0 if footprint == "full" else 1.0)
    return {
        "l1d_read_access": 7168.0,
        "l1d_write_access": 1024.0,
        **dict.fromkeys(("l1d_read_miss", "l1d_write_miss"), 50 * times),
        "l2_miss": 20 * times,
        **dict.fromkeys(("dtlb_read_miss", "dtlb_write_miss"), 2 * times),
        "stlb_miss": 0.5 * times,
    }


def counters(seed: int = 31, hardware: bool = False) -> ExperimentResults:
    """`memory.counters`: simulated; with `hardware` also counted, `MODEL_ERROR` less of each miss."""
    maker = Maker(seed, 1)
    sets, points = 4096, []
    own = {"footprint": FOOTPRINTS, "mapping": "anonymous", "sets": sets, "size": SIZE}
    for factors in every(counters=("simulated", "hardware"), pattern=PATTERNS, **own):
        events = misses(str(factors["pattern"]), str(factors["footprint"]))
        if factors["counters"] == "simulated":
            found = {f"simulated_{name}": value * sets for name, value in events.items()}
            notes = ("simulated: L1D 32 KiB, 8 ways",)
        elif hardware:
            errors = {name: MODEL_ERROR if name.endswith("miss") else 1.0 for name in HARDWARE}
            found, notes = {name: events[name] * sets / error for name, error in errors.items()}, ()
        else:
            points.append(skipped(factors))
            continue
        points.append(dataclasses.replace(walking(maker, factors, **found), notes=notes))
    return results("memory.counters", points, ACCESS)


def skipped(factors: Mapping[str, Level]) -> PointSamples:
    """Return a point that this machine cannot measure."""
    missing = synthetic.skipped(factors)
    return dataclasses.replace(missing, skipped="this machine has no PMU", remedy="counters=simulated")


def mapping(seed: int = 32, dirtied: float = 1.0) -> ExperimentResults:
    """`memory.mapping`: shared memory is charged 8 blocks for each page touched, times `dirtied`."""
    maker = Maker(seed)
    points = []
    own = {"footprint": "first64th", "sets": 4096, "size": 256 * MEBIBYTE}
    for factors in every(mapping=MAPPINGS, pattern=PATTERNS, **own):
        kind = str(factors["mapping"])
        pages = PAGES[str(factors["pattern"]), "first64th"] / 4
        blocks = np.round(8 * pages * dirtied) if kind == "shared" else 0.0
        points.append(walking(maker, factors, FILE_TIME[kind], oublock=blocks))
    return results("memory.mapping", points, ACCESS)


def initialise(seed: int = 33, synced: float = 1.0) -> ExperimentResults:
    """`memory.initialise`: msync of a shared mapping writes `synced` times the file's blocks."""
    maker = Maker(seed)
    size, points = 64 * MEBIBYTE, []
    for kind in MAPPINGS:
        for populate, how in ((False, "none"), (False, "memset"), (False, "memset+msync"), (True, "none")):
            factors: dict[str, Level] = {"mapping": kind, "populate": populate, "initialise": how}
            factors |= {"pattern": "seq", "footprint": "first64th", "sets": 4096, "size": size}
            prepared = populate or how != "none"
            blocks = size / 512 * synced if kind == "shared" and how == "memset+msync" else 0.0
            changes = {
                "init_time_s": (0.05 if prepared else 1e-5) * maker.spread(),
                "init_maxrss_kib": (FLUSHED + (size if prepared else 0)) / 1024,
                "init_minflt": (FLUSHED + (size if how != "none" else 0)) / 4096,
                "init_oublock": blocks,
                "minflt": 0.0 if prepared else 257.0,
            }
            points.append(walking(maker, factors, **changes))
    return results("memory.initialise", points, ACCESS)


def pressure(seed: int = 34, slowed: float = SLOWED, major: float = MAJOR) -> ExperimentResults:
    """`memory.pressure`: beside a competitor sets take `slowed` times as long, with `major` major faults."""
    maker = Maker(seed)
    points = []
    for level in ("none", "compete"):
        factors: dict[str, Level] = {"pressure": level, "pattern": "random", "footprint": "first64th"}
        factors |= {"initialise": "memset", "sets": SETS, "size": SIZE, "limit": SIZE // 2, "wait": 1.0}
        changes: dict[str, np.ndarray | float] = {}
        if level == "compete":
            changes = {"majflt": major, "inblock": 8 * major}
            changes["pressure_resident_kib"] = 240_000.0 * maker.spread()
            changes["pressure_wait_s"] = 1.5 * maker.spread()
        points.append(walking(maker, factors, slowed if level == "compete" else 1.0, **changes))
    return results("memory.pressure", points, ACCESS)


def load_ns(size: int, stride: int, pages: str) -> float:
    """Return the time of a load from the level that holds the lines, by a TLB that may not hold the pages."""
    lines = size // stride * LINE
    time = next(time for held, time in CACHES if lines <= held)
    return time * (TLB_MISS if pages == "4K" and size > TLB_PAGES * 4096 else 1.0)


def latency(seed: int = 35, sizes: tuple[int, ...] = FEW_SIZES) -> ExperimentResults:
    """`memory.latency`: three levels of caches, and a TLB."""
    maker = Maker(seed)
    points = []
    for factors in every(size=sizes, stride=(LINE, PAGE_AND_LINE), pages=("4K", "huge"), order="random"):
        size, stride = int(factors["size"]), int(factors["stride"])
        if size >= 2 * stride:
            time = load_ns(size, stride, str(factors["pages"])) * maker.spread()
            points.append(maker.point(factors, {"time_ns": time, "cycles": time * synthetic.HZ / 1e9}))
    return results("memory.latency", points, (synthetic.TIME, synthetic.CYCLES))


def bandwidth(seed: int = 36, cores: float = 1.7) -> ExperimentResults:
    """`memory.bandwidth`: all cores reach `cores` times what one does."""
    maker = Maker(seed)
    points = []
    for factors in every(operation=tuple(SPEED), threads=(1, 0), window=(0, 1 << 17), size=64 * MEBIBYTE):
        alone = factors["threads"] == 1
        if factors["window"] and not (alone and factors["operation"] == "copy"):
            continue
        faster = (1.0 if alone else cores) * (2 if factors["window"] else 1)
        rate = SPEED[str(factors["operation"])] * faster * maker.spread()
        points.append(maker.point(factors, {"throughput": rate, "time_s": 64 / rate}))
    return results("memory.bandwidth", points, columns("throughput", "time_s"))


def fault(seed: int = 37, scales: Mapping[str, float] = SCALES) -> ExperimentResults:
    """`memory.fault`: each kind by one thread and two, which gain by `scales`."""
    maker = Maker(seed)
    points = []
    for kind, touch in TOUCH_NS.items():
        for threads in (1, 2):
            gain = scales.get(kind, 1.0) if threads == 2 else 1.0
            time = touch * maker.spread()
            major = 1024.0 if kind in ("file-major", "swap-in") else 0.0
            metrics = {
                "time_ns": time * threads / gain,
                "faults_per_s": 1e9 / time * gain,
                "faults": 1024,
                "major": major,
            }
            points.append(maker.point({"kind": kind, "threads": threads, "size": 4 * MEBIBYTE}, metrics))
    made = (
        Column("time_ns", "ns", "time of a fault", "less"),
        Column("faults_per_s", "1/s", "faults of all threads in a second", "more"),
        Column("faults", "1", "faults", None),
        Column("major", "1", "major faults", None),
    )
    return results("memory.fault", points, made)


def survey() -> Results:
    """All experiments of the lab."""
    made = (access, mapping, initialise, pressure, fault, counters, latency, bandwidth)
    return Results(tuple(each() for each in made))


sections = synthetic.sections_of("memory")
