"""What a lab's figure comes from: experiments, the command that repeats them, what is inside the clock."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oscope.model.experiment import Design, GuestSpec, Lab
from oscope.model.factors import Level, Profile, as_typed
from oscope.model.guest import CPUS
from oscope.model.samples import ExperimentResults, Results
from oscope.statistics.injected import causes_of
from oscope.statistics.machines import build_name
from oscope.targets.guest.spec import GUEST, SSH
from oscope.targets.kernel.config import DEBUG, PADDED
from oscope.targets.kernel.kernel import NOT_BUILT
from oscope.targets.kernel.patches import known
from oscope.targets.kernel.source import PACKAGE
from oscope.targets.target import LOCAL

EXPERIMENTS: Mapping[str, Sequence[str]] = {
    # syscalls
    "What a call costs": ("syscall.cost",),
    "How many calls fit into a second": ("syscall.throughput",),
    "A call and fork in cycles, beside the original report": ("syscall.cost", "process.create"),
    "What page tables cost": ("process.create",),
    "How the times are spread": ("syscall.cost", "process.create"),
    "What makes the times vary": ("syscall.cost", "process.create"),
    "Which value stands for the cost": ("syscall.cost", "process.create"),
    # memory
    "Sequential and random access": ("memory.access",),
    "What the address arithmetic touches": ("memory.access",),
    "How many accesses there are": ("memory.access",),
    "Hits and misses of caches and TLBs": ("memory.counters",),
    "Mapping a file": ("memory.mapping",),
    "Populating and setting memory first": ("memory.initialise",),
    "Memory pressure": ("memory.pressure",),
    "Levels of caches and TLBs": ("memory.latency",),
    "Bandwidth": ("memory.bandwidth",),
    "What a page fault costs by its kind": ("memory.fault",),
    # disk
    "Reading cold, by block size, beside dd and fio": ("disk.peers",),
    "Cold and warm": ("disk.read",),
    "Where the time goes": ("disk.read", "syscall.cost", "memory.bandwidth", "transfer.large"),
    "Ways of reading": ("disk.read",),
    "First and later cold reads": ("disk.read",),
    "The XOR of a file": ("disk.xor",),
    "Writing, and how large a file must be": ("disk.write",),
    "What drop_caches frees": ("disk.drop-caches",),
    # ipc
    "How the configurations perform": ("ipc.throughput",),
    "Round trips": ("ipc.latency",),
    "What read and write return": ("ipc.throughput",),
    "Setting the socket buffers": ("ipc.throughput",),
    "Time in system calls": ("ipc.trace",),
    "Context switches": ("ipc.throughput",),
    "Where a larger buffer stops helping": ("ipc.throughput",),
    "Threads or processes": ("ipc.throughput",),
    "Which calls, and how long they take": ("ipc.trace",),
    "Page faults": ("ipc.trace", "trace.fault"),
    "The probe effect": ("trace.effect", "trace.cost"),
    # transfer
    "Large inputs: mmap against read and write": ("transfer.large",),
    "Five large inputs in one execution": ("transfer.inputs",),
    "Small files: 1, 5 and 10 an execution": ("transfer.small",),
    "Zeros against random bytes": ("transfer.large",),
    "A transfer, traced": ("transfer.trace",),
    "The original report’s jumps of 900 ms": ("transfer.meeting",),
    "Through devices in the kernel: fcntl against mmap": ("transfer.device", "transfer.device-inputs"),
    "Every way of sending and receiving": ("transfer.copy",),
    "Over a line with a rate, a delay and losses": ("transfer.network",),
    # fs
    "Where oscope-fs wins, and where NFS does": ("fs.compare",),
    "Why: bytes, packets and round trips": ("fs.compare",),
    "Which file system for what": ("fs.compare",),
    "Time by the delay of the line": ("fs.compare",),
    "Beside the local file system, on this machine (fs.here)": ("fs.here",),
    "Beside the local file system, in a guest (fs.compare)": ("fs.compare",),
    # kernel
    "A new system call, and what its printing costs": ("kernel.precious",),
    "fork beside the new call": ("kernel.fork", "kernel.precious"),
    "The new call and fork in one table": ("kernel.precious-wall", "kernel.fork-wall"),
    "Reclaim policies: anonymous mapping": ("kernel.reclaim",),
    "Reclaim policies: private mapping": ("kernel.reclaim",),
    "Reclaim policies: shared mapping": ("kernel.reclaim",),
}
"""The experiments of each section, by its title. A section that is not listed names none."""


@dataclass(frozen=True)
class Origin:
    """An experiment that a figure shows."""

    experiment: str
    command: str
    timing_model: str


def origins(title: str, results: Results, labs: Sequence[Lab]) -> list[Origin]:
    """Return where the section of this title takes its figures from, as far as that was run."""
    found = [results.get(name) for name in EXPERIMENTS.get(title, ())]
    return [
        Origin(each.experiment, command(each, labs, results.experiments), each.timing_model)
        for each in found
        if each is not None
    ]


def command(
    experiment: ExperimentResults, labs: Sequence[Lab], beside: Sequence[ExperimentResults] = ()
) -> str:
    """Return the command that measures the same points again, of a side of `oscope ab` both sides.

    `beside` are the other results of the report. Empty for what another tool measured, where no lab has the
    experiment, and where a command cannot say what or where: of `oscope kernel ab`, of a side of `oscope ab`
    without the other one, of an image of a kernel, of a host whose address the record does not have.
    """
    if experiment.environment.get("imported"):
        return ""
    designed = next(
        (each for lab in labs for each in lab.experiments if each.name == experiment.experiment), None
    )
    where = _where(experiment, designed.guest if designed else None)
    if where is None:
        return ""
    program = experiment.environment.get("program")
    if experiment.settings.get("interleaved") and build_name(experiment):
        builds = _builds(experiment, beside)
        if len(builds) != 2:
            return ""
        levels = designed.design("quick").factors if designed else dict.fromkeys(experiment.names, ())
        parts = ["oscope", "ab", *map(shlex.quote, builds), experiment.experiment]
        parts += [*_set(experiment, levels), "--way", experiment.settings.get("way", "interleaved")]
        return " ".join([*parts, *_amount(experiment, None)])
    if program:
        design = None if designed is None else designed.design("full")
        return _own_command(experiment, str(program["name"]), design)
    if designed is None:
        return ""
    profile: Profile = "quick" if experiment.settings.get("profile") == "quick" else "full"
    design = designed.design(profile)
    parts = ["oscope", "run", experiment.experiment]
    parts += ["--profile", "quick"] if profile == "quick" else []
    options = (*_amount(experiment, design.reps), *where, *_held(experiment))
    return " ".join([*parts, *_set(experiment, design.factors), *options])


def _builds(experiment: ExperimentResults, beside: Sequence[ExperimentResults]) -> list[str]:
    """Return the builds that `oscope ab` measured, as the user wrote them, as far as they are here."""
    sides = {each.run_id: each for each in beside if each.experiment == experiment.experiment}
    runs = experiment.settings.get("interleaved") or ()
    names = [build_name(sides[run]) for run in runs if run in sides]
    return [name for name in names if name is not None]


def _amount(experiment: ExperimentResults, designed_reps: int | None) -> Iterator[str]:
    """Yield the options by which it was measured longer or shorter, or on purpose under interference.

    `designed_reps` are the samples of a point without any of these options.
    """
    settings = experiment.settings
    if precision := settings.get("precision"):
        yield f"--precision {100 * precision:.12g}%"
    # Of interleaved runs, whose number of blocks is open, `reps` are those of one block.
    elif settings.get("blocks", 1) and (reps := settings.get("reps")) and reps != designed_reps:
        yield f"--reps {reps}"
    if budget_s := settings.get("budget_s"):
        yield f"--budget {budget_s:.12g}s"
    if spread_s := settings.get("spread_s"):
        yield f"--spread {spread_s:.12g}s"
    if (causes := causes_of(experiment)) and not settings["injection"]["steady"]:
        yield f"--inject {','.join(causes)}"


def _own_command(experiment: ExperimentResults, program: str, design: Design | None) -> str:
    """Return the command for a workload of the user's own, in the folder where its program was named."""
    parts = ["oscope", "run", "--workload", shlex.quote(program), experiment.experiment]
    known: dict[str, Sequence[Level]] = dict.fromkeys(experiment.names, ())
    known |= {} if design is None else design.factors
    amount = _amount(experiment, None if design is None else design.reps)
    return " ".join([*parts, *_set(experiment, known), *amount, *_held(experiment)])


def _where(experiment: ExperimentResults, designed: GuestSpec | None) -> list[str] | None:
    """Return the options for where it was measured; None where no option says it.

    `designed` is the guest where the experiment is measured without an option; None: it is this machine.
    """
    settings, guest = experiment.settings, experiment.environment.get("guest")
    place = str(settings.get("place", ""))
    if place.startswith(f"{SSH}:"):
        address = settings.get("address")
        return None if address is None else [f"--on {shlex.quote(f'{SSH}:{address}')}"]
    if not guest:
        return [f"--on {LOCAL}"] if place == LOCAL and designed is not None else []
    kernel = _kernel(guest["kernel"])
    if kernel is None or settings.get("interleaved"):
        return None
    usual = designed or GuestSpec(clock="wall")
    found = [] if designed is not None and kernel == usual.kernel else [f"--on {GUEST}:{shlex.quote(kernel)}"]
    clock, memory_bytes = experiment.clock, guest.get("memory_bytes", usual.memory_bytes)
    if clock != usual.clock:
        found.append(f"--clock {clock}")
    cpus = (usual.cpus if clock == usual.clock else None) or CPUS[clock]
    if guest.get("cpus", cpus) != cpus:
        found.append(f"--cpus {guest['cpus']}")
    if memory_bytes != usual.memory_bytes:
        found.append(f"--memory {memory_bytes}")
    return found


def _kernel(kernel: Mapping[str, Any]) -> str | None:
    """Return what `--on guest:` takes for a kernel; None for an image that Oscope did not build.

    Its name means another kernel where it is built from a tree, a patch or a fragment of the user's.
    """
    source = kernel.get("source", PACKAGE)
    if source == NOT_BUILT:
        return None
    patches, variants = kernel.get("patches", ()), kernel.get("variant", "").split(",")
    is_ours = source.startswith(PACKAGE) and {*patches} <= {*known()} and {*variants} <= {"", DEBUG, PADDED}
    return str(kernel["name"] if is_ours else kernel["id"])


def _held(experiment: ExperimentResults) -> Iterator[str]:
    """Yield the options for settings of the machine that were held, and for nothing repeated."""
    held = {one["name"]: one["now"] for one in experiment.settings.get("tuned", ()) if one["left"] is None}
    for name, value in held.items():
        yield f"--tune {shlex.quote(f'{name}={value}')}"
    if not experiment.settings.get("again", True):
        yield "--no-again"


def _set(experiment: ExperimentResults, levels: Mapping[str, Sequence[Level]]) -> Iterator[str]:
    """Yield the options `--set` for the factors that have other levels here than `levels`."""
    for name in experiment.names:
        own = experiment.levels(name)
        if set(own) != set(levels.get(name, ())):
            yield "--set"
            yield f"{name}={','.join(map(as_typed, own))}"
