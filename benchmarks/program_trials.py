"""Trials of two programs whose difference is known: `oscope bench` beside hyperfine, with the same time.

    python benchmarks/program_trials.py measure benchmarks/trials/programs.npz [--rounds 100] [--until 14:30]
    python benchmarks/program_trials.py judge benchmarks/trials/programs.npz

In a round each tool measures two equal programs, and one beside one that takes 2 % longer, in random order.
The file has every time to a microsecond, so that others can judge anew. `measure` adds to an existing file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import oscope
from bars import searching
from measuring import compile_c
from oscope.analysis.calibration.peers import HYPERFINE, RULES, WELCH
from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples
from oscope.programs.findings import Findings
from oscope.statistics import compare_pairs
from oscope.statistics.rate import Rate

EFFECTS = (0.0, 0.02)
"""By which part of its time the second program takes longer."""
TOOLS = ("oscope", "hyperfine")
SECONDS = 10.0
"""What a trial may measure for."""
PROGRAM_S = 0.005
"""What the first program takes."""
CALIBRATION_RUNS = 40
CALIBRATION_STEPS = 2_000_000
STEP_S = 1e-6
"""To which times are kept."""
OSCOPE, BY_CPU = "oscope", "oscope --metric cpu_ns"
METRICS = {OSCOPE: "time_ns", BY_CPU: "cpu_ns"}
METHODS = (OSCOPE, BY_CPU, HYPERFINE, WELCH)
Counts = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Side:
    """The runs of one program, in the order in which they were measured."""

    wall: Counts
    """Microseconds from the start to the end."""
    cpu: Counts
    """Microseconds on a CPU; empty where the tool has none of single runs."""
    block: Counts
    """The block of each run; empty where the tool has no blocks."""


@dataclass(frozen=True)
class Trial:
    """One measurement of two programs by one tool."""

    tool: str
    effect: float
    load: float
    """The load average of the last minute, before it began."""
    seconds: float
    """What it took in all."""
    sides: tuple[Side, Side]

    @property
    def measuring_s(self) -> float:
        """Seconds in which the programs ran under the clock."""
        return float(sum(side.wall.sum() for side in self.sides)) * STEP_S

    @property
    def runs(self) -> int:
        """Number of runs of both programs."""
        return sum(len(side.wall) for side in self.sides)


class Programs:
    """Programs that take a wanted time on this machine."""

    def __init__(self) -> None:
        self._program = str(compile_c("busy", "-O1", "-static"))
        start_s, some_s = (self._least_s(steps) for steps in (0, CALIBRATION_STEPS))
        self._start_s = start_s
        self._steps_per_s = CALIBRATION_STEPS / (some_s - start_s)

    def _least_s(self, steps: int) -> float:
        """Return the least time of many runs: others that use the machine add to a time."""
        least = math.inf
        for _ in range(CALIBRATION_RUNS):
            begin = time.perf_counter()
            subprocess.run([self._program, str(steps)], check=True)
            least = min(least, time.perf_counter() - begin)
        return least

    def taking(self, seconds: float) -> list[str]:
        """Return the command that takes so long, its start included."""
        steps = round((seconds - self._start_s) * self._steps_per_s)
        return [self._program, str(max(steps, 0))]


def measure(programs: Programs, tool: str, effect: float, seconds: float = SECONDS) -> Trial:
    """Have a tool measure two programs for so many seconds."""
    commands = [programs.taking(PROGRAM_S * (1 + share)) for share in (0.0, effect)]
    load, begin = os.getloadavg()[0], time.monotonic()
    sides = _by_oscope(commands, seconds) if tool == OSCOPE else _by_hyperfine(commands, seconds)
    return Trial(tool, effect, load, time.monotonic() - begin, sides)


def _by_oscope(commands: Sequence[Sequence[str]], seconds: float) -> tuple[Side, Side]:
    a, b = (
        Side(
            _counts(point.metrics["time_ns"] / 1e9),
            _counts(point.metrics["cpu_ns"] / 1e9),
            point.block.astype(np.uint32),
        )
        for point in findings(commands, names=("A", "B"), budget=seconds).experiment.points
    )
    return a, b


def findings(commands: Sequence[Sequence[str]], **options: Any) -> Findings:
    """Have Oscope measure programs with these options of `oscope.bench`; nothing of it is kept.

    KeyboardInterrupt where a signal ended it.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = oscope.bench(commands, store=Path(folder) / "bench.db", **options).findings
    if found.experiment.status != "done":
        raise KeyboardInterrupt
    return found


def _by_hyperfine(commands: Sequence[Sequence[str]], seconds: float) -> tuple[Side, Side]:
    nothing = np.zeros(0, np.uint32)
    a, b = (Side(_counts(times), nothing, nothing) for times in hyperfine(commands, seconds))
    return a, b


def hyperfine(commands: Sequence[Sequence[str]], seconds: float) -> list[Floats]:
    """Have hyperfine measure programs without a shell for so long; return the seconds of their runs."""
    results = hyperfine_results(commands, f"--min-benchmarking-time={seconds / len(commands)}")
    return [np.array(result["times"]) for result in results]


def hyperfine_results(commands: Sequence[Sequence[str]], *options: str) -> list[dict[str, Any]]:
    """Have hyperfine measure programs without a shell; return what it exports of each."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "found.json"
        words = ["hyperfine", "--shell=none", "--warmup=1", "--style=none", f"--export-json={target}"]
        lines = [shlex.join(command) for command in commands]
        subprocess.run([*words, *options, *lines], check=True, capture_output=True, env=searching())
        results: list[dict[str, Any]] = json.loads(target.read_text())["results"]
    return results


def _counts(seconds: Floats) -> Counts:
    return np.round(seconds / STEP_S).astype(np.uint32)


def write(target: Path, trials: Sequence[Trial]) -> None:
    """Write trials into a file."""
    entries: list[dict[str, Any]] = [
        {
            "tool": trial.tool,
            "effect": trial.effect,
            "load": round(trial.load, 2),
            "seconds": round(trial.seconds, 3),
            "counts": [[len(side.wall), len(side.cpu), len(side.block)] for side in trial.sides],
        }
        for trial in trials
    ]
    arrays: dict[str, Any] = {
        name: np.concatenate([np.zeros(0, np.uint32), *(getattr(s, name) for t in trials for s in t.sides)])
        for name in ("wall", "cpu", "block")
    }
    made = target.with_name(f".{target.name}.tmp")
    with made.open("wb") as file:
        np.savez_compressed(file, trials=np.array(json.dumps(entries)), **arrays)
    made.replace(target)


def read(place: Path) -> list[Trial]:
    """Read a file of trials."""
    with np.load(place) as file:
        entries = json.loads(str(file["trials"]))
        left = {name: file[name] for name in ("wall", "cpu", "block")}
    trials = []
    for entry in entries:
        sides = []
        for counts in entry["counts"]:
            parts = {}
            for name, count in zip(left, counts, strict=True):
                parts[name], left[name] = left[name][:count], left[name][count:]
            sides.append(Side(**parts))
        a, b = sides
        trials.append(Trial(entry["tool"], entry["effect"], entry["load"], entry["seconds"], (a, b)))
    return trials


def finds(trial: Trial, method: str) -> bool:
    """Say whether a method takes the programs of a trial for different, and the right one for the slower."""
    if method in METRICS:
        found, slower = _oscope_finds(trial, METRICS[method])
    else:
        a, b = (side.wall.astype(float) * STEP_S for side in trial.sides)
        verdict = RULES[method](a, b)
        found, slower = verdict.different, verdict.ratio > 1
    return found and (slower or not trial.effect)


def _oscope_finds(trial: Trial, metric: str) -> tuple[bool, bool]:
    """Judge as `oscope bench` does: see oscope.programs.findings."""
    results = _results(trial, metric)
    a, b = results.points
    (row,) = compare_pairs(results, [(a, b)], metric).rows
    return row.different == "yes", row.ratio > 1


def _results(trial: Trial, metric: str) -> ExperimentResults:
    points = []
    for number, side in enumerate(trial.sides):
        values = (side.wall if metric == "time_ns" else side.cpu).astype(float) * (STEP_S * 1e9)
        block = side.block.astype(np.int64)
        zeros, count = np.zeros(len(values)), np.arange(len(values))
        points.append(
            PointSamples(
                factors={"command": "AB"[number]},
                block=block,
                process=block + 1,
                boot=np.zeros(len(values), dtype=np.int64),
                rep=count,
                # Only the order of the blocks counts.
                started_ns=block * 10**9 + count,
                raw=zeros,
                iterations=np.ones(len(values), dtype=np.int64),
                correction=zeros,
                metrics={metric: values},
                covariates={},
            )
        )
    return ExperimentResults(
        "run",
        "command.run",
        "command.run",
        1,
        "",
        0,
        tuple(points),
        {metric: Column(metric, "ns", better="less")},
        {},
        {},
    )


def rate(trials: Sequence[Trial], method: str, effect: float) -> Rate:
    """Return in how many of the trials a method finds a difference."""
    tool = OSCOPE if method in METRICS else "hyperfine"
    own = [trial for trial in trials if trial.tool == tool and trial.effect == effect]
    return Rate(sum(finds(trial, method) for trial in own), len(own))


def lines(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield what each method finds, and how long the tools took."""
    for effect, method in product(EFFECTS, METHODS):
        what = f"{effect:.0%} slower" if effect else "equal programs"
        yield f"{what}, {method}: a difference found in {rate(trials, method, effect)}"
    for tool in TOOLS:
        own = [trial for trial in trials if trial.tool == tool]
        if own:
            took, measuring, runs, load = (
                np.median(column)
                for column in zip(*((t.seconds, t.measuring_s, t.runs, t.load) for t in own), strict=True)
            )
            least, most = min(t.load for t in own), max(t.load for t in own)
            yield (
                f"{tool}: a trial took {took:.1f} s, of which the programs ran {measuring:.1f} s in "
                f"{runs:.0f} runs; load average {load:.1f} ({least:.1f} to {most:.1f})"
            )


def rounds(programs: Programs, count: int, seconds: float = SECONDS, seed: int = 1) -> Iterator[Trial]:
    """Yield the trials of so many rounds as they are measured."""
    random = np.random.default_rng(seed)
    kinds = list(product(EFFECTS, TOOLS))
    for _ in range(count):
        for index in random.permutation(len(kinds)):
            effect, tool = kinds[index]
            yield measure(programs, tool, effect, seconds)


def main(words: Sequence[str] | None = None) -> int:
    """Measure or judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="measure trials, and add them to a file")
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--rounds", type=int, default=100)
    measuring.add_argument("--seconds", type=float, default=SECONDS, help="of a trial")
    measuring.add_argument("--until", type=datetime.fromisoformat, help="begin no trial after this time")
    judging = commands.add_parser("judge", help="judge the trials of files anew")
    judging.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args(words)
    if given.command == "measure":
        trials = read(given.file) if given.file.exists() else []
        for trial in rounds(Programs(), given.rounds, given.seconds, seed=len(trials)):
            trials.append(trial)
            write(given.file, trials)
            print(_line(trial), file=sys.stderr)
            if given.until is not None and datetime.now() >= given.until:
                break
    else:
        trials = [trial for file in given.files for trial in read(file)]
    for line in lines(trials):
        print(line)
    return 0


def _line(trial: Trial) -> str:
    methods = [name for name in METHODS if (name in METRICS) == (trial.tool == OSCOPE)]
    found = ", ".join(f"{method}: {'differ' if finds(trial, method) else '-'}" for method in methods)
    return (
        f"{trial.effect:.0%} {found}; {trial.seconds:.1f} s, {trial.measuring_s:.1f} s under the clock, "
        f"{trial.runs} runs, load {trial.load:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
