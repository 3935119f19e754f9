"""The kits for workloads of one's own: the example of each beside the same loop without a kit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
SORTED = {"size": 1000, "order": "random"}
LISTED = {"files": 100}
C = Bar("C kit, steps / the probe's own", least=0.98, most=1.02, needs=("gcc",))
RUST = Bar("Rust kit, steps / the probe's own", least=0.98, most=1.02, needs=("cargo",))
PYTHON = Bar("Python kit, sorting / timeit", least=0.98, most=1.02)
SHELL = Bar("shell kit, ls / a loop of bash", least=0.98, most=1.02, needs=("bash",))
MIN_TIME_NS = 200_000
"""Short, so that most repetitions fall into one time slice of a busy machine; a clock reading is a 5000th."""
REPS = 31

TIMEIT = """
import os, random, sys, timeit
os.sched_setaffinity(0, {{{cpu}}})
numbers = list(range({size}))
random.Random(1).shuffle(numbers)
iteration = lambda: sorted(numbers)
timer = timeit.Timer("iteration()", globals=globals())
count, _ = timer.autorange()
count = max(1, round(count * {least_s} / min(timer.repeat(3, count))))
for line in sys.stdin:
    times = timer.repeat({reps}, count)
    print(1e9 * sorted(times)[len(times) // 2] / count, flush=True)
"""
"""The same sorting, by timeit: the median time in ns of as many repetitions, for each line that it reads."""
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


def beside_a_loop(
    bench: Bench,
    bar: Bar,
    command: Sequence[str | Path],
    loop: Sequence[str],
    asked: Mapping[str, Any],
    typical: Callable[[list[float]], Any],
) -> Figure:
    """Measure what a kit's program is `asked` beside a program that has the loop alone.

    `typical` makes one figure of the repetitions of a request, as that program does of its own.
    """

    def pair() -> Any:
        # In a session of its own, as the kit is: CPUs are shared between sessions (sched(7), autogroup).
        kit, other = Probe([*command, "run"]), Stepped(("setsid", *loop))

        def end() -> None:
            kit.close()
            other.close()

        return lambda: float(typical(times_ns(kit, **asked))), other.step, end

    kit, other = alternate(bench, pair)
    return ratio(bar, kit, other, f"of {np.median(other) / 1000:.1f} µs")


def python(bench: Bench) -> Iterator[Figure]:
    """Measure the Python example's sorting beside timeit's."""
    asked = {"workload": "sort.list", "params": SORTED, "reps": REPS, "min_time_ns": MIN_TIME_NS}
    timed = TIMEIT.format(cpu=CPU, size=SORTED["size"], least_s=MIN_TIME_NS / 1e9, reps=REPS)
    command = (sys.executable, KITS / "python" / "example.py")
    yield beside_a_loop(bench, PYTHON, command, (sys.executable, "-c", timed), asked, np.median)


def shell(bench: Bench) -> Iterator[Figure]:
    """Measure the shell example's listing beside a loop of bash."""
    turns = 4
    asked = {"workload": "list.folder", "params": LISTED, "reps": 11, "iterations": turns}
    loop = LOOP.format(
        cpu=CPU, kit=KITS / "shell" / "oscope.sh", files=LISTED["files"], reps=asked["reps"], turns=turns
    )
    command = ("bash", KITS / "shell" / "example.sh")
    yield beside_a_loop(bench, SHELL, command, ("bash", "-c", loop), asked, min)


PARTS = (
    Part(
        "The C and the Rust example, 1000 dependent steps, beside the probe's workload `null` with as many; "
        "requests are interleaved.",
        (C, RUST),
        beside_the_probe,
        30,
        120,
    ),
    Part("The Python example sorts beside timeit, which sorts the same.", (PYTHON,), python, None, 90),
    Part(
        "The shell example lists a folder beside a loop of bash that does; the fastest of 11 repetitions.",
        (SHELL,),
        shell,
        None,
        200,
    ),
)
