"""Measures which lines the tests execute: of Rust by the Rust tests, of Python by the Python tests.

    python tools/measure_coverage.py [rust|python]...

Rust needs llvm-profdata and llvm-cov of the LLVM that rustc was built with: on Debian the package llvm-N.
Commands that the Python tests start count; programs that they start do not. Writes target/coverage/.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import run_tests
import rust_tests

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "target" / "coverage"
COUNTED = ("--cov", "--cov-report=")
"""Has pytest count the lines, and print nothing of them."""


def llvm(tool: str) -> str:
    """Return the path of a tool of rustc's own version of LLVM. Exits with the remedy where there is none."""
    output = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^LLVM version: (\d+)", output, re.MULTILINE)
    version = found[1] if found else "?"
    path = shutil.which(f"{tool}-{version}") or shutil.which(f"/usr/lib/llvm-{version}/bin/{tool}")
    if path is None:
        sys.exit(f"coverage: {tool} of LLVM {version} is missing: apt-get install llvm-{version}")
    return path


def rust() -> int:
    """Run the Rust tests and print the lines covered of each file; return the exit code of the tests."""
    profdata, cov = llvm("llvm-profdata"), llvm("llvm-cov")
    raw = RESULTS / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    environment = os.environ | {
        "RUSTFLAGS": "-C instrument-coverage",
        "LLVM_PROFILE_FILE": str(raw / "%p-%m.profraw"),
    }
    programs = rust_tests.build(["--target-dir", str(RESULTS / "target")], environment)
    passed = rust_tests.run(rust_tests.choose(programs, environment), environment)
    merged = RESULTS / "rust.profdata"
    # A process that a test kills leaves its counters unfinished.
    counters = list(map(str, raw.glob("*.profraw")))
    merge = [profdata, "merge", "-sparse", "--failure-mode=all", "-o", str(merged)]
    subprocess.run([*merge, *counters], check=True, stderr=subprocess.DEVNULL)
    objects = [word for program in programs for word in ("-object", program.path)][1:]
    report = [cov, "report", f"-instr-profile={merged}", "--ignore-filename-regex=/(registry|rustc|tests)/"]
    subprocess.run([*report, *objects], check=True)
    return 0 if passed else 1


def python() -> int:
    """Run the Python tests and print the lines covered of each file; return the exit code of the tests."""
    environment = os.environ | run_tests.BYTECODE | run_tests.ONE_THREAD
    parallel, alone = run_tests.python_tests(full=False)
    commands = ([*parallel, *COUNTED], [*alone, *COUNTED, "--cov-append"])
    codes = [subprocess.run(each, cwd=ROOT, env=environment, check=False).returncode for each in commands]
    for form in (["report", "--skip-covered"], ["json", "-o", str(RESULTS / "python.json")]):
        subprocess.run([sys.executable, "-m", "coverage", *form], cwd=ROOT, check=True)
    return max(codes)


def main(words: Sequence[str]) -> int:
    """Measure what was asked for, or both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", help="rust, python; both if neither is named")
    chosen = parser.parse_args(words).what
    measures = {"rust": rust, "python": python}
    if unknown := set(chosen) - set(measures):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    return max(measure() for name, measure in measures.items() if not chosen or name in chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
