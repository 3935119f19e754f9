"""How long a person waits: help, lists, the survey, a 2 % interval; and what two equal runs compare as."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bars import BIN, Bar


def oscope(*arguments: str, store: Path) -> tuple[float, str]:
    """Run a command; return its seconds and what it printed."""
    environment = {**os.environ, "OSCOPE_STORE": str(store)}
    begin = time.monotonic()
    answer = subprocess.run(
        [BIN / "oscope", *arguments], capture_output=True, text=True, check=True, timeout=600, env=environment
    )
    return time.monotonic() - begin, answer.stdout


def waiting(store: Path) -> Iterator[Bar]:
    """Median of 15 starts of the commands that must be instant."""
    for arguments in (("--help",), ("list",)):
        seconds = [oscope(*arguments, store=store)[0] for _ in range(16)][1:]
        text = f"{np.median(seconds):.3f} s, median of 15 (at most {max(seconds):.3f} s)"
        yield Bar(f"oscope {' '.join(arguments)}", text, "under 0.3 s", met=float(np.median(seconds)) < 0.3)


def precision(folder: Path) -> Bar:
    """Seconds of measuring until getppid has a 2 % interval."""
    store = folder / "precision.db"
    _, text = oscope(
        "run",
        "syscall.cost",
        "--set",
        "call=getppid",
        "--set",
        "style=loop",
        "--precision",
        "2%",
        "--json",
        "-",
        store=store,
    )
    point = json.loads(text)["points"][0]
    metric, samples = point["metrics"]["time_ns"], point["samples"]
    half = (metric["ci95"][1] - metric["ci95"][0]) / 2 / metric["median"]
    spent = (max(samples["started_ns"]) - min(samples["started_ns"])) / 1e9
    found = f"half-width {half:.2%} after {spent:.2f} s, {metric['n']} samples"
    return Bar("2 % interval on getppid", found, "within 2 s of measuring", met=half <= 0.02 and spent <= 2)


def equal_runs(folder: Path) -> Bar:
    """Run the same experiment twice and compare."""
    store = folder / "equal.db"
    arguments = ("run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop", "--reps", "200")
    for number in (1, 2):
        oscope(*arguments, "--json", str(folder / f"{number}.json"), store=store)
    _, text = oscope("compare", str(folder / "1.json"), str(folder / "2.json"), store=store)
    lines = [line.strip() for line in text.splitlines() if "no difference found" in line]
    return Bar(
        "two runs of the same",
        lines[0] if lines else text.strip()[:300],
        "no difference found",
        met=bool(lines),
    )


def survey(folder: Path) -> Bar:
    """Seconds of the whole quick survey, report included."""
    seconds, _ = oscope("run", "--report", str(folder / "report.html"), store=folder / "survey.db")
    return Bar("quick survey, report included", f"{seconds:.0f} s", "within 180 s", met=seconds <= 180)


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    with tempfile.TemporaryDirectory(prefix="oscope-bench-") as name:
        folder = Path(name)
        yield from waiting(folder / "waiting.db")
        yield precision(folder)
        yield equal_runs(folder)
        yield survey(folder)
