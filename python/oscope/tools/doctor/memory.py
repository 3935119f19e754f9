"""What the memory lab needs: swap and control groups that a run can make, counters of caches, huge pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.model.factors import Level
from oscope.model.finding import Finding, Status, as_root
from oscope.model.units import KIBIBYTE, MEBIBYTE, format_bytes
from oscope.probe.probe_session import ProbeSession, RefusedError

SILENCE_LIMIT_S = 60.0
"""A trial makes what it needs and takes it down again; swap of a few pages takes no second."""

_PRESSURE = "memory.access with pressure=compete"


@dataclass(frozen=True)
class Trial:
    """The least work of a workload that shows whether it can be done here; the probe undoes what it makes."""

    name: str
    needed_for: str
    workload: str
    params: Mapping[str, Level]
    works: str
    """What is found where it works."""
    otherwise: str = ""
    """What there is where it does not; empty: nothing."""


TRIALS = (
    Trial(
        "swap file",
        f"{_PRESSURE}, memory.fault kind=swap-in",
        "memory.fault",
        {"kind": "swap-in", "swap": "file", "size": MEBIBYTE},
        "made, used and removed",
    ),
    Trial(
        "zram swap",
        "swap=zram, or where the file system takes no swap file",
        "memory.fault",
        {"kind": "swap-in", "swap": "zram", "size": MEBIBYTE},
        "made, used and removed",
    ),
    Trial(
        "cache counters",
        "misses as the CPU counts them: memory.access counters=hardware",
        "memory.access",
        {"size": MEBIBYTE, "sets": 1, "counters": "hardware"},
        "counted by the CPU",
        otherwise="simulated only",
    ),
)


def try_workload(trial: Trial) -> Finding:
    """Have the probe do what the trial says, once."""
    notes: list[str] = []
    try:
        with ProbeSession(notes.append) as session:
            session.measure(trial.workload, trial.params, limit_s=SILENCE_LIMIT_S, warmup=0)
    except OscopeError as error:
        # A request that is wrong says nothing of the machine.
        lacks = isinstance(error, RefusedError) and error.refusal.kind == "unavailable"
        messages = [trial.otherwise, error.message] if lacks and trial.otherwise else [error.message]
        status: Status = "limited" if len(messages) > 1 else "missing"
        remedy = error.remedy or "build the probe anew with make setup, or use another machine"
        return Finding(trial.name, status, ": ".join(messages), trial.needed_for, remedy)
    return Finding(trial.name, "ok", "; ".join([trial.works, *notes]), trial.needed_for)


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy of control groups, and where this process is in it."""

    version: int
    top: Path
    own: Path


def hierarchies(mounts: str, groups: str) -> Iterator[Hierarchy]:
    """Give the hierarchies that may have a memory controller, by mountinfo and cgroup of /proc/self."""
    own = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in groups.splitlines()}
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        # Single spaces part the fields (proc(5)): the source, which is not needed, may be empty.
        kind, _, options = kind.split(" ", 2)
        root, place = mount.split(" ")[3:5]
        if kind == "cgroup2":
            version, group = 2, own.get("", "/")
        elif kind == "cgroup" and "memory" in options.split(","):
            version = 1
            group = next((path for names, path in own.items() if "memory" in names.split(",")), "/")
        else:
            continue
        below = group.removeprefix(root) if root != "/" else group
        yield Hierarchy(version, Path(place), Path(place, below.lstrip("/")))


def memory_group() -> Finding:
    """Make a group below this process's own, see whether it has a memory limit, and remove it."""
    name, needed_for = "memory cgroup", f"{_PRESSURE}, scope=group"
    try:
        found = hierarchies(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
        tried = [_try_group(each) for each in found]
    except OSError as error:
        return Finding(name, "missing", f"{error.filename}: {error.strerror}", needed_for, "mount /proc")
    works = [version for version, problem in tried if problem is None]
    if works:
        return Finding(name, "ok", f"version {works[0]}; one with a limit was made and removed", needed_for)
    problems = "; ".join(f"version {version}: {problem}" for version, problem in tried)
    remedy = "run as root: sudo oscope …" if os.geteuid() else "boot with cgroup_enable=memory, mount cgroup2"
    return Finding(name, "missing", problems or "no cgroup hierarchy is mounted", needed_for, remedy)


def _try_group(hierarchy: Hierarchy) -> tuple[int, str | None]:
    """Return the version, and what is in the way of a group with a limit."""
    parent = parent_of(hierarchy)
    if parent is None:
        return hierarchy.version, "no memory controller"
    group = parent / f"oscope-doctor-{os.getpid()}"
    try:
        group.mkdir()
        try:
            limit = group / ("memory.limit_in_bytes" if hierarchy.version == 1 else "memory.max")
            limit.write_text(str(64 << 20))
        finally:
            group.rmdir()
    except OSError as error:
        return hierarchy.version, f"{error.filename}: {error.strerror}"
    return hierarchy.version, None


def parent_of(hierarchy: Hierarchy) -> Path | None:
    """Return the group below which one can be made that has a memory limit.

    In version 2 it is the nearest that hands the controller on (Documentation/admin-guide/cgroup-v2.rst).
    """
    if hierarchy.version == 1:
        return hierarchy.own
    for group in (hierarchy.own, *hierarchy.own.parents):
        if "memory" in (group / "cgroup.subtree_control").read_text().split():
            return group
        if group == hierarchy.top:
            break
    return None


def huge_pages() -> Finding:
    """Look whether the kernel gives transparent huge pages to who asks, and how many are set apart."""
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    name, needed_for = "huge pages", "pages=huge in the memory lab and in process.create"
    try:
        chosen = path.read_text().split("[")[1].split("]")[0]
    except (OSError, IndexError):
        remedy = "a kernel with transparent huge pages"
        return Finding(name, "missing", f"{path} cannot be read", needed_for, remedy)
    found = f"{chosen}; set apart (hugetlb): {_set_apart()}"
    if chosen == "never":
        return Finding(name, "missing", found, needed_for, as_root(f"sh -c 'echo madvise > {path}'"))
    return Finding(name, "ok", found, needed_for)


def _set_apart() -> str:
    """Return the free huge pages of each size that the kernel was asked to set apart; no lab needs them."""
    counts = []
    for folder in sorted(Path("/sys/kernel/mm/hugepages").glob("hugepages-*kB")):
        free = int((folder / "free_hugepages").read_text())
        size = int(folder.name.removeprefix("hugepages-").removesuffix("kB")) * KIBIBYTE
        if free:
            counts.append(f"{free} of {format_bytes(size)}")
    return ", ".join(counts) or "none"


MEMORY_CHECKS: tuple[Callable[[], Finding], ...] = (memory_group, huge_pages)
