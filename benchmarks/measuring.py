"""What the benchmark modules measure with: the probe, compiled peers, interleaved rounds, memory."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from oscope.probe.process import Probe, Request
from oscope.probe.wire import Refusal, Sample

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
CPU = max(os.sched_getaffinity(0))
PROBE = BIN / "oscope-probe"
LIMIT_S = 300.0
_LOOK_S = 0.02


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


def started() -> Probe:
    """Start a probe that measures what it is asked to."""
    return Probe([PROBE, "run"])


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
    return compile_program(name, (ROOT / "benchmarks" / f"{name}.c",), options or ("-O2",))


def compile_program(name: str, sources: Sequence[Path], options: Sequence[str]) -> Path:
    """Build a program of `sources`, unless it is there already, built of the same by the same compiler."""
    words = ["gcc", *options, "-Wall", "-Werror", "-pthread"]
    version = subprocess.run(["gcc", "--version"], capture_output=True, check=True, timeout=60).stdout
    flags = re.search(r"^flags.*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    digest = hashlib.sha256(repr((words, version, flags and flags[0])).encode())
    for source in sources:
        digest.update(source.read_bytes())
    program = ROOT / "target" / "benchmarks" / f"{name}-{digest.hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        # Whoever builds the same at the same time puts the same there.
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            built = Path(folder) / "program"
            subprocess.run([*words, "-o", built, *sources], check=True, timeout=60, capture_output=True)
            built.rename(program)
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


def interleaved_steps(
    workload: str,
    metric: str,
    params: Mapping[str, Any],
    words: Sequence[object],
    steps: int,
    processes: int,
) -> tuple[list[float], list[float]]:
    """Return a metric of `workload` and the figures of a stepped program, by `processes` each of `steps`.

    Speed drifts by tenths within a fraction of a second here, so that longer turns compare moments.
    """

    def once(process: Probe) -> float:
        value = measure(process, workload, params)[0].metrics[metric]
        assert value is not None
        return value

    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(processes):
        with started() as process, closing(Stepped(words)) as program:
            for step in range(steps):
                turns = (partial(once, process), program.step)
                for side in (0, 1) if step % 2 else (1, 0):
                    found[side].append(turns[side]())
    return found


def peak_memory(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process; return the sum of the peak memories of it and its children, in bytes.

    The peaks (VmHWM, proc(5)) are read while the processes run. wait4(2) does not serve: until a process
    executes its own program it is a copy of its parent, whose memory wait4(2) counts too.
    """
    most: dict[int, int] = {}
    while process.poll() is None:
        for pid in (process.pid, *children_of(process.pid)):
            # The last look counts: before a child executes its program, it has the memory of its parent.
            most[pid] = _peak(pid) or most.get(pid, 0)
        time.sleep(_LOOK_S)
    return sum(most.values())


def children_of(pid: int) -> list[int]:
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
