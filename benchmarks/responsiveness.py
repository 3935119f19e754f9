"""How long a person waits: help, lists, the survey, a 2 % interval, Ctrl-C; and two equal runs compared."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bars import Bar, Bench, Figure, Part, median
from measuring import BIN, children_of
from waiting import wait_until

START = {words: Bar(f"oscope {' '.join(words)}", "s", most=0.3) for words in (("--help",), ("list",))}
HALF_WIDTH = Bar("2 % interval on getppid: half-width", "%", most=2)
UNTIL = Bar("2 % interval on getppid: measured for", "s", most=2)
EQUAL = Bar("two runs of the same: differences found", least=0, most=0)
SURVEY = Bar("quick survey, report included", "s", most=180)
LOADS = ("idle", "beside load")
STOPPED = {load: Bar(f"Ctrl-C in oscope run to the prompt, {load}, longest", "s", most=1) for load in LOADS}
LOOP = ("--set", "call=getppid", "--set", "style=loop")
LIMIT_S = 600.0
MOST_DELAY_S = 3.0
INTERRUPTED = (1, 130)
"""Exit codes of a run that Ctrl-C ends: see docs/commands.md."""
SPINNING = "while True: pass"


def oscope(*arguments: str, store: Path) -> tuple[float, str]:
    """Run a command; return its seconds and what it printed."""
    begin = time.monotonic()
    answer = subprocess.run(
        [BIN / "oscope", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
        env=environment(store),
    )
    return time.monotonic() - begin, answer.stdout


def environment(store: Path) -> dict[str, str]:
    """Return the environment of a command with a store of its own."""
    return {**os.environ, "OSCOPE_STORE": str(store)}


def waiting(bench: Bench) -> Iterator[Figure]:
    """Time starts of the commands that must be instant, the first of which is not counted."""
    store = bench.folder / "waiting.db"
    for arguments, bar in START.items():
        seconds = [oscope(*arguments, store=store)[0] for _ in range(1 + bench.pick(1, 15, 31))][1:]
        yield median(bar, seconds, f"at most {max(seconds):.3f} s")


def precision(bench: Bench) -> Iterator[Figure]:
    """Measure getppid until it has a 2 % interval."""
    store = bench.folder / "precision.db"
    _, text = oscope("run", "syscall.cost", *LOOP, "--precision", "2%", "--json", "-", store=store)
    point = json.loads(text)["points"][0]
    metric, samples = point["metrics"]["time_ns"], point["samples"]
    half = (metric["ci95"][1] - metric["ci95"][0]) / 2 / metric["median"]
    yield Figure(HALF_WIDTH, 100 * half, detail=f"{metric['n']} samples")
    yield Figure(UNTIL, (max(samples["started_ns"]) - min(samples["started_ns"])) / 1e9)


def equal_runs(bench: Bench) -> Iterator[Figure]:
    """Run the same experiment twice and compare."""
    store, files = bench.folder / "equal.db", [bench.folder / f"{number}.json" for number in (1, 2)]
    for file in files:
        reps = bench.pick("20", "200", "200")
        oscope("run", "syscall.cost", *LOOP, "--reps", reps, "--json", str(file), store=store)
    _, text = oscope("compare", *map(str, files), "--format", "json", store=store)
    rows = [row for table in json.loads(text) for row in table["rows"]]
    # A time and its cycles differ together.
    (row,) = (row for row in rows if row["metric"] == "time_ns")
    yield Figure(EQUAL, int(row["different"] == "yes"), detail=f"of the time; B/A {row['B/A']}")


def survey(bench: Bench) -> Iterator[Figure]:
    """Time the whole quick survey, report included."""
    report = str(bench.folder / "report.html")
    # Of one experiment where it is only to be shown that it works.
    what = bench.pick(("syscall.cost", *LOOP, "--reps", "20"), (), ())
    yield Figure(SURVEY, oscope("run", *what, "--report", report, store=bench.folder / "survey.db")[0])


def stopping(bench: Bench) -> Iterator[Figure]:
    """Press Ctrl-C at random moments of a run, on an idle machine and with every CPU taken twice."""
    most_s = bench.pick(0.1, MOST_DELAY_S, MOST_DELAY_S)
    chance, busy = random.Random(1), 2 * len(os.sched_getaffinity(0))
    for load, bar in STOPPED.items():
        with ExitStack() as stack:
            if load != "idle":
                stack.enter_context(loaded(bench.pick(1, busy, busy)))
            delays = [chance.uniform(0, most_s) for _ in range(bench.pick(1, 8, 25))]
            seconds = [stop_s(bench.folder / "stopped.db", delay) for delay in delays]
        text = f"median {np.median(seconds):.2f} s of {len(seconds)}"
        yield Figure(bar, max(seconds), detail=text)


@contextmanager
def loaded(count: int) -> Iterator[None]:
    """Have processes that do nothing but run."""
    others = [subprocess.Popen([sys.executable, "-ISc", SPINNING]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def stop_s(store: Path, delay_s: float) -> float:
    """Start a run, interrupt all of it `delay_s` after its probe is there; return the seconds to its end."""
    words = [str(BIN / "oscope"), "run", "syscall.cost", "--reps", "1000000"]
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    # Ctrl-C goes to the terminal's whole foreground process group.
    with subprocess.Popen(words, **quiet, process_group=0, env=environment(store)) as run:
        try:
            wait_for_probe(run)
            time.sleep(delay_s)
            begin = time.monotonic()
            os.killpg(run.pid, signal.SIGINT)
            status = run.wait(LIMIT_S)
            took = time.monotonic() - begin
        except BaseException:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
            raise
    if status not in INTERRUPTED:
        raise RuntimeError(f"an interrupted run ended with {status}")
    return took


def wait_for_probe(run: subprocess.Popen[Any]) -> None:
    """Wait until a run has started its probe."""
    wait_until(lambda: any(map(is_probe, children_of(run.pid))), "its probe", run, limit_s=LIMIT_S)


def is_probe(pid: int) -> bool:
    """Say whether a process is a probe that measures."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"oscope-probe") and b"run" in words


PARTS = (
    Part(
        "Seconds from the start of the command to its end.",
        tuple(START.values()),
        waiting,
        short_s=12,
        full_s=20,
    ),
    Part(
        "A run of getppid in a loop with --precision 2%: the half-width of its interval, and the time from "
        "the first sample to the last.",
        (HALF_WIDTH, UNTIL),
        precision,
        short_s=5,
        full_s=5,
    ),
    Part(
        "Two runs of getppid in a loop, compared.",
        (EQUAL,),
        equal_runs,
        short_s=10,
        full_s=10,
    ),
    Part(
        "SIGINT to the process group of `oscope run`, at a random moment of the first seconds of its probe, "
        "until the command has ended; then with two busy processes for each CPU.",
        tuple(STOPPED.values()),
        stopping,
        short_s=60,
        full_s=180,
    ),
    Part(
        "Seconds of `oscope run` with its report, once.",
        (SURVEY,),
        survey,
        short_s=180,
        full_s=180,
    ),
)
