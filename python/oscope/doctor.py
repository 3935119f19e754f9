"""What this machine can measure, what it cannot, and the command that would mend it.

Each check is a small function that *tries* the thing (opens it, runs it, asks the probe to count known work)
and gives one `Finding`. A file that exists proves nothing: a `/dev/kvm` that runs no guest and a counter that
reads zero are both common.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from oscope.errors import OscopeError
from oscope.locate import ask, find_probe
from oscope.probe import Probe
from oscope.trace import launch
from oscope.units import format_bytes

Status = Literal["ok", "limited", "missing"]

BUSY_SHARE = 0.5
"""Load for each CPU from which other programs are likely to disturb a measurement."""

NO_PTRACE = 3
"""Value of kernel.yama.ptrace_scope from which nobody may attach to a process."""

TRIAL_TIME_LIMIT_S = 15
"""bpftrace compiles and loads a program in its trial, which takes seconds on a slow machine."""


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    name: str
    status: Status
    found: str
    """What the trial showed, in a few words."""
    needed_for: str
    remedy: str | None = None
    """The command or step that would mend it; None where nothing is to be mended."""
    essential: bool = False
    """True where nothing at all can be measured without it."""

    def as_record(self) -> dict[str, Any]:
        """Return the finding as plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Tool:
    """A program that a lab calls, and the trial that shows that it works here."""

    name: str
    package: str
    needed_for: str
    version: tuple[str, ...] = ("--version",)
    trial: tuple[str, ...] | None = None
    """Arguments of a run that does the least real work; None: its version is all that is asked."""
    trial_needs_root: bool = False


TOOLS = (
    Tool(
        "bpftrace",
        "bpftrace",
        "tracing: --trace, oscope trace",
        trial=("-e", "BEGIN { exit(); }"),
        trial_needs_root=True,
    ),
    Tool("strace", "strace", "trace.effect", trial=("-qq", "-e", "trace=none", "true")),
    Tool(
        "perf",
        "linux-perf",
        "make bench, trace.effect",
        trial=("stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "true"),
        trial_needs_root=True,
    ),
    Tool("qemu-system-x86_64", "qemu-system-x86", "guests under other kernels"),
    Tool("fio", "fio", "the disk lab, beside Oscope"),
    Tool("tcpdump", "tcpdump", "network captures"),
    Tool("dnsmasq", "dnsmasq-base", "the DHCP lab"),
    Tool("sshfs", "sshfs", "the file system lab, beside Oscope"),
    Tool("chromium", "chromium", "the test that opens the report; no measurement"),
)


def examine(store: str | None = None) -> list[Finding]:
    """Try everything and return the findings, the essential ones first.

    `store` is the place of the store to try; None is the default one.
    """
    findings, environment = _probe()
    if environment is not None:
        findings += [check(environment) for check in ENVIRONMENT_CHECKS]
    findings += [check() for check in HOST_CHECKS]
    findings += [try_tool(tool) for tool in TOOLS]
    findings.append(_store(store))
    return findings


def can_measure(findings: list[Finding]) -> bool:
    """Return whether the probe can measure at all."""
    return not any(f.essential and f.status == "missing" for f in findings)


def _as_root(command: str) -> str:
    """Return `command` as this user has to type it."""
    return command if os.geteuid() == 0 else f"sudo {command}"


def _probe() -> tuple[list[Finding], Mapping[str, Any] | None]:
    """Start the probe, take its greeting, and have it measure what it knows of this machine."""
    needed_for = "every measurement"
    try:
        path = find_probe()
        with Probe(path) as probe:
            version = probe.hello.probe["version"]
        environment = ask(path, "environment")
    except OscopeError as error:
        remedy = error.remedy or "build it anew with make setup"
        return [Finding("probe", "missing", error.message, needed_for, remedy, essential=True)], None
    found = f"version {version}, at {path}"
    return [Finding("probe", "ok", found, needed_for, essential=True)], environment


def _why_missing(told: str) -> tuple[str, str | None]:
    """Part what the probe says of a value that cannot be had: the reason, then the remedy."""
    reason, _, remedy = told.partition("; ")
    return reason, remedy or None


def _self_check(environment: Mapping[str, Any]) -> Finding:
    check = environment["self_check"]
    found = f"twice the work took {check['ratio_of_double_work']:.3f} times as long"
    if check["ok"]:
        return Finding("self-check", "ok", found, "trust in every timing")
    return Finding(
        "self-check", "limited", found, "trust in every timing", "end what else is running (top), then repeat"
    )


def _clock(environment: Mapping[str, Any]) -> Finding:
    clock = environment["clock"]
    needed_for = "timing single calls, figures in cycles"
    if clock["kind"] == "tsc":
        cost = f"a reading costs {clock['overhead']:.0f} ticks, taken off"
        return Finding("clock", "ok", f"time-stamp counter, {clock['hz'] / 1e9:.3f} GHz; {cost}", needed_for)
    reason, remedy = _why_missing(clock["why"])
    return Finding(
        "clock", "limited", f"{clock['kind']}: {reason}", needed_for, remedy or "use another machine"
    )


def _clock_offsets(environment: Mapping[str, Any]) -> Finding:
    offsets = environment["tsc_offsets"]
    needed_for = "times between two CPUs (process.create, child_ns)"
    if offsets is None:
        reason, remedy = _why_missing(environment["unavailable"].get("tsc_offsets", "not measured"))
        return Finding("clock offsets", "limited", reason, needed_for, remedy)
    largest = max(abs(ticks) for ticks in offsets["ticks"])
    error = max(offsets["error_ticks"])
    found = f"{len(offsets['cpus'])} CPUs differ by at most {largest:.0f} ticks, known within {error:.0f}"
    return Finding("clock offsets", "ok", found, needed_for)


def _counters(environment: Mapping[str, Any]) -> Finding:
    available, unavailable = environment["counters"]["available"], environment["counters"]["unavailable"]
    needed_for = "instructions, cache misses and branch misses beside each sample"
    if not unavailable:
        return Finding("hardware counters", "ok", "proved by counting: " + ", ".join(available), needed_for)
    parted = [_why_missing(told) for told in unavailable.values()]
    reasons = "; ".join(dict.fromkeys(reason for reason, _ in parted))
    remedies = "; ".join(dict.fromkeys(remedy for _, remedy in parted if remedy))
    if available:
        found = f"{', '.join(available)}; without {', '.join(unavailable)}: {reasons}"
        return Finding("hardware counters", "limited", found, needed_for, remedies or None)
    return Finding("hardware counters", "missing", reasons, needed_for, remedies or None)


def _swap(environment: Mapping[str, Any]) -> Finding:
    total = environment["memory"]["swap_total_bytes"]
    needed_for = "the memory-pressure experiments"
    if total:
        return Finding("swap", "ok", format_bytes(total), needed_for)
    steps = "fallocate -l 2G /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile"
    remedy = steps if os.geteuid() == 0 else f"sudo sh -c '{steps}'"
    return Finding("swap", "missing", "none", needed_for, remedy)


def _governor(environment: Mapping[str, Any]) -> Finding:
    governor = environment["cpu"]["governor"]
    needed_for = "steady times"
    if governor is None:
        reason, remedy = _why_missing(environment["unavailable"].get("governor", "not told by this machine"))
        return Finding("frequency governor", "limited", reason, needed_for, remedy)
    if governor == "performance":
        return Finding("frequency governor", "ok", governor, needed_for)
    remedy = _as_root("cpupower frequency-set -g performance")
    return Finding("frequency governor", "limited", governor, needed_for, remedy)


def _load(environment: Mapping[str, Any]) -> Finding:
    last_minute, cpus = environment["load"][0], len(environment["cpu"]["allowed"])
    found = f"{last_minute:.2f} over the last minute, on {cpus} CPUs"
    if last_minute <= BUSY_SHARE * cpus:
        return Finding("load", "ok", found, "steady times")
    return Finding("load", "limited", found, "steady times", "end what else is running: top")


ENVIRONMENT_CHECKS: tuple[Callable[[Mapping[str, Any]], Finding], ...] = (
    _self_check,
    _clock,
    _clock_offsets,
    _counters,
    _load,
    _governor,
    _swap,
)


def _perf_event_paranoid() -> int:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return (
            4  # No such file: the kernel was built without perf events, which is stricter than any setting.
        )


def _root() -> Finding:
    needed_for = "dropping caches, tracing, guests with devices"
    if os.geteuid() == 0:
        return Finding("root", "ok", "yes", needed_for)
    return Finding("root", "limited", f"user {os.geteuid()}", needed_for, "sudo oscope …")


def _perf_events() -> Finding:
    level = _perf_event_paranoid()
    needed_for = "hardware counters, perf"
    if level <= 2 or os.geteuid() == 0:
        return Finding("perf events", "ok", f"kernel.perf_event_paranoid={level}", needed_for)
    remedy = _as_root("sysctl kernel.perf_event_paranoid=1")
    return Finding("perf events", "missing", f"kernel.perf_event_paranoid={level}", needed_for, remedy)


def _ptrace() -> Finding:
    """Tell whether one may attach to a process: 0 is yes, 3 never, between them root may (ptrace(2))."""
    try:
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except OSError:
        scope = 0  # No such file: the kernel has no Yama, which alone could forbid it.
    found = f"kernel.yama.ptrace_scope={scope}"
    if scope == 0 or (scope < NO_PTRACE and os.geteuid() == 0):
        return Finding("ptrace", "ok", found, "strace in trace.effect")
    remedy = "boot anew" if scope >= NO_PTRACE else _as_root("sysctl kernel.yama.ptrace_scope=0")
    return Finding("ptrace", "missing", found, "strace in trace.effect", remedy)


def _tracefs() -> Finding:
    needed_for = "tracing: --trace, oscope trace"
    if os.geteuid() != 0:
        return Finding("tracefs", "limited", "only root may look", needed_for, "sudo oscope …")
    if Path("/sys/kernel/tracing/events/raw_syscalls").is_dir():
        return Finding("tracefs", "ok", "mounted, with system calls", needed_for)
    if "\ttracefs\n" in Path("/proc/filesystems").read_text():
        return Finding("tracefs", "ok", "not mounted; a tracer mounts it for itself alone", needed_for)
    return Finding(
        "tracefs", "missing", "not in this kernel", needed_for, "a kernel with CONFIG_FTRACE_SYSCALLS"
    )


def _drop_caches() -> Finding:
    return try_open("drop_caches", Path("/proc/sys/vm/drop_caches"), os.O_WRONLY, "cold reads of files")


def _fuse() -> Finding:
    return try_open("FUSE", Path("/dev/fuse"), os.O_RDWR, "the user-level file system lab")


def try_open(name: str, path: Path, flags: int, needed_for: str) -> Finding:
    """Try to open `path`; opening neither drops a cache nor mounts anything."""
    try:
        os.close(os.open(path, flags | os.O_CLOEXEC))
    except OSError as error:
        remedy = (
            "run as root: sudo oscope …"
            if isinstance(error, PermissionError)
            else f"a kernel that has {path}"
        )
        return Finding(name, "missing", f"{path}: {error.strerror}", needed_for, remedy)
    return Finding(name, "ok", f"{path} opens", needed_for)


def _kvm() -> Finding:
    finding = try_open("KVM", Path("/dev/kvm"), os.O_RDWR, "guests at full speed")
    if finding.status != "ok":
        return finding
    return Finding(
        "KVM",
        "limited",
        "/dev/kvm opens; only a guest that boots proves that it works",
        finding.needed_for,
        "untried here; where no guest boots, guests are emulated",
    )


def _huge_pages() -> Finding:
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    needed_for = "process.create with huge pages"
    try:
        chosen = path.read_text().split("[")[1].split("]")[0]
    except (OSError, IndexError):
        return Finding(
            "huge pages",
            "missing",
            f"{path} cannot be read",
            needed_for,
            "a kernel with transparent huge pages",
        )
    if chosen == "never":
        return Finding(
            "huge pages", "missing", chosen, needed_for, _as_root(f"sh -c 'echo madvise > {path}'")
        )
    return Finding("huge pages", "ok", chosen, needed_for)


HOST_CHECKS: tuple[Callable[[], Finding], ...] = (
    _root,
    _perf_events,
    _tracefs,
    _ptrace,
    _drop_caches,
    _huge_pages,
    _fuse,
    _kvm,
)


def try_tool(tool: Tool) -> Finding:
    """Run the tool: first for its version, then in its trial."""
    path = shutil.which(tool.name)
    if path is None:
        remedy = _as_root(f"apt-get install {tool.package}")
        return Finding(tool.name, "missing", "not installed", tool.needed_for, remedy)
    answer = _run([path, *tool.version])
    if isinstance(answer, OSError) or answer.returncode != 0:
        remedy = _as_root(f"apt-get install --reinstall {tool.package}")
        return Finding(
            tool.name, "missing", f"{path} does not start: {_reason(answer)}", tool.needed_for, remedy
        )
    told = _first_line(answer.stdout or answer.stderr)
    number = re.search(r"\d+(\.\d+)+\S*", told)
    version = number.group() if number else told
    if tool.trial is None:
        return Finding(tool.name, "ok", version, tool.needed_for)
    if tool.trial_needs_root and os.geteuid() != 0:
        return Finding(tool.name, "limited", f"{version}; needs root", tool.needed_for, "sudo oscope …")
    # Perf would mount tracefs for all to see.
    trial = _run(launch.command(path, *tool.trial) if tool.trial_needs_root else [path, *tool.trial])
    if isinstance(trial, OSError) or trial.returncode != 0:
        remedy = f"see what it says: {tool.name} {' '.join(tool.trial)}"
        return Finding(
            tool.name, "missing", f"{version}; its trial fails: {_reason(trial)}", tool.needed_for, remedy
        )
    return Finding(tool.name, "ok", f"{version}; tried", tool.needed_for)


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | OSError:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=TRIAL_TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TimeoutError(f"no answer within {TRIAL_TIME_LIMIT_S} s")
    except OSError as error:
        return error


def _reason(answer: subprocess.CompletedProcess[str] | OSError) -> str:
    if isinstance(answer, OSError):
        return answer.strerror or str(answer)
    return _first_line(answer.stderr or answer.stdout) or f"exit status {answer.returncode}"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""


def _store(place: str | None) -> Finding:
    """Open the store, which makes it if need be; the run that follows would do the same."""
    from oscope.store import Store

    needed_for = "keeping what is measured"
    try:
        with Store.open(place) as store:
            runs = len(store.runs())
    except OscopeError as error:
        return Finding("store", "missing", error.message, needed_for, error.remedy or "name another --store")
    return Finding("store", "ok", f"{runs} runs", needed_for)
