"""Runs the linters and all tests in stages: what fails soonest first, with the time of each stage.

    python tools/run_tests.py [--full] [STAGE]...

Without a STAGE all run: `lint`, `rust`, `parallel` (Python tests, several at a time) and `alone` (Python
tests that measure, or use what the machine has only once). A failed `lint` ends the run; of the other stages
all run. `--full` adds the tests that are long by nature. See docs/testing.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "target" / "tests"
SLOWEST = 10
FULL = "OSCOPE_TEST_FULL"
"""Set to 1 for the tests: nothing is shortened."""


@dataclass(frozen=True)
class Stage:
    """Commands that run one after the other until one fails."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def lint() -> Stage:
    """Return the checks that run nothing of the project."""
    python = (sys.executable, "-m")
    return Stage(
        "lint",
        (
            (*python, "ruff", "check", "."),
            (*python, "ruff", "format", "--check", "."),
            ("cargo", "fmt", "--all", "--check"),
            (*python, "mypy"),
            ("cargo", "clippy", "--locked", "--all-targets", "--", "-D", "warnings"),
        ),
    )


def rust() -> Stage:
    """Return the Rust tests."""
    return Stage("rust", ((sys.executable, "tools/rust_tests.py"),))


def python(name: str, marks: str, workers: int, full: bool) -> Stage:
    """Return the Python tests with these marks, on `workers` processes; 0 is this one."""
    chosen = marks if full else f"{marks} and not full"
    # Which module goes to which worker, tests/conftest.py decides.
    distribution = ("-n", str(workers), "--dist", "loadscope", "--no-loadscope-reorder")
    command = (sys.executable, "-m", "pytest", "-m", chosen, *distribution)
    return Stage(name, ((*command, f"--junitxml={RESULTS / name}.xml"),), {FULL: "1"} if full else {})


def stages(full: bool) -> dict[str, Stage]:
    """Return all stages by name, in the order in which they run."""
    # One more than CPUs: many tests wait, for a server or a time limit.
    workers = len(os.sched_getaffinity(0)) + 1
    every = (
        lint(),
        rust(),
        python("parallel", "not alone", workers, full),
        python("alone", "alone", 0, full),
    )
    return {stage.name: stage for stage in every}


def carry_out(stage: Stage) -> bool:
    """Run the stage's commands with their output on this terminal; return whether all succeeded."""
    for command in stage.commands:
        print(f"== {stage.name}: {' '.join(command)}", flush=True)
        done = subprocess.run(command, cwd=ROOT, env=os.environ | stage.environment, check=False)
        if done.returncode != 0:
            return False
    return True


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
    known = stages(full=False)
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("stage", nargs="*", help="all if none is named", metavar=f"STAGE: {', '.join(known)}")
    parser.add_argument("--full", action="store_true", help="also the tests that are long by nature")
    wanted = parser.parse_args()
    if unknown := set(wanted.stage) - set(known):
        parser.error(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for old in RESULTS.glob("*.xml"):
        old.unlink()
    outcomes: list[tuple[str, float, bool]] = []
    for name, stage in stages(wanted.full).items():
        if wanted.stage and name not in wanted.stage:
            continue
        begun = time.monotonic()
        passed = carry_out(stage)
        outcomes.append((name, time.monotonic() - begun, passed))
        if name == "lint" and not passed:
            break
    report(outcomes)
    return 0 if all(passed for _, _, passed in outcomes) else 1


def report(outcomes: Sequence[tuple[str, float, bool]]) -> None:
    """Print the slowest tests, and the time and outcome of each stage."""
    if found := slowest(sorted(RESULTS.glob("*.xml"))):
        print(f"\nThe {len(found)} slowest Python tests:")
        for seconds, name in found:
            print(f"{seconds:8.1f} s  {name}")
    print("\nStages:")
    for name, seconds, passed in outcomes:
        print(f"{seconds:8.1f} s  {name}: {'passed' if passed else 'FAILED'}")
    print(f"{sum(seconds for _, seconds, _ in outcomes):8.1f} s  in all")


if __name__ == "__main__":
    sys.exit(main())
