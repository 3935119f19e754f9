"""The kernel laboratory: what a kernel's build and boot take, and how exactly two boots repeat a figure."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from bars import Bar, Bench, Figure, Part, median
from measuring import BIN, ROOT
from oscope.labs.kernel import LAB
from oscope.model.guest import CPUS, Guest
from oscope.probe.locate import find_probe
from oscope.probe.process import Request
from oscope.probe.wire import Sample
from oscope.storage.record import read
from oscope.targets.affinity import Affinity
from oscope.targets.guest.target import GuestTarget
from oscope.targets.kernel import find

PATCHES = ROOT / "tests" / "patches"
PATCHED = ("my_precious", "reclaim-policy")
BOOTS = 5
PROVIDED = Bar("kernels that are booted here: built, or found", "s")
FIRST_BUILD = Bar("first build of a kernel, source unpacked", "min", most=6)
NEXT_BUILD = Bar("build after a line of a patch changed", "s", most=60)
CLEAN = {name: Bar(f"checkpatch --strict on {name}: complaints", least=0, most=0) for name in PATCHED}
ANSWERS = Bar("my_precious returns 0", "samples", BOOTS, BOOTS)
REPEATS = Bar(f"getppid in {BOOTS} boots: different figures", least=1, most=1)
KNOWN = {
    name: (
        added,
        Bar(f"kernel ab, {name}: instructions off the {added} that it adds", least=0, most=0),
        Bar(f"kernel ab, {name}: wrong verdicts", least=0, most=0),
    )
    for name, added in (("five-nops", 5), ("comment", 0))
}
JUDGED_S = Bar("kernel ab, syscall.cost, 5 boots a side", "s", most=180)
NO_CHANGE = Bar("kernel ab, a patch that changes nothing: points with a difference", least=0, most=0)
Clock = Literal["wall", "instructions"]
CLOCKS: tuple[Clock, ...] = ("instructions", "wall")
BOOTED = {clock: Bar(f"boot to first sample, {clock}", "s", most=8) for clock in CLOCKS}
ALIKE = {
    metric: Bar(f"kernel.reclaim, {metric}: points unlike in two boots", least=0, most=0)
    for metric in ("minflt", "majflt", "swap_ins", "refaults_anon", "refaults_file")
}
POLICIES = {
    mapping: Bar(f"kernel.reclaim, {mapping} mapping: verdicts on the policy", least=1)
    for mapping in ("anonymous", "private", "shared")
}
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


def providing(_bench: Bench) -> Iterator[Figure]:
    """Build the kernels that the other parts boot, where they are not in the cache."""
    yield Figure(PROVIDED, sum(oscope("kernel", "build", *_patched(names))[0] for names in ((), PATCHED)))


def _patched(names: Iterable[str | Path]) -> list[str | Path]:
    return [word for name in names for word in ("--patch", name)]


def building(bench: Bench) -> Iterator[Figure]:
    """Build from nothing, in a cache of its own, then with one line of a patch changed."""
    cache = bench.folder / "cache"
    yield Figure(FIRST_BUILD, oscope("kernel", "build", cache=cache)[0] / 60)
    patch = bench.folder / "changed.patch"
    original = (PATCHES / "five-nops.patch").read_text()
    patch.write_text(original)
    oscope("kernel", "build", "--patch", patch, cache=cache)
    patch.write_text(original.replace('"nop; nop; nop; nop; nop"', '"nop; nop; nop; nop"'))
    yield Figure(NEXT_BUILD, oscope("kernel", "build", "--patch", patch, cache=cache)[0])


def patches(_bench: Bench) -> Iterator[Figure]:
    """Whether both patches are clean, and the call answers 0."""
    for name, bar in CLEAN.items():
        _, answer = oscope("kernel", "check-patch", name)
        (found,) = (line.strip() for line in answer.stdout.splitlines() if "errors" in line)
        yield Figure(bar, sum(map(int, re.findall(r"(\d+) (?:errors|warnings|checks)", found))), detail=found)
    # The probe compares each answer with 0 and fails the sample where it is another.
    on = f"guest:{'+'.join(PATCHED)}"
    _, record = written("run", "syscall.cost", "--on", on, *COUNTED, *loop("my_precious"))
    good = record["points"][0]["metrics"]["instructions"]["n"]
    yield Figure(ANSWERS, good, detail="each of 1000 calls")


def loop(call: str) -> tuple[str, ...]:
    """Return the settings of one call in a loop, a sample a boot."""
    return "--set", f"call={call}", "--set", "style=loop", "--reps", str(BOOTS)


def repeating(_bench: Bench) -> Iterator[Figure]:
    """Give how many figures five boots of the same kernel have of the same call."""
    _, found = written("run", "syscall.cost", "--on", "guest", *COUNTED, *loop("getppid"))
    values = found["points"][0]["metrics"]["instructions"]["values"]
    if len(values) != BOOTS:
        raise RuntimeError(f"{len(values)} of {BOOTS} boots gave a figure")
    shown = ", ".join(f"{value:g}" for value in sorted(set(values)))
    yield Figure(REPEATS, len(set(values)), detail=f"{shown} instructions")


def known_patches(_bench: Bench) -> Iterator[Figure]:
    """Judge what patches of a known size add."""
    for name, (added, bar, verdict_bar) in KNOWN.items():
        _, found = written(
            "kernel", "ab", "--patch", PATCHES / f"{name}.patch", "syscall.cost", *loop("getppid")
        )
        (verdict,) = found["verdicts"]
        yield Figure(bar, round(verdict["difference"] - added, 6), detail=f"{verdict['difference']:g}")
        wrong = verdict["different"] != ("yes" if added else "no")
        yield Figure(verdict_bar, int(wrong), detail=f"different: {verdict['different']}")


def judging(_bench: Bench) -> Iterator[Figure]:
    """Measure the whole of syscall.cost on two cached kernels."""
    took, found = written("kernel", "ab", "--patch", PATCHES / "comment.patch", "syscall.cost")
    yield Figure(JUDGED_S, took)
    answers = [verdict["different"] for verdict in found["verdicts"]]
    yield Figure(NO_CHANGE, len(answers) - answers.count("no"), detail=f"of {len(answers)}")


def booting(bench: Bench) -> Iterator[Figure]:
    """Time how soon the first sample of a guest is there."""
    oscope("kernel", "build")
    for clock, bar in BOOTED.items():
        times = [first_sample(clock) for _ in range(bench.pick(1, BOOTS, 2 * BOOTS))]
        yield median(bar, times, f"at most {max(times):.1f} s")


def first_sample(clock: Clock) -> float:
    """Return the seconds from starting a guest to the probe's first sample."""
    guest = Guest(find(None).id, clock, CPUS[clock])
    with Affinity() as affinity:
        place = GuestTarget(guest, (), find_probe(), affinity, None)
        begin = time.monotonic()
        with closing(place.start()) as probe:
            # As PointRunner asks: a guest's request may be silent for long.
            for events in probe.run(Request(1, "syscall.cost"), silence_limit_s=LIMIT_S):
                if any(isinstance(event, Sample) for event in events):
                    return time.monotonic() - begin
    raise RuntimeError("the guest gave no sample")


def reclaiming(bench: Bench) -> Iterator[Figure]:
    """Count the faults of kernel.reclaim in two boots that do the same in the same order; judge policies."""
    twice = [written("run", "kernel.reclaim", "--reps", "1", "--seed", "6")[1] for _ in range(2)]
    for metric, bar in ALIKE.items():
        first, second = ([point["metrics"][metric]["values"] for point in one["points"]] for one in twice)
        unlike = sum(a != b for a, b in zip(first, second, strict=True))
        yield Figure(bar, unlike, detail=f"of {len(first)}")
    path = bench.folder / "reclaim.json"
    oscope("run", "kernel.reclaim", "--set", "pattern=random", "--json", path)
    sections = {section.title: section.answer for section in LAB.sections(read(path))}
    for mapping, bar in POLICIES.items():
        answer = next(text for title, text in sections.items() if mapping in title)
        reported = "reclaim-active" in answer and "could not" not in answer
        yield Figure(bar, int(reported), detail=answer)


PARTS = (
    Part(
        "Seconds to build the two kernels that are booted here, or to find them in the cache.",
        (PROVIDED,),
        providing,
        short_s=60,
        full_s=120,
        smoke=False,
    ),
    Part(
        "Seconds from starting a guest to the probe's first sample.",
        tuple(BOOTED.values()),
        booting,
        short_s=60,
        full_s=120,
        needs=("qemu-system-x86_64",),
    ),
    Part(
        "What checkpatch --strict finds in both patches, and samples of the new call in a guest, each "
        "answer of which is compared with 0.",
        (*CLEAN.values(), ANSWERS),
        patches,
        short_s=40,
        full_s=60,
        needs=("qemu-system-x86_64",),
        smoke=False,
    ),
    Part(
        "A getppid, counted in instructions, in guests of the same kernel: how many figures they give.",
        (REPEATS,),
        repeating,
        short_s=35,
        full_s=45,
        needs=("qemu-system-x86_64",),
        smoke=False,
    ),
    Part(
        "`oscope kernel ab` on patches that add a known number of instructions, five boots a side.",
        tuple(bar for _, *bars in KNOWN.values() for bar in bars),
        known_patches,
        short_s=None,
        full_s=300,
        needs=("qemu-system-x86_64",),
        smoke=False,
    ),
    Part(
        "`oscope kernel ab` of the whole of syscall.cost and a patch that changes nothing, five boots "
        "a side.",
        (JUDGED_S, NO_CHANGE),
        judging,
        short_s=None,
        full_s=180,
        needs=("qemu-system-x86_64",),
        smoke=False,
    ),
    Part(
        "kernel.reclaim in two boots that do the same in the same order, and what it says of each mapping.",
        (*ALIKE.values(), *POLICIES.values()),
        reclaiming,
        short_s=None,
        full_s=1800,
        needs=("qemu-system-x86_64",),
        smoke=False,
    ),
    Part(
        "`oscope kernel build` from nothing, and again after a line of a patch has changed.",
        (FIRST_BUILD, NEXT_BUILD),
        building,
        short_s=None,
        full_s=600,
        smoke=False,
    ),
)
