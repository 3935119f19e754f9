"""Builds the Rust tests once, and runs each in a process of its own.

    python tools/rust_tests.py [--build | --shared | --alone] [PART OF A NAME]

A process of its own, because many tests open files on a mount, and a child that another test of the same
process starts has those files too until it executes its program: closing them then waits for that mount.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ("--locked", "--release", "--message-format=json-render-diagnostics")
APART = "oscope-conformance"
"""Starts the programs; with its dependencies, cargo would compile all that these use a second time."""
STEPS = (
    ("build",),
    ("test", "--no-run", "--workspace", "--exclude", APART),
    ("test", "--no-run", "--package", APART),
)
AT_A_TIME = 2
"""Tests that each CPU runs at a time: many wait, for a server or for a time to retry."""
ALONE = tuple(f"oscope_probe {name}::" for name in ("pressure", "shared_folder", "workloads::memory_fault"))
"""What looks at all mounts and swaps of the machine, or counts on its page cache: run last, one at a time."""
LIMIT_S = 600
"""A test that takes longer is stopped, and has failed."""
SLOWEST = 5


@dataclass(frozen=True)
class Program:
    """The tests of a crate, or of a folder of integration tests."""

    name: str
    path: str
    folder: Path
    """The folder of its package, in which cargo runs it."""

    def tests(self, environment: Mapping[str, str]) -> list[str]:
        """Return the names of its tests. Raises CalledProcessError."""
        command = [self.path, "--list", "--format=terse"]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return [line.removesuffix(": test") for line in done.stdout.splitlines() if line.endswith(": test")]


Group = Sequence[tuple[Program, str]]
"""Tests, each with its program."""


@dataclass(frozen=True)
class Outcome:
    """What came of one test."""

    name: str
    passed: bool
    seconds: float
    output: str


def build(more: Sequence[str] = (), environment: Mapping[str, str] = os.environ) -> list[Program]:
    """Build the programs and all tests; return these. Raises CalledProcessError, cargo having said why."""
    lines: list[str] = []
    for step in STEPS:
        command = ["cargo", *step, *OPTIONS, *more]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        lines += done.stdout.splitlines()
    messages = [json.loads(line) for line in lines if line.startswith("{")]
    found = [
        Program(message["target"]["name"], message["executable"], Path(message["manifest_path"]).parent)
        for message in messages
        if message.get("executable") and message["profile"]["test"]
    ]
    return sorted(found, key=lambda program: program.name)


def run_one(program: Program, test: str, environment: Mapping[str, str]) -> Outcome:
    """Run one test to its end, or to the limit."""
    command = [program.path, test, "--exact", "--test-threads=1"]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=program.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        code, output = -1, (expired.stdout or b"") + f"\nstopped after {LIMIT_S} s\n".encode()
    text = output.decode(errors="replace")
    # The name was there a moment ago; a test that no longer runs must not count as passed.
    passed = code == 0 and ("1 passed" in text or "1 ignored" in text)
    return Outcome(f"{program.name} {test}", passed, time.monotonic() - begun, text)


def choose(
    programs: Sequence[Program], environment: Mapping[str, str] = os.environ, part: str = ""
) -> tuple[Group, Group]:
    """Return the tests whose names contain `part`: those that share the machine, and those that do not."""
    tests = [(program, name) for program in programs for name in program.tests(environment) if part in name]
    alone = [(program, name) for program, name in tests if f"{program.name} {name}".startswith(ALONE)]
    return [test for test in tests if test not in alone], alone


def run(groups: tuple[Group, Group], environment: Mapping[str, str] = os.environ) -> bool:
    """Run the tests of the first group beside each other, then the others; return whether all passed."""
    together, alone = groups
    count, width = len(together) + len(alone), AT_A_TIME * len(os.sched_getaffinity(0))
    print(f"== {count} tests, {width} at a time", flush=True)
    outcomes: list[Outcome] = []
    begun = time.monotonic()
    for number, outcome in enumerate(_outcomes(((together, width), (alone, 1)), environment), start=1):
        outcomes.append(outcome)
        state = "ok" if outcome.passed else "FAILED"
        print(f"[{number}/{count}] {outcome.name} ... {state} ({outcome.seconds:.1f} s)", flush=True)
        if not outcome.passed:
            print(outcome.output, flush=True)
    failed = sorted(outcome.name for outcome in outcomes if not outcome.passed)
    slow = sorted(outcomes, key=lambda outcome: outcome.seconds, reverse=True)[:SLOWEST]
    print("slowest: " + ", ".join(f"{each.name} {each.seconds:.1f} s" for each in slow))
    seconds = time.monotonic() - begun
    print(f"{count - len(failed)} passed, {len(failed)} failed, {seconds:.0f} s")
    for name in failed:
        print(f"FAILED {name}")
    return not failed


def _outcomes(groups: Sequence[tuple[Group, int]], environment: Mapping[str, str]) -> Iterator[Outcome]:
    """Run one group of tests after the other, so many at a time; yield what came of each as it ends."""
    for tests, width in groups:
        with ThreadPoolExecutor(width) as pool:
            started = [pool.submit(run_one, program, name, environment) for program, name in tests]
            for future in as_completed(started):
                yield future.result()


def main() -> int:
    """Build, and run what was asked for; return 1 if a test failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--build", action="store_true", help="build the tests, and run none")
    only.add_argument("--shared", action="store_true", help="only the tests that may run beside others")
    only.add_argument("--alone", action="store_true", help="only the tests that need the machine alone")
    parser.add_argument("part", nargs="?", default="", metavar="PART", help="only tests named so")
    options = parser.parse_args()
    try:
        programs = build()
    except subprocess.CalledProcessError as error:
        return error.returncode
    if not programs:
        sys.exit("rust_tests: cargo built no tests")
    if options.build:
        return 0
    shared, alone = choose(programs, part=options.part)
    groups = ([] if options.alone else shared, [] if options.shared else alone)
    return 0 if run(groups) else 1


if __name__ == "__main__":
    sys.exit(main())
