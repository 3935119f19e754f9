"""Any program: `oscope bench` beside hyperfine: power, start, resolution, memory, and 100,000 runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import scipy

import oscope
from bars import Bar, Bench, Figure, Part, median, ratio, share
from measuring import ROOT, interleaved
from oscope.analysis.calibration.peers import HYPERFINE, WELCH
from program_trials import (
    BY_CPU,
    EFFECTS,
    METHODS,
    OSCOPE,
    SECONDS,
    Programs,
    findings,
    hyperfine,
    hyperfine_results,
    rate,
    rounds,
    write,
)
from scale import measured

NEEDS = ("hyperfine",)
WORDS = {
    OSCOPE: "oscope bench",
    BY_CPU: "oscope bench by CPU time",
    HYPERFINE: "hyperfine, mean ± σ apart",
    WELCH: "hyperfine, Welch's t-test",
}
POWER = {
    (effect, method): Bar(
        f"{'2 % slower program' if effect else 'equal programs'}: {WORDS[method]} finds a difference",
        "%",
        least=95 if effect and method == OSCOPE else None,
        most=5 if not effect and method == OSCOPE else None,
        by_interval=True,
    )
    for effect in EFFECTS
    for method in METHODS
}
TRIALS = ROOT / "target" / "benchmarks" / "program-trials.npz"
REPORTED = Bar("time of true: oscope bench / hyperfine", most=1.10)
WALL = Bar("all that a run of true takes: oscope bench / hyperfine", most=1.10)
RESOLUTION = Bar("1 ms program, half-width of the interval after 5 s: oscope bench / hyperfine", most=0.5)
RESOLUTION_S, RESOLUTION_PROGRAM_S = 5.0, 0.001
RSS = {
    "oscope": Bar("perl after a 300 MB program: largest resident set, oscope bench", "MiB", most=12),
    "hyperfine": Bar("perl after a 300 MB program: largest resident set, hyperfine", "MiB"),
}
LARGE = "bytearray(300_000_000)"
SMALL = ["perl", "-e", "1"]
"""Larger than the launcher of oscope bench, which reports no size of what is smaller."""
RUNS = 100_000
FEW_RUNS = 100
STORE = Bar("100,000 runs: size of the store", "MB", most=30)
MEMORY = Bar("100,000 runs: memory of oscope bench", "MiB", most=512)
SUMMARY = Bar("100,000 runs: oscope show", "s", most=5)
COMPARE = Bar("100,000 runs: oscope compare with another such run", "s", most=10)


def power(bench: Bench) -> Iterator[Figure]:
    """Have both tools find a difference that is there, and one that is not."""
    trials = list(rounds(Programs(), bench.pick(1, 1, 100), bench.pick(1.0, SECONDS, SECONDS)))
    if bench.pick(False, False, True):
        TRIALS.parent.mkdir(parents=True, exist_ok=True)
        write(TRIALS, trials)
    loads = [trial.load for trial in trials]
    load = f"load average {min(loads):.1f} to {max(loads):.1f}"
    for (effect, method), bar in POWER.items():
        found = rate(trials, method, effect)
        yield share(bar, found.count, found.of, load)


def start(bench: Bench) -> Iterator[Figure]:
    """Measure a program that does nothing."""
    runs = bench.pick(60, 500, 500)
    walls: dict[str, list[float]] = {"oscope": [], "hyperfine": []}

    def by_oscope() -> float:
        (point,) = findings([["true"]], reps=runs).experiment.points
        gaps = np.diff(point.started_ns)[np.diff(point.block) == 0]
        walls["oscope"].append(float(gaps.mean()) / 1e9)
        return float(np.median(point.metrics["time_ns"])) / 1e9

    def by_hyperfine() -> float:
        begin = time.perf_counter()
        (result,) = hyperfine_results([["true"]], f"--runs={runs}")
        walls["hyperfine"].append((time.perf_counter() - begin) / runs)
        return float(result["median"])

    times = interleaved({"oscope": by_oscope, "hyperfine": by_hyperfine}, bench.pick(1, 5, 21))
    for bar, values in ((REPORTED, times), (WALL, walls)):
        each = {name: 1e6 * float(np.median(seconds)) for name, seconds in values.items()}
        detail = f"{each['oscope']:.0f} µs beside {each['hyperfine']:.0f} µs"
        yield ratio(bar, values["oscope"], values["hyperfine"], detail)


def resolution(bench: Bench) -> Iterator[Figure]:
    """Measure a short program for some seconds, and hold the intervals against each other."""
    programs = Programs()
    command, seconds = programs.taking(RESOLUTION_PROGRAM_S), bench.pick(0.5, RESOLUTION_S, RESOLUTION_S)

    def by_oscope() -> float:
        summary = findings([command], budget=seconds).rows[0].summary
        half = None if summary is None else summary.relative_half_width
        if half is None:
            raise RuntimeError("oscope bench has no interval")
        return half

    def by_hyperfine() -> float:
        (times,) = hyperfine([command], seconds)
        reach = float(scipy.stats.t.isf(0.025, len(times) - 1)) * times.std(ddof=1) / np.sqrt(len(times))
        return float(reach / times.mean())

    halves = interleaved({"oscope": by_oscope, "hyperfine": by_hyperfine}, bench.pick(1, 3, 21))
    ours, theirs = (100 * float(np.median(halves[name])) for name in ("oscope", "hyperfine"))
    yield ratio(RESOLUTION, halves["oscope"], halves["hyperfine"], f"{ours:.2g} % beside {theirs:.2g} %")


def memory(bench: Bench) -> Iterator[Figure]:
    """Measure a small program beside a large one."""
    commands = [[sys.executable, "-c", LARGE], SMALL]
    reps = bench.pick(2, 5, 20)
    points = findings(commands, reps=reps).experiment.points
    large, small = (point.metrics["max_rss_bytes"] / 2**20 for point in points)
    beside = f"beside {np.median(large):.0f} MiB"
    yield Figure(RSS["oscope"], float(small.max()), detail=f"the largest of {reps}; {beside}")
    large, small = (
        np.array(result["memory_usage_byte"]) / 2**20
        for result in hyperfine_results(commands, f"--runs={reps}")
    )
    beside = f"beside {np.median(large):.0f} MiB"
    yield Figure(RSS["hyperfine"], float(small.max()), detail=f"the largest of {reps}; {beside}")


def many(bench: Bench) -> Iterator[Figure]:
    """Measure a short program very often, and summarise and compare that."""
    place, runs = bench.folder / "many.db", bench.pick(FEW_RUNS, RUNS, RUNS)
    sizes, peaks = [], []
    for _ in range(2):
        seconds, mib = measured(place, "bench", "--reps", str(runs), "--name", "true", "--", "true")
        sizes.append(sum(file.stat().st_size for file in bench.folder.glob("many.db*")) / 1e6)
        peaks.append(mib)
    detail = f"{seconds:.0f} s, {1e3 * seconds / runs:.2f} ms a run"
    yield Figure(STORE, sizes[0], detail=f"{1e6 * sizes[0] / runs:.0f} bytes a run")
    yield Figure(MEMORY, max(peaks), detail=detail)
    times = [measured(place, "show")[0] for _ in range(bench.pick(1, 3, 7))]
    yield median(SUMMARY, times)
    one, two = (entry.id for entry in oscope.runs(store=place))
    times = [measured(place, "compare", one, two)[0] for _ in range(bench.pick(1, 3, 7))]
    yield median(COMPARE, times)


PARTS = (
    Part(
        "Two programs that take 5 ms, each with a loop of a number of steps that was found on this machine: "
        "equal ones, and one that takes 2 % longer. Each tool measures both for 10 s, interleaved with the "
        "other tool. The verdicts of oscope bench, of hyperfine's own figures (mean ± σ), and of its "
        "scripts/welch_ttest.py. `benchmarks/program_trials.py judge` judges stored trials anew.",
        tuple(POWER.values()),
        power,
        short_s=55,
        full_s=4800,
        needs=NEEDS,
    ),
    Part(
        "A program that does nothing, started without a shell: the median that each tool reports, and the "
        "mean time from one start to the next; interleaved rounds.",
        (REPORTED, WALL),
        start,
        short_s=20,
        full_s=80,
        needs=NEEDS,
    ),
    Part(
        "A program of 1 ms, measured for 5 s by each tool, interleaved: half the 95 % interval over the "
        "figure. Of hyperfine the interval is that of its mean, by Student's t.",
        (RESOLUTION,),
        resolution,
        short_s=35,
        full_s=240,
        needs=NEEDS,
    ),
    Part(
        "A program that uses 300 MB, and perl, which does nothing, measured by one call of each tool.",
        tuple(RSS.values()),
        memory,
        short_s=10,
        full_s=30,
        needs=NEEDS,
    ),
    Part(
        "`oscope bench --reps 100000 -- true`, twice into one store; then commands read it.",
        (STORE, MEMORY, SUMMARY, COMPARE),
        many,
        short_s=None,
        full_s=480,
    ),
)
