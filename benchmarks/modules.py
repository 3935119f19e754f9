"""The kernel modules in a guest whose kernel finds its own mistakes: KASAN, lockdep, kmemleak and more.

By emulation this takes hours: the kernel is built (a quarter of an hour), comes to its command within
minutes, and watches each of its own steps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bars import Bar, Bench, Effort, Figure, Part
from measuring import BIN, ROOT, compile_program
from oscope.probe.locate import find_probe

CHECKED = ROOT / "kernel" / "configs" / "checked.config"
PROGRAMS = ROOT / "tests" / "modules"
SEQUENCES = 10_000
DONE = Bar("modules: random sequences of calls", least=SEQUENCES)
WRONG = Bar("modules: answers that must not be", least=0, most=0)
REPORTS = Bar("modules: reports of KASAN, lockdep, kmemleak", least=0, most=0)
FILES = Bar("modules: files whose SHA-512 differs", least=0, most=0)
SAMPLES = Bar("modules: samples of transfer.device, each file verified", least=1)
ERRORS = Bar("modules: errors of transfer.device", least=0, most=0)
SECONDS = 1500.0
"""After which a boot begins no more sequences."""
BOOT_LIMIT_S = 1500.0
LIMIT_S = 3600.0
"""Of each boot: what comes before the sequences, and the scans after them, have the rest."""
MOST_BOOTS = 20
SEEDS = 1_000_003
"""Between those of two boots, so that none begins where another goes on."""
BUILD_LIMIT_S = 7200.0
BOOT = f"""
from oscope.targets.guest import command
command.BOOT_LIMIT_S["tcg"] = {BOOT_LIMIT_S}
from oscope.cli import main
main()
"""
"""`oscope`, more patient with a kernel that is slow to boot."""


def build(bench: Bench) -> str:
    """Build the kernel, with the modules, if it is not there, and return its identity."""
    # A guest under the ordinary kernel is all that is needed to show that this works.
    checked: list[str | Path] = [] if bench.effort is Effort.SMOKE else ["--config", CHECKED]
    words = [BIN / "oscope", "kernel", "build", *checked]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=BUILD_LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(f"the kernel is not built: {done.stderr.strip()[-500:]}")
    return str(done.stdout.split()[0])


def compile_calls() -> Path:
    """Compile the program of random calls and return it."""
    include = f"-I{ROOT / 'kernel' / 'modules'}"
    return compile_program("random_operations", sorted(PROGRAMS.glob("*.c")), ("-O1", "-Wextra", include))


def boot(kernel: str, program: Path, sequences: int, seed: int) -> dict[str, Any]:
    """Boot it, and return what was found inside."""
    inside = [
        "env",
        "OSCOPE_STATE=/dev/shm/state",
        "python3",
        PROGRAMS / "in_guest.py",
        find_probe(),
        program,
    ]
    inside += [str(sequences), "--seed", str(seed), "--seconds", f"{SECONDS:g}"]
    options = ["--memory", "2GiB", "--time-limit", f"{LIMIT_S:g}s"]
    words = [sys.executable, "-c", BOOT, "kernel", "boot", *options, kernel, "--", *inside]
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S + 60,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the checked guest failed: {done.stderr.strip()[-8000:]}")
    if not done.stdout.strip():
        # A guest so slow may lack its ports when the command starts, whose output then goes to the console.
        raise RuntimeError(f"the checked guest printed nothing: {done.stderr.strip()[-800:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def files_of(found: dict[str, Any]) -> tuple[int, int]:
    """Return how many files arrived as they were, and how many were sent, by both methods."""
    right, sent = 0, 0
    for method in ("fcntl", "mmap"):
        result = found[method]
        sent += result["files"]
        if result["status"] == [0, 0] and not result["left"]:
            right += result["files"] - len(result["wrong"])
    return right, sent


def reports_of(found: dict[str, Any]) -> list[str]:
    """Return what the kernel reported, each in a line."""
    leaks = [line for line in (found["leaks"] or "").splitlines() if line.startswith("unreferenced object")]
    return [*found["reports"], *leaks]


def _told(found: dict[str, Any]) -> str:
    random, (right, sent) = found["random"], files_of(found)
    return (
        f"{random['sequences']} sequences of {random['operations']} calls, {wrong_of(found)} wrong answers, "
        f"{len(reports_of(found))} reports of the kernel, {right} of {sent} files right"
    )


def wrong_of(found: dict[str, Any]) -> int:
    """Return how many answers of the modules must not be."""
    return sum(found["random"][name] for name in ("mismatches", "unexpected", "faults"))


def guests(bench: Bench) -> Iterator[Figure]:
    """Boot as often as it takes, and give what was found in all boots."""
    total = bench.pick(5, SEQUENCES, SEQUENCES)
    kernel, program = build(bench), compile_calls()
    boots: list[dict[str, Any]] = []
    done = 0
    while done < total and len(boots) < MOST_BOOTS:
        boots.append(boot(kernel, program, total - done, 1 + len(boots) * SEEDS))
        if bench.effort is not Effort.SMOKE and boots[-1]["leaks"] is None:
            raise RuntimeError("the checked kernel has no kmemleak")
        done += boots[-1]["random"]["sequences"]
        # An hour each: what is known is reported, should the next one be cut off.
        print(f"boot {len(boots)}: {_told(boots[-1])}", *reports_of(boots[-1]), sep="\n  ", flush=True)
    yield Figure(DONE, done, detail=f"in {len(boots)} boots")
    yield Figure(WRONG, sum(map(wrong_of, boots)))
    reports = [report for one in boots for report in reports_of(one)]
    yield Figure(REPORTS, len(reports), detail="; ".join(reports[:3]))
    right, sent = (sum(numbers) for numbers in zip(*map(files_of, boots), strict=True))
    yield Figure(FILES, sent - right, detail=f"of {sent}")
    answers = [answer["event"] for one in boots for answer in one["workload"]]
    yield Figure(SAMPLES, answers.count("sample"))
    yield Figure(ERRORS, answers.count("error"))


PARTS = (
    Part(
        "Files through both devices and random sequences of their calls, in guests whose kernel has KASAN, "
        "lockdep and kmemleak.",
        (DONE, WRONG, REPORTS, FILES, SAMPLES, ERRORS),
        guests,
        short_s=None,
        full_s=4 * 3600,
        needs=("qemu-system-x86_64",),
    ),
)
