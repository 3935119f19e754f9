"""Runs the linters and all tests in stages: what fails soonest first, with the time of each stage.

    python tools/run_tests.py [--full] [STAGE]...

Without a STAGE all run: beside each other `lint` and `clippy`, then beside each other `rust` and `parallel`
(Python tests, several at a time), then `alone` (tests that measure, or use what the machine has only once). A
failed `lint` or `clippy` ends the run; of the other stages all run. `--full` adds the tests that are long by
nature. See docs/testing.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import rust_tests

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "target" / "tests"
SLOWEST = 10
CHECKS = ("lint", "clippy")
"""The stages without which nothing else runs."""
FULL = "OSCOPE_TEST_FULL"
"""Set to 1 for the tests: nothing is shortened."""
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""Kept whatever the user has set: without it each process of pytest rewrites all tests for 7 s of CPU."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""For NumPy's linear algebra: its other threads wait in a loop for small products, 5 % of the CPU time."""

WORKERS = 5 * len(os.sched_getaffinity(0)) // 2
"""Many tests wait: of two CPUs a seventh was idle with three workers, a tenth with four."""


@dataclass(frozen=True)
class Stage:
    """Commands that run in sequence."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    to_the_end: bool = False
    """Whether the others run when one has failed."""


CRATES = (("--workspace", "--exclude", rust_tests.APART), ("--package", rust_tests.APART))
"""The crates, in the two parts that cargo builds for the Rust tests."""
LINT_IMPORTS = str(Path(sys.executable).with_name("lint-imports"))
"""Checks the order of the packages; it has no module to run."""


def checks() -> tuple[Stage, Stage]:
    """Return what runs nothing of the project: quick checks and mypy, and what compiles."""
    python = (sys.executable, "-m")
    # As the tests are built: what macros and build scripts need is then compiled already.
    clippy = ("cargo", "clippy", "--release", "--locked", "--all-targets")
    warnings = ("--", "-D", "warnings")
    lint = Stage(
        "lint",
        (
            (*python, "ruff", "check", "."),
            (*python, "ruff", "format", "--check", "."),
            ("cargo", "fmt", "--all", "--check"),
            (*python, "mypy"),
            (LINT_IMPORTS,),
            (sys.executable, "tools/import_graph.py", "--check"),
            (sys.executable, "tools/late_imports.py"),
            (sys.executable, "tools/vocabulary.py"),
            # Among others the length of lines, which rustfmt leaves as it is in comments.
            (*python, "pytest", "-q", "tests/test_rust_layout.py"),
            # Once for all workers, each of which would else rewrite all tests: the bytecode is kept.
            (*python, "pytest", "--collect-only", "-qq"),
        ),
        BYTECODE,
    )
    return lint, Stage("clippy", tuple((*clippy, *part, *warnings) for part in CRATES))


def isolated(propagation: str, *command: str) -> tuple[str, ...]:
    """Return a command with mounts of its own where this is root: the end of a mount waits for its copies."""
    own = ("unshare", "--mount", "--propagation", propagation) if os.geteuid() == 0 else ()
    return (*own, *command)


def rust(group: str) -> tuple[str, ...]:
    """Return the command that runs the Rust tests of a group."""
    # The mounts of these tests are not copied into the namespaces that the Python tests make.
    return isolated("private", sys.executable, "tools/rust_tests.py", f"--{group}")


def alone_modules() -> tuple[str, ...]:
    """Return the test modules in which the mark `alone` stands."""
    found = (file for file in sorted(ROOT.glob("tests/test_*.py")) if "mark.alone" in file.read_text())
    return tuple(str(file.relative_to(ROOT)) for file in found)


def python(name: str, marks: str, workers: int, full: bool) -> tuple[str, ...]:
    """Return the command that runs the Python tests with these marks on `workers` processes (0: one)."""
    chosen = marks if full else f"{marks} and not full"
    # Which module goes to which worker, tests/conftest.py decides.
    distribution = ("-n", str(workers), "--dist", "loadscope", "--no-loadscope-reorder")
    # To collect all modules takes 10 s of CPU.
    modules = alone_modules() if marks == "alone" else ()
    command = (sys.executable, "-m", "pytest", "-m", chosen, *distribution, *modules)
    # Shared: what one test unmounts goes from the namespaces too that others have made meanwhile.
    return isolated("shared", *command, f"--junitxml={RESULTS / name}.xml")


def python_tests(full: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the two commands that run all Python tests: several at a time, and those that run alone."""
    return python("parallel", "not alone", WORKERS, full), python("alone", "alone", 0, full)


def stages(full: bool) -> tuple[tuple[Stage, ...], ...]:
    """Return all stages in the order in which they run; those of a group run beside each other."""
    environment = BYTECODE | ONE_THREAD | ({FULL: "1"} if full else {})
    parallel, alone = python_tests(full)
    return (
        checks(),
        (Stage("parallel", (parallel,), environment), Stage("rust", (rust("shared"),))),
        (Stage("alone", (rust("alone"), alone), environment, to_the_end=True),),
    )


@dataclass(frozen=True)
class Outcome:
    """What came of a stage."""

    name: str
    seconds: float
    passed: bool


def carry_out(stage: Stage, *, beside: bool) -> Outcome:
    """Run the stage's commands; `beside` another stage, their output waits until they have ended."""
    begun, passed = time.monotonic(), True
    for command in stage.commands:
        print(f"== {stage.name}: {' '.join(command)}", flush=True)
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | stage.environment,
            stdout=subprocess.PIPE if beside else None,
            stderr=subprocess.STDOUT if beside else None,
            check=False,
        )
        if beside:
            sys.stdout.flush()
            sys.stdout.buffer.write(done.stdout)
            sys.stdout.flush()
        passed = passed and done.returncode == 0
        if not passed and not stage.to_the_end:
            break
    return Outcome(stage.name, time.monotonic() - begun, passed)


def carry_out_together(group: Sequence[Stage]) -> list[Outcome]:
    """Run stages beside each other: the first with its output on this terminal."""
    with ThreadPoolExecutor(len(group)) as pool:
        started = [pool.submit(carry_out, stage, beside=stage is not group[0]) for stage in group]
        return [each.result() for each in started]


def slowest(files: Sequence[Path]) -> list[tuple[float, str]]:
    """Return the slowest tests of pytest's result files with their seconds, the slowest first."""
    cases = [case for file in files if file.exists() for case in ET.parse(file).iter("testcase")]  # noqa: S314 (our own)
    named = (
        (float(case.get("time", "0")), f"{case.get('classname')}::{case.get('name')}".partition("@")[0])
        for case in cases
    )
    return sorted(named, reverse=True)[:SLOWEST]


def main() -> int:
    """Run the stages that were asked for; return 1 if any failed."""
    known = [stage.name for group in stages(full=False) for stage in group]
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("stage", nargs="*", help="all if none is named", metavar=f"STAGE: {', '.join(known)}")
    parser.add_argument("--full", action="store_true", help="also the tests that are long by nature")
    options = parser.parse_args()
    if unknown := set(options.stage) - set(known):
        parser.error(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for old in RESULTS.glob("*.xml"):
        old.unlink()
    outcomes: list[Outcome] = []
    begun = time.monotonic()
    for every in stages(options.full):
        group = [stage for stage in every if not options.stage or stage.name in options.stage]
        if group:
            outcomes += carry_out_together(group)
        if any(outcome.name in CHECKS and not outcome.passed for outcome in outcomes):
            break
    report(outcomes, time.monotonic() - begun)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def report(outcomes: Sequence[Outcome], seconds: float) -> None:
    """Print the slowest tests, and the time and outcome of each stage."""
    if found := slowest(sorted(RESULTS.glob("*.xml"))):
        print(f"\nThe {len(found)} slowest Python tests:")
        for duration, name in found:
            print(f"{duration:8.1f} s  {name}")
    print("\nStages:")
    for each in outcomes:
        print(f"{each.seconds:8.1f} s  {each.name}: {'passed' if each.passed else 'FAILED'}")
    print(f"{seconds:8.1f} s  in all")


if __name__ == "__main__":
    sys.exit(main())
