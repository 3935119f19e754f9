"""`memory.access` with the real probe: what the document tells of counts, pages, faults and blocks.

No time is judged here, only what was done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from cli_driver import CommandLine
from machine_state import machine_state
from oscope.model.factors import Level
from oscope.probe.probe_session import ProbeSession, RefusedError

pytestmark = pytest.mark.alone

PAGE, LINE = 4096, 64
SET_LINES, WALKS, WRITTEN = 512, 16, 8
MEBIBYTE = 1 << 20
SIZE = 64 * MEBIBYTE
PAGES = SIZE // PAGE
FLUSHED = 16 * MEBIBYTE // PAGE
"""Pages of the buffer that is walked between initialisation and function, to flush the first cache."""
LIMIT_S = 120.0
FEW_FAULTS = 300
"""Faults of code, stack and the like; far fewer than the pages of what is measured."""

Metrics = dict[str, float | None]
Measure = Callable[..., Metrics]


@pytest.fixture
def measure(probe: Path) -> Iterator[Measure]:
    """Give a function that has the probe measure once and returns the metrics."""
    del probe
    notes: list[str] = []

    with ProbeSession(notes.append) as session:

        def once(**params: Level) -> Metrics:
            asked = {"size": SIZE, "sets": 64, "wait": 0.0} | params
            return dict(session.measure("memory.access", asked, limit_s=LIMIT_S).metrics)

        yield once


def figure(metrics: Metrics, name: str) -> float:
    value = metrics[name]
    assert value is not None, name
    return value


def xorshift() -> Iterator[int]:
    """Give the numbers of Marsaglia's xorshift128 (Xorshift RNGs, 2003) with his own seeds."""
    x, y, z, w = 123456789, 362436069, 521288629, 88675123
    while True:
        t = (x ^ (x << 11)) & 0xFFFFFFFF
        x, y, z = y, z, w
        w ^= (w >> 19) ^ t ^ (t >> 8)
        yield w


def bases(pattern: str, sets: int) -> Iterator[int]:
    """Give the base of each set, as the document's program chooses it."""
    most = SIZE // LINE - SET_LINES
    base = 0
    for drawn in islice(xorshift(), sets):
        base = drawn % most if pattern == "random" else base + SET_LINES
        if base >= most:
            base = 0
        yield base


def reached(pattern: str, footprint: str, sets: int, *, step: int = 1) -> int:
    """Return the number of pages that every `step`-th line of the sets lies in, found by walking."""
    pages: set[int] = set()
    for base in set(bases(pattern, sets)):
        first = base if footprint == "first64th" else base * LINE
        pages.update((first + line * LINE) // PAGE for line in range(0, SET_LINES, step))
    return len(pages)


@pytest.mark.parametrize("pattern", ["seq", "random"])
@pytest.mark.parametrize("sets", [1, 77])
def test_accesses_are_those_of_the_formula(pattern: str, sets: int, measure: Measure) -> None:
    found = measure(pattern=pattern, sets=sets, counters="simulated")
    accesses = sets * WALKS * SET_LINES
    assert [found[name] for name in ("accesses", "writes", "reads")] == [
        accesses,
        accesses // WRITTEN,
        accesses - accesses // WRITTEN,
    ]
    assert found["simulated_l1d_read_access"] == found["reads"]
    assert found["simulated_l1d_write_access"] == found["writes"]


@pytest.mark.parametrize("footprint", ["first64th", "full"])
@pytest.mark.parametrize("pattern", ["seq", "random"])
def test_exactly_the_pages_of_the_walk_are_touched(pattern: str, footprint: str, measure: Measure) -> None:
    # Enough for the sequence to come round.
    sets = 2100
    found = measure(pattern=pattern, footprint=footprint, sets=sets)
    expected = reached(pattern, footprint, sets)
    assert found["touched_pages"] == expected
    # A page that is only read is the kernel's page of zeros, which belongs to nobody.
    assert found["resident_kib"] == reached(pattern, footprint, sets, step=WRITTEN) * PAGE // 1024
    # A page whose first access is a read has two faults: the page of zeros, then one of its own.
    most = expected if pattern == "seq" else 2 * expected
    assert expected <= figure(found, "minflt") < most + FEW_FAULTS


def test_the_document_s_base_in_bytes_reaches_a_64th_of_the_memory(measure: Measure) -> None:
    sets = 2100
    first, full = (
        figure(measure(footprint=name, sets=sets), "touched_pages") for name in ("first64th", "full")
    )
    # A set has 8 pages: the last one reaches beyond the 64th, or is never chosen.
    assert PAGES / 64 <= first <= PAGES / 64 + 8
    assert PAGES - 8 <= full <= PAGES


@pytest.mark.parametrize("mapping", ["anonymous", "private", "shared"])
def test_populating_moves_the_faults_to_the_initialisation(mapping: str, measure: Measure) -> None:
    plain, populated = (measure(mapping=mapping, populate=each, sets=2100) for each in (False, True))
    assert figure(plain, "init_minflt") < FLUSHED + FEW_FAULTS
    assert figure(populated, "init_maxrss_kib") >= SIZE // 1024 > figure(plain, "init_maxrss_kib")
    assert figure(populated, "resident_kib") == SIZE // 1024
    assert figure(populated, "init_minflt") > figure(plain, "init_minflt")
    if mapping == "anonymous":
        assert PAGES <= figure(populated, "init_minflt") < PAGES + FLUSHED + FEW_FAULTS
        assert figure(populated, "minflt") < FEW_FAULTS


@pytest.mark.parametrize("mapping", ["anonymous", "private", "shared"])
def test_setting_and_syncing_writes_what_a_shared_mapping_has(mapping: str, measure: Measure) -> None:
    found = measure(mapping=mapping, initialise="memset+msync", sets=1)
    blocks = SIZE // 512
    assert figure(found, "init_maxrss_kib") >= SIZE // 1024
    if mapping == "shared":
        # The document has 2064320 blocks for 1 GiB, which is 98 % of it.
        assert 0.95 * blocks <= figure(found, "init_oublock") <= 1.05 * blocks
    else:
        assert figure(found, "init_oublock") < blocks / 100


@pytest.mark.parametrize("geometry", ["host", "nehalem"])
@pytest.mark.parametrize(
    ("footprint", "missed"),
    # In the first 64th a set shares most lines with the one before it, and it all fits into the TLBs.
    [("first64th", ("l1d_read_miss", "l2_miss")), ("full", ("dtlb_read_miss", "stlb_miss"))],
)
def test_random_sets_miss_more_by_the_model(
    footprint: str, missed: tuple[str, ...], geometry: str, measure: Measure
) -> None:
    seq, random = (
        measure(pattern=pattern, footprint=footprint, counters="simulated", geometry=geometry, sets=500)
        for pattern in ("seq", "random")
    )
    for name in missed:
        assert figure(random, f"simulated_{name}") > figure(seq, f"simulated_{name}"), name


def test_what_is_simulated_never_passes_for_measured(measure: Measure) -> None:
    found = measure(counters="simulated", sets=2)
    for name in ("l1d_read_access", "l1d_write_access", "l1d_read_miss", "dtlb_read_miss", "dtlb_write_miss"):
        assert found[name] is None, name
    assert figure(found, "simulation_rate") > 0
    bare = measure(sets=2)
    assert [name for name, value in bare.items() if name.startswith("simul") and value is not None] == []


def had(measure: Measure, **params: Level) -> Metrics:
    """Return what was measured; skip on a machine that cannot, if it says so with a remedy."""
    try:
        return measure(**params)
    except RefusedError as error:
        if error.refusal.kind == "unavailable" and error.remedy:
            pytest.skip(str(error))
        raise


def test_counters_of_the_hardware_count_or_say_why_not(measure: Measure) -> None:
    found = had(measure, counters="hardware", sets=200)
    assert figure(found, "l1d_read_access") >= figure(found, "reads")


def test_huge_pages_take_fewer_faults_or_say_why_not(measure: Measure) -> None:
    found = had(measure, pages="huge", sets=2100)
    assert figure(found, "minflt") < FEW_FAULTS


@pytest.mark.parametrize("mapping", ["private", "shared"])
def test_a_mapped_file_is_gone_afterwards(mapping: str, measure: Measure) -> None:
    before = machine_state()
    measure(mapping=mapping, initialise="memset")
    assert machine_state() == before


BAD = {
    "size=0": "size",
    "size=5000": "size",
    "size=4096": "size",
    "size=1000T": "size",
    "sets=0": "sets",
    "sets=many": "sets",
    "pages=huge mapping=shared": "pages",
    "mapping=shared directory=/proc": "/proc",
    "mapping=private directory=/nowhere/at/all": "/nowhere/at/all",
    "geometry=quux": "geometry",
    "pattern=backwards": "pattern",
    "pressure=compete limit=1000T": "limit",
    "pressure=compete swap_size=1": "swap_size",
    "pressure=compete swap=zram swap_size=1000T": "",
    "pressure=compete swap=file directory=/proc": "/proc",
}


@pytest.mark.parametrize("settings", BAD)
def test_what_cannot_be_is_told_in_one_line_with_a_remedy(settings: str, probe: Path, tmp_path: Path) -> None:
    del probe
    before = machine_state()
    asked = {"size": "1M", "sets": "1"} | dict(each.split("=") for each in settings.split())
    if asked.get("pressure") == "compete":
        asked["wait"] = "0"
    words = [word for name, level in asked.items() for word in ("--set", f"{name}={level}")]
    answer = CommandLine(tmp_path)("run", "memory.access", *words, "--reps", "1")
    assert answer.code in (1, 2), answer
    line = answer.err.splitlines()[-1]
    assert line.startswith("oscope: ")
    reported = answer.out + answer.err
    assert BAD[settings] in reported, reported
    assert not re.search("Traceback|bug in Oscope|panicked", reported), reported
    assert machine_state() == before


def test_a_mapping_beyond_memory_and_swap_is_refused_before_it_is_made(measure: Measure) -> None:
    reported = Path("/proc/meminfo").read_text()
    total = sum(int(kib) for kib in re.findall(r"(?:MemTotal|SwapTotal): *(\d+) kB", reported))
    with pytest.raises(RefusedError, match=r"size|memory") as caught:
        measure(size=2 * total * 1024 // PAGE * PAGE)
    assert "\n" not in str(caught.value)
