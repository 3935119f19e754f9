"""The kernel laboratory: what a kernel's build and boot take, and how exactly two boots repeat a figure."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bars import BIN, ROOT, Bar
from oscope.guest import CPUS, Guest
from oscope.guest.place import GuestPlace
from oscope.kernel import find
from oscope.labs.kernel import LAB
from oscope.locate import find_probe
from oscope.placement import Placement
from oscope.probe import Request
from oscope.record import read
from oscope.wire import Sample

PATCHES = ROOT / "tests" / "patches"
BOTH = "my_precious+reclaim-policy"
BOOTS = 5
COUNTED = ("--clock", "instructions")
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


def written(*arguments: str | Path) -> tuple[float, Any]:
    """Run a command with --json; return its seconds and what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "written.json")
        took, _ = oscope(*arguments, "--json", path)
        return took, json.loads(path.read_text())


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
        found = [line.strip() for line in answer.stdout.splitlines() if "errors" in line]
        clean = len(found) == 1 and "0 errors, 0 warnings, 0 checks" in found[0]
        yield Bar(f"checkpatch --strict on {name}", "; ".join(found), "all 0", met=clean)
    # The probe compares each answer with 0 and fails the sample where it is another.
    _, found_record = written("run", "syscall.cost", "--on", f"guest:{BOTH}", *COUNTED, *loop("my_precious"))
    good = found_record["points"][0]["metrics"]["instructions"]["n"]
    yield Bar(
        "my_precious returns 0", f"in {good} of {BOOTS} samples of 1000 calls", "in all", met=good == BOOTS
    )


def loop(call: str) -> tuple[str, ...]:
    """Return the settings of one call in a loop, a sample a boot."""
    return "--set", f"call={call}", "--set", "style=loop", "--reps", str(BOOTS)


def repeating() -> Iterator[Bar]:
    """Yield the figure of each boot, and what a patch of known size adds."""
    _, found = written("run", "syscall.cost", "--on", "guest", *COUNTED, *loop("getppid"))
    values = found["points"][0]["metrics"]["instructions"]["values"]
    shown = ", ".join(f"{value:g}" for value in values)
    same = len(values) == BOOTS and len(set(values)) == 1
    yield Bar(f"getppid in {BOOTS} boots, instructions", shown, "one value", met=same)
    for name, wanted in (("five-nops", 5.0), ("comment", 0.0)):
        _, found = written(
            "kernel", "ab", "--patch", PATCHES / f"{name}.patch", "syscall.cost", *loop("getppid")
        )
        (verdict,) = found["verdicts"]
        more = verdict["difference"]
        met = abs(more - wanted) < 1e-6 and verdict["different"] == ("yes" if wanted else "no")
        text = f"{more:g}, different: {verdict['different']}"
        yield Bar(f"a patch of {wanted:g} instructions, {BOOTS} boots a side", text, f"{wanted:g}", met=met)


def judging() -> Iterator[Bar]:
    """Measure the whole of syscall.cost on two cached kernels, and how soon the first sample is there."""
    took, found = written("kernel", "ab", "--patch", PATCHES / "comment.patch", "syscall.cost")
    yield Bar("kernel ab, syscall.cost, 5 boots a side", f"{took:.0f} s", "within 180 s", met=took <= 180)
    answers = [verdict["different"] for verdict in found["verdicts"]]
    text = f"no difference in {answers.count('no')} of {len(answers)} points"
    yield Bar("a patch that changes nothing", text, "in all", met=set(answers) == {"no"})
    for clock in ("instructions", "wall"):
        times = [first_sample(clock) for _ in range(BOOTS)]
        text = f"{np.median(times):.1f} s, median of {BOOTS} (at most {max(times):.1f} s)"
        yield Bar(f"boot to first sample, {clock}", text, "within 8 s", met=float(np.median(times)) <= 8)


def first_sample(clock: Literal["wall", "instructions"]) -> float:
    """Return the seconds from starting a guest to the probe's first sample."""
    guest = Guest(find(None).id, clock, CPUS[clock])
    with Placement() as placement:
        place = GuestPlace(guest, find_probe(), placement, None)
        begin = time.monotonic()
        with closing(place.start()) as probe:
            # As Turns asks: a guest's request may be silent for long.
            for events in probe.run(Request(1, "syscall.cost"), silence_limit_s=LIMIT_S):
                if any(isinstance(event, Sample) for event in events):
                    return time.monotonic() - begin
    raise RuntimeError("the guest gave no sample")


def reclaiming() -> Iterator[Bar]:
    """Count the faults of kernel.reclaim in two boots that do the same in the same order; judge policies."""
    twice = [written("run", "kernel.reclaim", "--reps", "1", "--seed", "6")[1] for _ in range(2)]
    for metric in ("minflt", "majflt", "swap_ins", "refaults_anon", "refaults_file"):
        first, second = ([point["metrics"][metric]["values"] for point in one["points"]] for one in twice)
        alike = sum(a == b for a, b in zip(first, second, strict=True))
        text = f"at {alike} of {len(first)} points"
        yield Bar(f"kernel.reclaim: {metric} the same in two boots", text, "all", met=alike == len(first))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "reclaim.json")
        oscope("run", "kernel.reclaim", "--set", "pattern=random", "--json", path)
        sections = {section.title: section.answer for section in LAB.sections(read(path))}
    for mapping in ("anonymous", "private", "shared"):
        answer = next(text for title, text in sections.items() if mapping in title)
        told = "reclaim-active" in answer and "could not" not in answer
        yield Bar(f"policies, {mapping} mapping", answer, "a verdict", met=told)


def bars() -> Iterator[Bar]:
    """Yield the figures of the kernel laboratory."""
    yield from patches()
    yield from repeating()
    yield from judging()
    yield from reclaiming()
    yield from building()
