"""The kits for workloads of one's own: the example of each beside the same loop without a kit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bars import Bar, Bench, Figure, Part, ratio
from measuring import CPU, ROOT, Stepped, compile_program, measure, started
from oscope.probe.process import Probe

KITS = ROOT / "kits"
BUILD_LIMIT_S = 600
STEPS = {"work": 1000}
"""Dependent steps of an iteration: in the C and the Rust example as in the probe's workload `null`."""
LISTED = {"files": 100}
C = Bar("C kit, steps / the probe's own", least=0.98, most=1.02, needs=("gcc",))
RUST = Bar("Rust kit, steps / the probe's own", least=0.98, most=1.02, needs=("cargo",))
PYTHON = Bar("Python kit, a checksum / timeit", least=0.98, most=1.02)
SHELL = Bar("shell kit, ls / a loop of bash", least=0.98, most=1.02, needs=("bash",))
MIN_TIME_NS = 200_000
"""Short, so that most repetitions fall into one time slice of a busy machine; a clock reading is a 5000th."""
REPS = 31

LOOP = """
set -u
source {kit}
iterate() {{ ls "$folder" >/dev/null; }}
check() {{ [[ $(ls "$folder" | wc -l) -eq {files} ]]; }}
taskset -cp {cpu} $$ >/dev/null
folder=$(mktemp -d) && trap 'rm -r "$folder"' EXIT
(cd "$folder" && seq -f file%g {files} | xargs -r touch)
while read -r _; do
    times=()
    for ((rep = 0; rep < {reps}; rep++)); do
        turns={turns} begun=${{EPOCHREALTIME//[!0-9]/}}
        while ((turns-- > 0)); do iterate; done
        times+=($((${{EPOCHREALTIME//[!0-9]/}} - begun)))
        check
    done
    sorted=($(printf '%s\\n' "${{times[@]}}" | sort -n))
    echo $((sorted[0] * 1000 / {turns}))
done
"""
"""The same listing, in a loop of bash: the fastest, since others' work makes a process wait.

The shell has read the kit as well, since a fork takes longer the more memory it has: what the kit adds around
the loop is compared. It looks at the folder in between, as the example does.
"""


@cache
def c_example() -> Path:
    """Return the C kit's example, built."""
    sources = (KITS / "c" / "example.c",)
    return compile_program("kit", sources, ("-O2", "-std=gnu11", "-lm", "-Wno-missing-field-initializers"))


@cache
def rust_example() -> Path:
    """Return the Rust kit's example, built."""
    folder = ROOT / "target" / "kits"
    cargo = shutil.which("cargo") or "cargo"
    words = [cargo, "build", "--release", "--locked", "--example", "mybench", "--target-dir", str(folder)]
    subprocess.run(words, cwd=KITS / "rust", check=True, timeout=BUILD_LIMIT_S, capture_output=True)
    return folder / "release" / "examples" / "mybench"


def times_ns(process: Probe, workload: str, params: Mapping[str, Any], **more: Any) -> list[float]:
    """Have a process measure; return the times of an iteration."""
    return [sample.metrics["time_ns"] or 0.0 for sample in measure(process, workload, params, **more)]


def alternate(
    bench: Bench, sides: Callable[[], tuple[Callable[[], float], Callable[[], float], Callable[[], None]]]
) -> tuple[list[float], list[float]]:
    """Return the figures of two sides, interleaved, from several pairs of fresh processes.

    `sides` starts a pair; the third that it returns ends it.
    """
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(bench.pick(1, 6, 20)):
        kit, other, end = sides()
        try:
            for step in range(bench.pick(1, 10, 20)):
                for side in (0, 1) if step % 2 else (1, 0):
                    found[side].append((kit, other)[side]())
        finally:
            end()
    return found


def beside_the_probe(bench: Bench) -> Iterator[Figure]:
    """Measure the C and the Rust example beside the probe's own workload of the same steps."""
    for bar, build, workload in ((C, c_example, "steps.c"), (RUST, rust_example, "steps.rust")):
        if bar.lacks:
            continue
        program = build()

        def pair(program: Path = program, workload: str = workload) -> Any:
            kit, own = Probe([program, "run"]), started()

            def end() -> None:
                kit.close()
                own.close()

            return (
                lambda: float(np.median(times_ns(kit, workload, STEPS, reps=REPS, min_time_ns=MIN_TIME_NS))),
                lambda: float(np.median(times_ns(own, "null", STEPS, reps=REPS, min_time_ns=MIN_TIME_NS))),
                end,
            )

        kit, own = alternate(bench, pair)
        yield ratio(bar, kit, own, f"of {np.median(own):.0f} ns")


def python(bench: Bench) -> Iterator[Figure]:
    """Measure a checksum by the Python kit's loop beside timeit's."""
    command = (sys.executable, ROOT / "benchmarks" / "kit_timeit.py", "run")

    def pair() -> Any:
        process = Probe(command)

        def step(workload: str, metric: str) -> float:
            samples = measure(process, workload, {}, reps=REPS, min_time_ns=MIN_TIME_NS)
            return float(np.median([sample.metrics[metric] or 0.0 for sample in samples]))

        return lambda: step("crc.kit", "time_ns"), lambda: step("crc.timeit", "timeit_ns"), process.close

    kit, other = alternate(bench, pair)
    yield ratio(PYTHON, kit, other, f"of {np.median(other) / 1000:.1f} µs")


def shell(bench: Bench) -> Iterator[Figure]:
    """Measure the shell example's listing beside a loop of bash."""
    turns, reps = 4, 11
    source = KITS / "shell" / "oscope.sh"
    loop = LOOP.format(cpu=CPU, kit=source, files=LISTED["files"], reps=reps, turns=turns)

    def step(kit: Probe) -> float:
        return min(times_ns(kit, "list.folder", LISTED, reps=reps, iterations=turns))

    def pair() -> Any:
        # In a session of its own, as the kit is: CPUs are shared between sessions (sched(7), autogroup).
        kit = Probe(["bash", KITS / "shell" / "example.sh", "run"])
        other = Stepped(("setsid", "bash", "-c", loop))

        def end() -> None:
            kit.close()
            other.close()

        return lambda: step(kit), other.step, end

    kit, other = alternate(bench, pair)
    yield ratio(SHELL, kit, other, f"of {np.median(other) / 1000:.1f} µs")


PARTS = (
    Part(
        "The C and the Rust example, 1000 dependent steps, beside the probe's workload `null` with as many; "
        "requests are interleaved.",
        (C, RUST),
        beside_the_probe,
        30,
        120,
    ),
    Part("A checksum by the Python kit's loop beside timeit's, in one process.", (PYTHON,), python, None, 90),
    Part(
        "The shell example lists a folder beside a loop of bash that does; the fastest of 11 repetitions.",
        (SHELL,),
        shell,
        None,
        200,
    ),
)
