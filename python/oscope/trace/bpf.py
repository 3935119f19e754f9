"""bpftrace as a tracer: attached once for many processes, and never longer than the laboratory."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.trace import launch
from oscope.trace.bpf_findings import attached_probes
from oscope.trace.bpf_reading import read_findings
from oscope.trace.output import Output
from oscope.trace.program import HELPFUL, Family, Marks, compose, is_plain, needed
from oscope.trace.tracer import Tracer, TraceUnavailable, Tracing

ATTACH_LIMIT_S = 60.0
"""Compiling takes about a second, and many times that where the machine is busy."""
DETACH_LIMIT_S = 60.0
_LIST_LIMIT_S = 30.0
_NUDGE_S = 0.2
_QUIET_S = 0.2
_REMEDY = "`oscope doctor` tries bpftrace, and shows the remedy"
_ATTACHED = b'{"type": "printf", "data": "attached\\n"}'
_INFORMATIVE = re.compile(r"ERROR|FATAL|terminate|: [A-Z][a-z ]+$")
_NOISE = re.compile(r"RLIMIT_MEMLOCK|WARNING|^\s*~+\s*$")
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # linux/proc_ns.h, PROC_PID_INIT_INO
_MAP_BYTES = 128 * 2**20
_MAPS = 24
_KEYS_A_TURN = 128
"""At most 38 were seen in one map, for a transfer between processes by blocks of 256 B, all kinds traced."""
_FEWEST_KEYS = 4096
_FAMILY_TURNS = 128
"""A whole command makes more kinds of calls, and of more sizes, than a repetition does."""
_RING_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Room:
    """How much a tracer can hold before it loses something."""

    keys: int
    """Entries of each of at most 24 maps; all their memory is taken at once: 100 B, and 8 B a CPU, each."""
    ring_pages: int
    """Pages of each CPU's ring, a power of two."""

    @classmethod
    def for_turns(cls, turns: int) -> Room:
        """Return room for `turns` tokens, in no more than 128 MiB of maps and 64 MiB of rings."""
        cpus = os.cpu_count() or 1
        most = _MAP_BYTES // (_MAPS * (100 + 8 * cpus))
        keys = max(min(turns * _KEYS_A_TURN, most), _FEWEST_KEYS)
        pages = _RING_BYTES // (os.sysconf("SC_PAGE_SIZE") * cpus)
        return cls(keys, min(max(1 << (pages.bit_length() - 1), 64), 4096))


class BpfTracer(Tracer):
    """One bpftrace process.

    Start it from a thread that lives as long as the tracer: the kernel ends it with that thread (prctl(2)).
    """

    follows_marks = True

    def __init__(self, name: str, kinds: Collection[str], probe: Path | None, room: Room) -> None:
        """Trace `kinds` between the marks of `probe`.

        If it is None: of the started process and its descendants, from its execve on.
        """
        self.name = name
        self._kinds = kinds
        self._probe = probe
        self._room = room
        self._cleanup = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of_family(cls, kinds: Collection[str]) -> BpfTracer:
        """Return the tracer of a process and its descendants from its execve on; its one reading is 0's."""
        return cls("+".join(kinds), kinds, None, Room.for_turns(_FAMILY_TURNS))

    @property
    def pid(self) -> int | None:
        """Process id of bpftrace; None before the start."""
        return None if self._process is None else self._process.pid

    def start(self, pid: int) -> None:
        """Attach, and return when all is attached."""
        if self._process is not None:
            raise OscopeError(f"the tracer {self.name} was started before", remedy="make another")
        try:
            self._start(pid)
        except BaseException:
            self.kill()
            raise

    def alive(self) -> bool:
        """Return whether bpftrace runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> Tracing:
        """Detach and return what was found."""
        try:
            if self._process is None or self._process.poll() is not None:
                raise self._death()
            recursion = _recursion_misses(self._process.pid)
            self._wait_for_quiet()
            self._interrupt(self._process)
            self._output.join(DETACH_LIMIT_S)
            if self._process.returncode != 0 or self._output.is_alive():
                raise self._death()
            return read_findings(self._output.lines, self._program, self.name, recursion)
        finally:
            self.kill()

    def kill(self) -> None:
        """Detach at once."""
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._cleanup.close()

    def _start(self, pid: int) -> None:
        bpftrace = _find_bpftrace()
        selection = self._select(pid)
        present = _present((*needed(self._kinds, selection), *HELPFUL))
        for name in needed(self._kinds, selection):
            if name not in present:
                raise TraceUnavailable(
                    f"this kernel has no tracepoint {name}",
                    remedy="trace other kinds, or boot a kernel that has it",
                )
        self._program = compose(self._kinds, selection, present)
        self._errors = self._cleanup.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it.
        # -k reports updates that a map refused.
        self._process = subprocess.Popen(
            launch.command(bpftrace, "-k", "-f", "json", "-e", self._program.text),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            env=_environment(self._room),
        )
        assert self._process.stdout is not None  # noqa: S101 - it was asked for.
        stream = self._cleanup.enter_context(self._process.stdout)
        self._output = Output(stream, _ATTACHED)
        self._output.start()
        self._cleanup.callback(self._output.join, DETACH_LIMIT_S)
        if not self._output.attached.wait(ATTACH_LIMIT_S):
            raise OscopeError(f"bpftrace did not attach within {ATTACH_LIMIT_S:g} s, and was killed")
        if _ATTACHED not in self._output.lines:
            if self._process.wait(DETACH_LIMIT_S) < 0:
                raise self._death()
            raise TraceUnavailable(f"bpftrace cannot attach ({self._words()})", remedy=_REMEDY)
        attached, expected = attached_probes(tuple(self._output.lines)), self._program.probes
        if attached != expected:
            raise TraceUnavailable(
                f"bpftrace attached to {attached} of {expected} places: {self._probe} has no marks?",
                remedy="build the probe anew with `make setup`",
            )

    def _select(self, pid: int) -> Marks | Family:
        if self._probe is None:
            if Path("/proc/self/ns/pid").stat().st_ino != _INITIAL_PID_NAMESPACE:
                raise TraceUnavailable(
                    "in a container with process numbers of its own bpftrace cannot find the process",
                    remedy="trace from outside, or start the container with --pid=host",
                )
            return Family(pid)
        if is_plain(self._probe):
            return Marks(self._probe)
        folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="oscope-", dir="/tmp")))
        link = folder / "probe"
        link.symlink_to(self._probe)
        return Marks(link)

    def _interrupt(self, process: subprocess.Popen[bytes]) -> None:
        """Have bpftrace print its maps and end.

        It heeds SIGINT only where that interrupts its wait for events; one that comes while it handles an
        event would be noticed at the next signal. A second SIGINT kills it while it prints; a stop does not,
        and it interrupts the wait all the same (man 7 signal).
        """
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + DETACH_LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_NUDGE_S)
                return
            process.send_signal(signal.SIGSTOP)
            process.send_signal(signal.SIGCONT)
        raise OscopeError(f"bpftrace did not end within {DETACH_LIMIT_S:g} s, and was killed")

    def _wait_for_quiet(self) -> None:
        """Wait until nothing is left in the ring, which bpftrace does not empty once it is asked to end."""
        deadline = time.monotonic() + DETACH_LIMIT_S
        while "events" in self._kinds and time.monotonic() < min(deadline, self._output.last_s + _QUIET_S):
            time.sleep(_QUIET_S / 4)

    def _death(self) -> OscopeError:
        if self._process is None:
            return OscopeError(f"the tracer {self.name} was not started")
        status = self._process.returncode
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        words = self._words()
        return OscopeError(f"bpftrace {how} while it traced{f'; its last words: {words}' if words else ''}")

    def _words(self) -> str:
        """Return the last line that bpftrace or its launcher said, without noise."""
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        informative = [line.strip() for line in lines if line.strip() and not _NOISE.search(line)]
        # It also quotes lines of the program.
        return next((line for line in reversed(informative) if _INFORMATIVE.search(line)), "")


def _find_bpftrace() -> str:
    if os.geteuid() != 0:
        raise TraceUnavailable("bpftrace needs root", remedy="run with sudo")
    bpftrace = shutil.which("bpftrace")
    if bpftrace is None:
        raise TraceUnavailable("bpftrace is not installed", remedy="apt-get install bpftrace")
    return bpftrace


def _environment(room: Room) -> dict[str, str]:
    """Return the environment, less what someone has set for bpftrace; newer ones renamed a key."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BPFTRACE_")}
    keys = str(room.keys)
    return kept | {
        "LC_ALL": "C",
        "BPFTRACE_MAP_KEYS_MAX": keys,
        "BPFTRACE_MAX_MAP_KEYS": keys,
        "BPFTRACE_PERF_RB_PAGES": str(room.ring_pages),
    }


def _present(names: Collection[str]) -> frozenset[str]:
    """Return which of the tracepoints `names` there are, and their fields as `sched:sched_switch prev_pid`.

    Only a launched program is sure to see them.
    """
    paths = {f"{events}/{name.replace(':', '/')}/format": name for events in launch.EVENTS for name in names}
    try:
        listing = subprocess.run(
            launch.command("grep", "-s", "-H", "field:", *paths),
            capture_output=True,
            timeout=_LIST_LIMIT_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TraceUnavailable(f"tracepoints cannot be listed ({error})") from error
    if listing.returncode == launch.EXIT_REFUSED:
        words = listing.stderr.decode(errors="replace").strip()
        raise TraceUnavailable(
            f"tracefs cannot be reached ({words})",
            remedy="mount -t tracefs tracefs /sys/kernel/tracing; in a container, run it with --privileged",
        )
    found = set()
    for line in listing.stdout.decode().splitlines():
        path, _, rest = line.partition(":")
        field = rest.partition(";")[0].split()[-1].partition("[")[0]
        found |= {paths[path], f"{paths[path]} {field}"}
    return frozenset(found)


def _recursion_misses(pid: int) -> int:
    """Return how often the kernel left out a program of process `pid`, since another ran on that CPU.

    The kernel counts it for each program (kernel/bpf/syscall.c, bpf_prog_show_fdinfo), whatever process
    it was for. A program that has two descriptors is counted once.
    """
    misses: dict[str, int] = {}
    try:
        entries = list(Path(f"/proc/{pid}/fdinfo").iterdir())
    except OSError as error:
        raise OscopeError(f"bpftrace ended while it traced ({error.strerror})") from error
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            fields = dict(line.split(":\t", 1) for line in entry.read_text().splitlines() if ":\t" in line)
            if "prog_id" in fields:
                misses[fields["prog_id"].strip()] = int(fields.get("recursion_misses", "0"))
    return sum(misses.values())
