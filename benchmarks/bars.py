"""What the benchmark modules share: the bar, the probe's answers, and paired ratios."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from oscope.probe import Probe, Request
from oscope.wire import Refusal, Sample

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
CPU = max(os.sched_getaffinity(0))
PROBE = BIN / "oscope-probe"
LIMIT_S = 300.0
_LOOK_S = 0.02


@dataclass(frozen=True)
class Bar:
    """One line of the table: what was measured, what was wanted."""

    name: str
    measured: str
    wanted: str
    met: bool


def probe(*requests: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """Run requests in one fresh probe process; return the samples of each."""
    numbered = [{"id": i, "cpu": CPU, **request} for i, request in enumerate(requests, 1)]
    text = "".join(json.dumps(request) + "\n" for request in numbered)
    answer = subprocess.run(
        [PROBE, "run"], input=text, capture_output=True, text=True, timeout=300, check=True
    )
    samples: list[list[dict[str, Any]]] = [[] for _ in requests]
    for line in answer.stdout.splitlines():
        event = json.loads(line)
        if event["event"] == "error":
            raise RuntimeError(event["message"])
        if event["event"] == "sample":
            if event["failed"]:
                raise RuntimeError(event["failed"])
            samples[event["request"] - 1].append(event)
    return samples


def measure(probe: Probe, workload: str, params: Mapping[str, Any], **more: Any) -> list[Sample]:
    """Have the probe do one request, number 1, and return its samples."""
    samples: list[Sample] = []
    for events in probe.run(Request(1, workload, params, cpu=CPU, **more), silence_limit_s=LIMIT_S):
        for event in events:
            match event:
                case Refusal():
                    raise RuntimeError(event.message)
                case Sample(failed=None):
                    samples.append(event)
                case Sample():
                    raise RuntimeError(event.failed)
    return samples


@cache
def compile_c(name: str, *options: str) -> Path:
    """Build benchmarks/NAME.c with these options of the compiler, or -O2, and return the program."""
    options = options or ("-O2",)
    program = ROOT / "target" / "benchmarks" / "".join((name, *options))
    program.parent.mkdir(parents=True, exist_ok=True)
    source = ROOT / "benchmarks" / f"{name}.c"
    subprocess.run(
        ["gcc", *options, "-Wall", "-Werror", "-pthread", "-o", program, source], check=True, timeout=60
    )
    return program


def interleaved(
    sides: Mapping[str, Callable[[], float]], rounds: int, seed: int = 1
) -> dict[str, list[float]]:
    """Take one value of each side in every round, in an order shuffled anew each round."""
    rng = np.random.default_rng(seed)
    values: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name in rng.permutation(list(sides)):
            values[name].append(sides[name]())
    return values


class Stepped:
    """A program that prints a figure for each line that it reads."""

    def __init__(self, words: Sequence[object]) -> None:
        self._words = [str(word) for word in words]
        self._program = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def step(self) -> float:
        """Return the next figure."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write("\n")
        self._program.stdin.flush()
        return float(self._program.stdout.readline())

    def close(self) -> None:
        """Wait for its end."""
        self._program.communicate(timeout=60)
        if self._program.returncode != 0:
            raise RuntimeError(f"{' '.join(self._words)} failed")


def in_turns(
    workload: str, metric: str, params: Mapping[str, Any], words: Sequence[object], steps: int
) -> tuple[list[float], list[float]]:
    """Return a metric of `workload` and the figures of a stepped program, by four processes each of `steps`.

    Speed drifts by tenths within a fraction of a second here, so that longer turns compare moments.
    """

    def once(process: Probe) -> float:
        value = measure(process, workload, params)[0].metrics[metric]
        assert value is not None
        return value

    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(4):
        with Probe(PROBE) as process, closing(Stepped(words)) as program:
            for step in range(steps):
                turns = (partial(once, process), program.step)
                for side in (0, 1) if step % 2 else (1, 0):
                    found[side].append(turns[side]())
    return found


def peak_memory(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process; return the most memory that it and its children have had, added up, in bytes.

    It is looked at while they run (VmHWM, proc(5)): what wait4(2) tells counts also what the process that
    started them had, of which each is a copy until it executes its own program.
    """
    most: dict[int, int] = {}
    while process.poll() is None:
        for pid in (process.pid, *_children(process.pid)):
            # The last look counts: before a child executes its program, it has the memory of its parent.
            most[pid] = _peak(pid) or most.get(pid, 0)
        time.sleep(_LOOK_S)
    return sum(most.values())


def _children(pid: int) -> list[int]:
    """Return the processes that `pid` has started and that still run."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _peak(pid: int) -> int:
    """Return the most memory that a process has had since it executed its program; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)


def ratio(a: list[float], b: list[float]) -> tuple[float, float, float]:
    """Return the median of the paired ratios a/b and its 95 % interval (BCa bootstrap over rounds)."""
    ratios = np.asarray(a) / np.asarray(b)
    interval = stats.bootstrap((ratios,), np.median, rng=np.random.default_rng(1)).confidence_interval
    return float(np.median(ratios)), float(interval.low), float(interval.high)


def faster(name: str, peer: list[float], ours: list[float], least: float | None) -> Bar:
    """Compare seconds: how many times as fast ours is; without `least` it is only told."""
    middle, low, high = ratio(peer, ours)
    text = f"{middle:.2f} [{low:.2f}, {high:.2f}], {np.median(ours):.3f} s beside {np.median(peer):.3f} s"
    return at_least(name, text, middle, least)


def at_least(name: str, text: str, value: float, least: float | None) -> Bar:
    """Return the bar of a value that has to be `least`; without it, it is only told."""
    wanted = "told only" if least is None else f"at least {least}"
    return Bar(name, text, wanted, met=least is None or value >= least)
