"""The kernel laboratory: what a kernel's build and boot take, and how exactly two boots repeat a figure."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bars import BIN, ROOT, Bar

PATCHES = ROOT / "tests" / "patches"
BOTH = "my_precious+reclaim-policy"
BOOTS = 5
LIMIT_S = 1800.0


def oscope(
    *arguments: str | Path, cache: Path | None = None
) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Run a command; return its seconds and how it ended. `cache`: another place for kernels."""
    environment = dict(os.environ) if cache is None else {**os.environ, "XDG_CACHE_HOME": str(cache)}
    begin = time.monotonic()
    answer = subprocess.run(
        [BIN / "oscope", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env=environment,
    )
    took = time.monotonic() - begin
    if answer.returncode != 0:
        raise RuntimeError(f"oscope {' '.join(map(str, arguments))}: {answer.stderr.strip()[-500:]}")
    return took, answer


def record(*arguments: str | Path) -> tuple[float, list[dict[str, Any]]]:
    """Run a command with --json; return its seconds and the records."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "record.json")
        took, _ = oscope(*arguments, "--json", path)
        found = json.loads(path.read_text())
    return took, found if isinstance(found, list) else [found]


def medians(experiment: Mapping[str, Any], metric: str) -> dict[str, set[float]]:
    """Return the medians of each boot (block) of each point, by the point's levels."""
    found: dict[str, set[float]] = {}
    for point in experiment["points"]:
        blocks: dict[int, list[float]] = {}
        for block, value in zip(point["samples"]["block"], point["metrics"][metric]["values"], strict=True):
            blocks.setdefault(block, []).append(value)
        name = " ".join(map(str, point["factors"].values()))
        found[name] = {sorted(values)[len(values) // 2] for values in blocks.values()}
    return found


def building() -> Iterator[Bar]:
    """Build from nothing, in a cache of its own, then with one line of a patch changed."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        took, _ = oscope("kernel", "build", cache=cache)
        yield Bar("first build, source unpacked", f"{took / 60:.1f} min", "within 6 min", met=took <= 360)
        patch = Path(folder, "changed.patch")
        original = (PATCHES / "five-nops.patch").read_text()
        patch.write_text(original)
        oscope("kernel", "build", "--patch", patch, cache=cache)
        patch.write_text(original.replace('"nop; nop; nop; nop; nop"', '"nop; nop; nop; nop"'))
        took, _ = oscope("kernel", "build", "--patch", patch, cache=cache)
        yield Bar("build after a line of a patch changed", f"{took:.0f} s", "within 60 s", met=took <= 60)


def patches() -> Iterator[Bar]:
    """Whether both patches are clean, and the call answers 0."""
    for name in ("my_precious", "reclaim-policy"):
        _, answer = oscope("kernel", "check-patch", name)
        clean = "0 errors, 0 warnings, 0 checks" in answer.stdout
        yield Bar(
            f"checkpatch --strict on {name}", answer.stdout.strip().splitlines()[-1], "all 0", met=clean
        )
    # The probe compares each answer with 0 and fails the sample where it is another.
    _, (found,) = record(
        "run", "syscall.cost", "--on", f"guest:{BOTH}", "--clock", "instructions", "--reps", "5",
        "--set", "call=my_precious", "--set", "style=loop",
    )  # fmt: skip
    good = found["points"][0]["metrics"]["instructions"]["n"]
    yield Bar("my_precious returns 0", f"in {good} of 5 samples of 1000 calls", "in all", met=good == 5)


def repeating() -> Iterator[Bar]:
    """Yield the figure of each boot, and what a patch of known size adds."""
    common = ("--set", "call=getppid", "--set", "style=loop")
    _, (found,) = record(
        "run", "syscall.cost", "--on", "guest", "--clock", "instructions", "--reps", str(10 * BOOTS), *common
    )
    (values,) = medians(found, "instructions").values()
    shown = ", ".join(f"{value:g}" for value in sorted(values))
    yield Bar(f"median getppid in {BOOTS} boots, instructions", shown, "one value", met=len(values) == 1)
    for name, wanted in (("five-nops", 5.0), ("comment", 0.0)):
        took, records = record("kernel", "ab", "--patch", PATCHES / f"{name}.patch", "syscall.cost", *common)
        sides = [next(iter(medians(each, "instructions").values())) for each in records]
        more = max(sides[1]) - min(sides[0])
        met = all(len(side) == 1 for side in sides) and abs(more - wanted) < 1e-9
        yield Bar(
            f"a patch of {wanted:g} instructions, {BOOTS} boots a side",
            f"{more:g} ({took:.0f} s)",
            f"{wanted:g}",
            met,
        )


def judging() -> Iterator[Bar]:
    """Measure the whole of syscall.cost on two cached kernels, and how soon the first sample is there."""
    took, answer = oscope("kernel", "ab", "--patch", PATCHES / "comment.patch", "syscall.cost")
    yield Bar("kernel ab, syscall.cost, 5 boots a side", f"{took:.0f} s", "within 180 s", met=took <= 180)
    lines = [line.strip() for line in answer.stdout.splitlines() if "no difference found" in line]
    yield Bar(
        "a patch that changes nothing",
        lines[-1] if lines else answer.stdout[-200:],
        "no difference",
        met=bool(lines),
    )
    times = []
    for _ in range(BOOTS):
        took, _ = oscope(
            "run", "syscall.cost", "--on", "guest", "--clock", "instructions", "--reps", "1",
            "--set", "call=getppid", "--set", "style=loop",
        )  # fmt: skip
        times.append(took)
    text = f"{sorted(times)[BOOTS // 2]:.1f} s, median of {BOOTS} (at most {max(times):.1f} s)"
    yield Bar("whole run of one sample in a guest", text, "within 8 s", met=sorted(times)[BOOTS // 2] <= 8)


def reclaiming() -> Iterator[Bar]:
    """Count the faults of kernel.reclaim in two boots that do the same in the same order; judge policies."""
    twice = [record("run", "kernel.reclaim", "--reps", "1", "--seed", "6")[1][0] for _ in range(2)]
    for metric in ("minflt", "majflt", "swap_ins", "refaults_anon", "refaults_file"):
        first, second = (medians(each, metric) for each in twice)
        differing = [name for name, values in first.items() if values != second[name]]
        text = f"{len(first) - len(differing)} of {len(first)} points"
        text += f" (not {differing[0]})" if differing else ""
        yield Bar(f"kernel.reclaim: {metric} the same in two boots", text, "all", met=not differing)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "reclaim.json")
        oscope("run", "kernel.reclaim", "--set", "pattern=random", "--json", path)
        for mapping in ("anonymous", "private", "shared"):
            _, answer = oscope("compare", path, "--by", "policy=own,reclaim-active")
            lines = [line for line in answer.stdout.splitlines() if mapping in line and " minflt " in line]
            yield Bar(
                f"policies on {mapping}: minor faults", " ".join(lines)[:110], "a verdict", met=bool(lines)
            )


def bars() -> Iterator[Bar]:
    """Yield the figures of the kernel laboratory."""
    yield from patches()
    yield from repeating()
    yield from judging()
    yield from reclaiming()
    yield from building()
