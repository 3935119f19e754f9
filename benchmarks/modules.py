"""The kernel modules in a guest whose kernel finds its own mistakes: KASAN, lockdep, kmemleak and more.

By emulation this takes hours: the kernel is built (a quarter of an hour), comes to its command within
minutes, and watches each of its own steps.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bars import BIN, ROOT, Bar
from oscope.locate import find_probe

CHECKED = ROOT / "kernel" / "configs" / "checked.config"
PROGRAMS = ROOT / "tests" / "modules"
SEQUENCES = 10_000
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
from oscope.guest import command
command.BOOT_LIMIT_S["tcg"] = {BOOT_LIMIT_S}
from oscope.cli import main
main()
"""
"""`oscope`, more patient with a kernel that is slow to boot."""


def build() -> str:
    """Build the kernel, with the modules, if it is not there, and return its identity."""
    words = [BIN / "oscope", "kernel", "build", "--config", CHECKED]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=BUILD_LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(f"the checked kernel is not built: {done.stderr.strip()[-500:]}")
    return done.stdout.split()[0]


def compile_calls(folder: Path) -> Path:
    """Compile the program of random calls and return it."""
    program = folder / "random_operations"
    include = f"-I{ROOT / 'kernel' / 'modules'}"
    sources = sorted(PROGRAMS.glob("*.c"))
    subprocess.run(["cc", "-O1", "-pthread", include, "-o", program, *sources], check=True, timeout=60)
    return program


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
        raise RuntimeError(f"the checked guest failed: {done.stderr.strip()[-800:]}")
    if not done.stdout.strip():
        # A guest so slow may lack its ports when the command starts, whose output then goes to the console.
        raise RuntimeError(f"the checked guest told nothing: {done.stderr.strip()[-800:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def files_of(found: dict[str, Any]) -> tuple[int, int]:
    """Return how many files arrived as they were, and how many were sent, by both methods."""
    right, sent = 0, 0
    for method in ("fcntl", "mmap"):
        told = found[method]
        sent += told["files"]
        if told["status"] == [0, 0] and not told["left"]:
            right += told["files"] - len(told["wrong"])
    return right, sent


def reports_of(found: dict[str, Any]) -> list[str]:
    """Return what the kernel reported, each in a line."""
    if found["leaks"] is None:
        raise RuntimeError("the checked kernel has no kmemleak")
    leaks = [line for line in found["leaks"].splitlines() if line.startswith("unreferenced object")]
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


def bars() -> Iterator[Bar]:
    """Boot as often as it takes, and yield what was found in all boots."""
    kernel = build()
    boots: list[dict[str, Any]] = []
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        program = compile_calls(Path(folder))
        while done < SEQUENCES and len(boots) < MOST_BOOTS:
            boots.append(boot(kernel, program, SEQUENCES - done, 1 + len(boots) * SEEDS))
            done += boots[-1]["random"]["sequences"]
            # An hour each: what is known is told, should the next one be cut off.
            print(
                f"  boot {len(boots)}: {_told(boots[-1])}", *reports_of(boots[-1]), sep="\n    ", flush=True
            )
    text = f"{done} in {len(boots)} boots"
    yield Bar("modules: random sequences of calls", text, f"{SEQUENCES}", met=done >= SEQUENCES)
    wrong = sum(map(wrong_of, boots))
    yield Bar("modules: answers that must not be", str(wrong), "0", met=wrong == 0)
    reports = [report for one in boots for report in reports_of(one)]
    text = "; ".join([f"{len(reports)}", *reports[:3]])
    yield Bar("modules: reports of KASAN, lockdep, kmemleak", text, "0", met=not reports)
    right, sent = (sum(numbers) for numbers in zip(*map(files_of, boots), strict=True))
    text = f"{right} of {sent} files"
    yield Bar("modules: the SHA-512 of what arrived", text, "all agree", met=right == sent)
    answers = [answer["event"] for one in boots for answer in one["workload"]]
    text = f"{answers.count('sample')} samples, {answers.count('error')} errors"
    met = "error" not in answers and answers.count("sample") > 0
    yield Bar("modules: transfer.device, each file verified", text, "no errors", met=met)
