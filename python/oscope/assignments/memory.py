"""CS380L lab 2, step by step: tools, and memory accesses with and without pressure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oscope.assignments.model import Answer, Document, Step
from oscope.labs import kernel, memory, tools
from oscope.model.experiment import Design
from oscope.model.factors import Level

MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30
FEW_SETS = 1 << 13
MAPPINGS = ("private", "shared")
PREPARED = (("private", True, "none"), ("shared", True, "none"), ("shared", False, "memset+msync"))
"""Columns of Figure 4: mapping, populate, initialise."""
POLICIES = ("reclaim-active", "own")
"""Columns of Figure 6: the modified kernel and the unmodified one."""
BUILD = "`oscope kernel build --patch my_precious --patch reclaim-policy`"


def _other_preparation(factors: Mapping[str, Level]) -> bool:
    return (factors["mapping"], factors["populate"], factors["initialise"]) not in PREPARED


def _walk(sets: int, size: int, **more: tuple[Level, ...]) -> dict[str, tuple[Level, ...]]:
    factors: dict[str, tuple[Level, ...]] = {"footprint": ("first64th",), "sets": (sets,), "size": (size,)}
    return {**more, **factors}


def _access(sets: int, size: int) -> Design:
    factors = _walk(sets, size, pattern=memory.PATTERNS, mapping=("anonymous",), counters=("none",))
    return Design({**factors, "footprint": memory.FOOTPRINTS}, reps=5, blocks=5)


def _counters(sets: int, size: int) -> Design:
    factors = _walk(
        sets, size, counters=("hardware", "simulated"), pattern=memory.PATTERNS, mapping=("anonymous",)
    )
    # One process: the simulation is the same every time and is done once for all repetitions.
    return Design(factors, reps=5, blocks=1)


def _files(sets: int, size: int) -> Design:
    return Design(_walk(sets, size, mapping=MAPPINGS, pattern=memory.PATTERNS), reps=5, blocks=5)


def _initialise(sets: int, size: int) -> Design:
    factors = _walk(
        sets,
        size,
        mapping=MAPPINGS,
        populate=(True, False),
        initialise=("none", "memset+msync"),
        pattern=("seq",),
    )
    return Design(factors, reps=5, blocks=5, omit=_other_preparation)


def _pressure(sets: int, size: int, limit: int, wait: float) -> Design:
    factors = _walk(
        sets,
        size,
        pressure=("compete", "none"),
        counters=("none", "hardware"),
        pattern=("random",),
        initialise=("memset",),
    )
    return Design({**factors, "limit": (limit,), "wait": (wait,)}, reps=5, blocks=5)


def _policy(reps: int) -> Design:
    factors = {**kernel.RECLAIM_WALL.full.factors, "policy": POLICIES}
    return Design(factors, reps=reps, blocks=reps)


EXPERIMENTS = (
    replace(memory.ACCESS, full=_access(memory.SETS, GIBIBYTE), quick=_access(FEW_SETS, 256 * MEBIBYTE)),
    replace(memory.FILES, full=_files(memory.SETS, GIBIBYTE), quick=_files(1 << 12, 64 * MEBIBYTE)),
    replace(
        memory.INITIALISE, full=_initialise(memory.SETS, GIBIBYTE), quick=_initialise(1 << 12, 64 * MEBIBYTE)
    ),
    replace(
        memory.PRESSURE,
        full=_pressure(memory.SETS, GIBIBYTE, GIBIBYTE // 2, 5.0),
        quick=_pressure(FEW_SETS, 64 * MEBIBYTE, 32 * MEBIBYTE, 1.0),
    ),
    replace(memory.COUNTERS, full=_counters(memory.SETS, GIBIBYTE), quick=_counters(1 << 12, 256 * MEBIBYTE)),
    replace(kernel.RECLAIM_WALL, full=_policy(5), quick=_policy(3)),
)

_TOOLS = {
    "session": Answer("tools", "A recorded session, cleaned"),
    "explain": Answer("tools", "The start of a program, explained"),
    "devices": Answer("tools", "Device files held open"),
    "interfaces": Answer("tools", "Network interfaces"),
    "dhcp": Answer("tools", "DHCP: lease, renewal, release, and a release that is lost"),
}
NO_KERNEL = (
    f"The changed policy needs a guest under a patched kernel. {BUILD} builds one in minutes; then "
    "`oscope assignment memory` measures both policies in that guest."
)

STEPS = (
    Step(
        "script",
        "figure",
        "Section 2.1, Figure 1",
        "A recording of `script`, before and after cleaning",
        commands=("session clean session_record", "session record session.cast"),
        measured=("tools.session",),
        answers=(_TOOLS["session"],),
    ),
    Step(
        "strace",
        "step",
        "Section 2.1",
        "Trace the system calls of `cat`",
        commands=("explain -- cat /etc/os-release",),
        measured=("tools.explain",),
        answers=(_TOOLS["explain"],),
    ),
    Step(
        "lsof",
        "step",
        "Section 2.2",
        "The device files that user programs hold open, and what each is",
        commands=("devices",),
        measured=("tools.devices",),
        answers=(_TOOLS["devices"],),
    ),
    Step(
        "ifconfig",
        "step",
        "Section 3",
        "Network interfaces: address, gateway, subnet mask",
        commands=("interfaces",),
        measured=("tools.interfaces",),
        answers=(_TOOLS["interfaces"],),
    ),
    Step(
        "dhcp",
        "question",
        "Section 3, questions a to f",
        "What a packet capture shows of DHCP: transport, addresses, release, acknowledgement, lost release",
        commands=("dhcp read tcpdump.out.1", "dhcp lab"),
        measured=("tools.dhcp",),
        answers=(_TOOLS["dhcp"],),
        note="`dhcp read` answers the six questions from a capture; `dhcp lab` plays the conversation.",
    ),
    Step(
        "file-system",
        "step",
        "Section 4",
        "A user-level file system: the document has only the heading",
        commands=("fs mount host:/folder /mnt", "run fs.compare"),
        answers=(Answer("fs", "Where oscope-fs wins, and where NFS does"),),
    ),
    Step(
        "walk",
        "step",
        "Section 5, do_mem_access",
        "Walk 2^20 working sets of 512 cache lines, in sequence or at random",
        commands=("run memory.access --set footprint=first64th",),
        measured=("memory.access",),
        answers=(Answer("memory", "How many accesses there are"),),
        note="The buffer is flushed from the first cache, and getrusage is read before and after.",
    ),
    Step(
        "figure-2",
        "table",
        "Section 5, Figure 2",
        "Sequential and random access, anonymous memory",
        commands=("run memory.access memory.counters --set footprint=first64th",),
        measured=("memory.access", "memory.counters"),
        answers=(
            Answer("memory", "Sequential and random access"),
            Answer("memory", "Hits and misses of caches and TLBs"),
        ),
    ),
    Step(
        "footprint",
        "question",
        "Section 5, note 6",
        "Why only the first 1/64 of the buffer is touched, and what the corrected index changes",
        commands=("run memory.access --set footprint=first64th,full",),
        measured=("memory.access",),
        answers=(Answer("memory", "What the address arithmetic touches"),),
    ),
    Step(
        "figure-3",
        "table",
        "Section 5, Figure 3",
        "File-backed mappings, private and shared",
        commands=("run memory.mapping --set mapping=private,shared --set footprint=first64th",),
        measured=("memory.mapping",),
        answers=(Answer("memory", "Mapping a file"),),
    ),
    Step(
        "figure-4",
        "table",
        "Section 5, Figure 4",
        "MAP_POPULATE, and memset with msync after allocation",
        commands=("run memory.initialise",),
        measured=("memory.initialise",),
        answers=(Answer("memory", "Populating and setting memory first"),),
    ),
    Step(
        "preload",
        "question",
        "Section 5, strace of memory_access",
        "What arch_prctl(ARCH_SET_FS) and the access to /etc/ld.so.preload are for",
        commands=("explain -- cat /etc/os-release",),
        measured=("tools.explain",),
        answers=(_TOOLS["explain"],),
        brief=True,
        note="The trace itself stands in section 2.1.",
    ),
    Step(
        "compete",
        "step",
        "Section 6, compete_for_memory",
        "A child maps as much memory as there is and touches pages at random; the parent waits 5 s",
        commands=("run memory.pressure",),
        note=(
            "Here the competition is held in a memory control group with a limit, and swap is made for the "
            "run and removed after it. `--set scope=machine` presses the whole machine, as in the document."
        ),
    ),
    Step(
        "figure-5",
        "table",
        "Section 6, Figure 5",
        "Random access with and without memory pressure",
        commands=("run memory.pressure",),
        measured=("memory.pressure",),
        answers=(Answer("memory", "Memory pressure"),),
    ),
    Step(
        "policy",
        "step",
        "Section 6, shrink_page_list",
        "Let the kernel reclaim pages that were referenced",
        commands=("kernel build --patch my_precious --patch reclaim-policy",),
        note="The patch is kernel/patches/reclaim-policy: the policy is a setting of one kernel.",
    ),
    Step(
        "figure-6",
        "table",
        "Section 6, Figure 6",
        "Random access under pressure, modified and unmodified kernel, for the three mappings",
        commands=("run kernel.reclaim-wall --set policy=own,reclaim-active",),
        measured=("kernel.reclaim-wall",),
        answers=(Answer("kernel", "Reclaim policies: anonymous mapping"),),
        fix=NO_KERNEL,
    ),
)

DOCUMENT = Document(
    key="memory",
    name="CS380L lab 2",
    title="CS380L: Advanced Operating Systems, Lab #2, Spring 2019",
    about=(
        "A student report for the graduate operating-systems course CS380L (utexas.edu). It uses strace, "
        "lsof and tcpdump, then measures how memory accesses behave by pattern and by mapping, with a "
        "process that competes for memory, and with a changed page-replacement policy."
    ),
    machine="a virtual machine with Linux 4.19.6, 2 GB of memory and 4 virtual CPUs; 5 runs each",
    steps=STEPS,
    experiments=EXPERIMENTS,
    inspections=(tools.SESSION, tools.EXPLAIN, tools.DEVICES, tools.INTERFACES, tools.DHCP),
    quick_sizes=(
        "--quick walks 4096 to 8192 sets in 64 to 256 MiB, waits 1 s for the competitor, and takes three "
        "boots of the guest. The full profile has the document's 1 048 576 sets in 1 GiB."
    ),
)
