"""bpftrace for real: exact counts, losses told, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli_driver import ROOT
from oscope.model.errors import OscopeError
from oscope.probe.locate import find_probe
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Done
from oscope.trace.bpf import BpfTracer, Room
from oscope.trace.reading import return_values
from oscope.trace.tracer import Tracer, TraceUnavailable, Tracing
from oscope.trace.tracers import make
from waiting import wait_until, wait_until_gone

pytestmark = [
    pytest.mark.usefixtures("traced_probe"),
    pytest.mark.skipif(os.geteuid() != 0, reason="bpftrace needs root"),
    pytest.mark.skipif(shutil.which("bpftrace") is None, reason="bpftrace is not installed"),
]

LOOP = {"call": "getppid", "style": "loop"}
CALLS = 100_000
FAMILY_WORK = """
import os
os.read(0, 1)
try:
    os.execv("/", ["/"])
except OSError:
    pass
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    for _ in range(50):
        os.write(writer, b"x" * 1000)
    os._exit(0)
os.close(writer)
while os.read(reader, 700):
    pass
os.waitpid(child, 0)
try:
    os.read(99, 1)
except OSError:
    pass
os._exit(0)
"""


def run(tracer: Tracer, *requests: Request, probe: Path | None = None) -> Tracing:
    """Measure `requests` in one probe, under `tracer`."""
    tracer.start(0)
    try:
        with Probe([probe or find_probe(), "run"]) as process:
            for request in requests:
                *_, last = process.run(request, silence_limit_s=120)
                assert isinstance(last[-1], Done), last
        return tracer.stop()
    finally:
        tracer.kill()


def loop(token: int, calls: int = CALLS, reps: int = 1) -> Request:
    return Request(token, "syscall.cost", LOOP, reps=reps, warmup=1, iterations=calls)


def made(level: str) -> Tracer:
    tracer = make(level, find_probe(), turns=8)
    assert tracer is not None
    return tracer


def family(kinds: tuple[str, ...], code: str) -> Mapping[str, Any]:
    """Trace a Python process that runs `code`, which waits for a line and tries an execve first."""
    tracer = BpfTracer.of_family(kinds)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        try:
            tracer.start(process.pid)
            process.communicate(b"\n", timeout=300)
            found = tracer.stop()
        finally:
            tracer.kill()
            process.kill()
    assert not found.losses.ring
    assert not found.losses.map_full
    assert list(found.readings) == [0]
    return found.readings[0]


@pytest.mark.parametrize("level", ["bpf-count", "bpf-histogram"])
def test_known_calls_are_counted_exactly_and_by_token(level: str) -> None:
    found = run(made(level), loop(3), loop(5, reps=2))
    assert not found.losses.map_full
    assert set(found.readings) == {3, 5}
    for token, reps in ((3, 1), (5, 2)):
        reading = found.readings[token]
        assert reading["tracer"] == level
        assert reading["regions"] == reps
        assert reading["region_ns"] > 0
        assert reading["calls"]["getppid"]["count"] == reps * CALLS
        assert reading["calls"]["getppid"]["errors"] == {}
        if level == "bpf-histogram":
            call = reading["calls"]["getppid"]
            assert sum(count for _, _, count in call["times"]) == reps * CALLS
            low = sum(low * count for low, _, count in call["times"])
            high = sum(high * count for _, high, count in call["times"])
            assert low <= call["time_ns"] <= high
            assert call["time_ns"] <= reading["region_ns"]


def test_every_event_is_counted_or_told_as_lost() -> None:
    found = run(made("bpf-full"), loop(3, 20_000))
    counted = found.readings[3]["calls"]["getppid"]["count"]
    assert counted + found.losses.ring == 20_000


def test_bytes_by_return_values_sum_to_the_total() -> None:
    reading = family(("syscalls",), FAMILY_WORK)
    assert reading["regions"] == 2
    write, read = reading["calls"]["write"], reading["calls"]["read"]
    assert write["sizes"] == [[1000, 50]]
    assert (write["count"], write["asked"], write["returned"], write["short"]) == (50, 50_000, 50_000, 0)
    assert read["returned"] == 50_000 == sum(size * count for size, count in read["sizes"])
    assert read["short"] == sum(count for size, count in read["sizes"] if size < 700)
    assert read["asked"] == 700 * sum(count for _, count in read["sizes"])
    assert read["errors"] == {"EBADF": 1}
    # The read that waited for the line had begun before the execve.
    assert read["count"] == 1 + sum(count for _, count in read["sizes"])
    assert reading["calls"]["exit_group"]["count"] == 2


def test_the_distribution_of_return_values_is_whole() -> None:
    work = FAMILY_WORK.replace("reader, writer", "import mmap; mmap.mmap(-1, 1 << 22)\nreader, writer", 1)
    calls = family(("syscalls",), work)["calls"]
    for name, call in calls.items():
        returned = sum(count for _, count in return_values(call))
        # Some never return.
        assert returned <= call["count"]
        if name not in ("read", "exit_group"):
            assert returned == call["count"], name
    # Addresses by powers of two, all else exactly.
    assert all(low < high for low, high, _ in calls["mmap"]["results"])
    assert [ends for *ends, _ in calls["pipe2"]["results"]] == [[0, 0]]
    assert ("EBADF", 1) in return_values(calls["read"])


def test_children_forked_within_a_region_are_followed() -> None:
    found = run(made("counts"), Request(2, "process.create", reps=3))
    calls = found.readings[2]["calls"]
    assert calls["exit_group"]["count"] == 3


def test_all_kinds_go_together() -> None:
    found = run(made("counts+syscalls+sched+faults"), Request(2, "process.create", reps=2))
    reading = found.readings[2]
    assert reading["tracer"] == "counts+syscalls+sched+faults"
    assert reading["switches"]["voluntary"] >= 1
    waits = reading["switches"]
    assert waits["wakeups"] == sum(count for _, _, count in waits["wakeup_ns"])
    faults = reading["faults"]
    assert sum(row["count"] for row in faults) == sum(count for _, _, count in reading["fault_rate"])
    for row in faults:
        assert row["count"] == sum(count for _, _, count in row["times"])
    assert any(row["kind"] == "copy-on-write" and row["present"] for row in faults)


FAULTS = """
import ctypes, mmap, os, sys, tempfile
libc = ctypes.CDLL(None)
file = tempfile.TemporaryFile(dir={folder!r})
file.write(bytes(64 * 4096)); file.flush()
private = mmap.mmap(file.fileno(), 64 * 4096, flags=mmap.MAP_PRIVATE)
private.madvise(mmap.MADV_RANDOM)
anonymous = mmap.mmap(-1, 300 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
anonymous.madvise(mmap.MADV_NOHUGEPAGE)
sys.stdin.readline()
try:
    os.execv("/", ["/"])
except OSError:
    pass
for page in range(300):
    anonymous[page * 4096] = 1
for page in range(0, 32):
    private[page * 4096] = 1
for page in range(32, 64):
    private[page * 4096]
for page in range(32, 64):
    private[page * 4096] = 1
os._exit(0)
"""


def test_faults_are_told_apart(tmp_path: Path) -> None:
    rows = family(("faults",), FAULTS.format(folder=str(tmp_path)))["faults"]

    def count(kind: str, **expected: object) -> int:
        return sum(
            row["count"]
            for row in rows
            if row["kind"] == kind and all(row[name.rstrip("_")] == value for name, value in expected.items())
        )

    assert 300 <= count("zero-fill", class_="anonymous", access="write", present=False, by="user") <= 340
    assert 32 <= count("file, copied", class_="file", access="write", present=False) <= 60
    assert count("file", class_="file", access="read", present=False) >= 1
    assert count("copy-on-write", class_="file", access="write", present=True) >= 32


def test_a_ring_that_overflows_is_told() -> None:
    tracer = BpfTracer("bpf-full", ("events",), find_probe(), Room(4096, 1))
    found = run(tracer, loop(1, 200_000))
    assert found.losses.ring > 0
    assert found.losses.any
    assert found.readings[1]["calls"]["getppid"]["count"] < 200_000


def test_a_full_map_is_told() -> None:
    tracer = BpfTracer("counts", ("counts",), find_probe(), Room(2, 64))
    found = run(tracer, *(loop(token, 100) for token in range(1, 6)))
    assert found.losses.map_full["calls"] >= 1
    assert found.losses.any


def test_a_probe_with_an_odd_path_is_traced(tmp_path: Path) -> None:
    folder = tmp_path / "odd: {name} /"
    folder.mkdir()
    probe = folder / "pro be"
    shutil.copy2(find_probe(), probe)
    found = run(BpfTracer("counts", ("counts",), probe, Room.for_turns(8)), loop(9, 1000), probe=probe)
    assert found.readings[9]["calls"]["getppid"]["count"] == 1000


def test_a_bpftrace_that_dies_is_noticed() -> None:
    tracer = made("counts")
    tracer.start(0)
    assert tracer.alive()
    assert isinstance(tracer, BpfTracer)
    os.kill(tracer.pid, signal.SIGKILL)
    wait_until(lambda: not tracer.alive(), "the tracer's end")
    with pytest.raises(OscopeError, match="killed by signal 9"):
        tracer.stop()


def test_kill_detaches_at_any_time() -> None:
    tracer = made("counts")
    tracer.kill()
    tracer = made("counts")
    tracer.start(0)
    assert isinstance(tracer, BpfTracer)
    pid = tracer.pid
    tracer.kill()
    tracer.kill()
    assert not Path(f"/proc/{pid}").exists()
    assert not tracer.alive()


LABORATORY = """
import sys, time
from pathlib import Path
from oscope.trace.tracers import make
tracer = make("counts", Path(sys.argv[1]), turns=1)
tracer.start(0)
print(tracer.pid, flush=True)
time.sleep(600)
"""


def test_a_killed_laboratory_leaves_no_bpftrace() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LABORATORY, str(find_probe())], stdout=subprocess.PIPE
    ) as laboratory:
        assert laboratory.stdout is not None
        pid = int(laboratory.stdout.readline())
        assert "bpftrace" in Path(f"/proc/{pid}/comm").read_text()
        laboratory.kill()
    wait_until_gone([pid])


def test_no_bpftrace_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(TraceUnavailable, match="not installed: apt-get install bpftrace"):
        made("counts").start(0)


def test_no_root_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TraceUnavailable, match="needs root"):
        made("counts").start(0)


def test_a_missing_tracepoint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("oscope.trace.program").trace.program.NEEDED, "sched", ("sched:no_such",))
    with pytest.raises(TraceUnavailable, match="no tracepoint sched:no_such"):
        made("sched").start(0)


def test_a_probe_without_marks_is_refused() -> None:
    tracer = BpfTracer("counts", ("counts",), Path("/bin/true"), Room.for_turns(1))
    with pytest.raises(TraceUnavailable, match="attached to 5 of 7 places: /bin/true has no marks"):
        tracer.start(0)
    assert not tracer.alive()


HIDDEN = """
import subprocess, sys
from pathlib import Path
from oscope.trace.tracers import make
from waiting import unmount
while Path("/sys/kernel/tracing/events").is_dir():
    unmount("/sys/kernel/tracing")
if Path("/sys/kernel/debug/tracing/events").is_dir():
    subprocess.run(["umount", "--lazy", "/sys/kernel/debug"], check=True)
tracer = make("sched", Path(sys.argv[1]), turns=1)
tracer.start(0)
tracer.stop()
print(Path("/sys/kernel/tracing/events").is_dir())
"""


UNMOUNTED = """
import subprocess, sys
from pathlib import Path
from oscope.tools.dhcp.lab.scenario_runner import Stage
from oscope.trace import launch
from waiting import wait_until
# The tests run among shared mounts: those of this namespace are no peers of theirs, which must stay.
for propagation in ("--make-rprivate", "--make-rshared"):
    subprocess.run(["mount", propagation, "/"], check=True)
# A mount that somebody has just looked at is in use for a moment.
unmount = ["umount", "--all", "--types", "tracefs,debugfs"]
wait_until(lambda: subprocess.run(unmount, check=False).returncode == 0, "no tracefs")
subprocess.run(["mount", "-t", "tmpfs", "none", sys.argv[2]], check=True)
own = Path("/proc/self/ns/mnt").readlink()
if sys.argv[1] == "tracer":
    process = subprocess.Popen(launch.command("sleep", "60"))
else:
    stage = Stage(["host"])
    process = stage._process
mounts = Path(f"/proc/{process.pid}/mountinfo")
wait_until(lambda: mounts.with_name("ns").joinpath("mnt").readlink() != own, "a namespace")
wait_until(lambda: " master:" in mounts.read_text(), "a slave")
before = sys.argv[2] in mounts.read_text()
subprocess.run(["umount", sys.argv[2]], check=True)
print(before, sys.argv[2] in mounts.read_text())
process.kill()
"""


@pytest.mark.parametrize("who", ["tracer", "stage"])
def test_what_is_unmounted_meanwhile_is_not_kept_in_use(who: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", UNMOUNTED, who, tmp_path],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr


def test_tracefs_is_mounted_for_bpftrace_alone() -> None:
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "slave", sys.executable, "-c", HIDDEN, str(find_probe())],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
