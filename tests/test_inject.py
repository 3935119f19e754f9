"""`oscope inject`: what it disturbs, what it tells, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine, as_nobody
from injected import cpu_s, living, processes_below
from oscope.model.errors import UsageError
from oscope.runner.injection import causes
from oscope.runner.injection.spec import Injection
from waiting import wait_until

pytestmark = pytest.mark.alone

PATIENCE_S = 60.0
ALL = {"hog", "sibling", "memory", "evict", "interrupts", "migrate", "delay", "drift"}


@pytest.fixture
def command(probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with the real probe."""
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})


@contextlib.contextmanager
def begun(command: CommandLine, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start an injection, and give it once it disturbs; it is killed at the end."""
    process = command.start("inject", *words)
    try:
        assert process.stderr is not None
        ready, _, _ = select.select([process.stderr], [], [], PATIENCE_S)
        assert ready, "it does not begin"
        first = process.stderr.readline()
        assert first.startswith(f"oscope: {words[0]}: "), first
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def disturber(command: int) -> int:
    """Return the process that disturbs, of those of a command with one cause."""
    (found,) = (one for one in processes_below(command) if not processes_below(one))
    return found


def truth(command: CommandLine, *words: str) -> dict[str, Any]:
    """Inject for a while, and return what was written of it."""
    answer = command("inject", *words, "--json", "-")
    assert answer.code == 0, answer.err
    found: dict[str, Any] = json.loads(answer.out)
    assert found["schema"] == "oscope.injection/1"
    return found


@contextlib.contextmanager
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that runs all the time."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_probe_tells_its_causes_and_the_command_lists_them(command: CommandLine, probe: Path) -> None:
    known = causes.load(probe)
    assert set(known) == ALL
    answer = command("inject")
    assert answer.code == 0
    assert all(name in answer.out for name in ALL)


def test_phases_are_told_and_do_not_overlap(command: CommandLine) -> None:
    before = time.time_ns()
    found = truth(command, "hog", "sibling", "--for", "1500ms", "--on", "60ms", "--off", "60ms")
    for cause in ("hog", "sibling"):
        phases = [phase for phase in found["phases"] if phase["cause"] == cause]
        assert phases
        ends = [before, *(phase[end] for phase in phases for end in ("from_ns", "to_ns")), time.time_ns()]
        assert ends == sorted(ends)
        assert all(phase["done"] > 0 for phase in phases)
    assert found["on_s"] == found["off_s"] == 0.06


def test_a_steady_disturbance_is_one_phase_until_ctrl_c(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "truth.json"
    with begun(command, "hog", "--steady", "--json", str(file)) as process:
        wait_until(lambda: len(processes_below(process.pid)) == 2, "the processes of the injection")
        hog = disturber(process.pid)
        wait_until(lambda: cpu_s(hog) > 0.1, "the hog's work")
        process.send_signal(signal.SIGINT)
        _, reported = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, reported
    found = json.loads(file.read_text())
    assert [phase["cause"] for phase in found["phases"]] == ["hog"]
    assert found["on_s"] is None


@pytest.mark.parametrize("victim", ["command", "injector"])
def test_nothing_is_left_after_a_kill(command: CommandLine, victim: str) -> None:
    with begun(command, "hog", "interrupts", "--steady") as process:
        wait_until(lambda: len(processes_below(process.pid)) == 3, "the processes of the injection")
        all_of_it = processes_below(process.pid)
        (injector,) = (one for one in all_of_it if processes_below(one))
        os.kill(process.pid if victim == "command" else injector, signal.SIGKILL)
        wait_until(lambda: not living(all_of_it), "the end of the injection")
        _, reported = process.communicate(timeout=PATIENCE_S)
    if victim == "injector":
        assert process.returncode == 1
        assert reported.splitlines()[-1] == "oscope: the injector was killed by SIGKILL"


def test_a_thread_that_was_moved_may_run_where_it_might_before(command: CommandLine) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU is allowed: allow two")
    with busy() as target:
        before = os.sched_getaffinity(target.pid)
        found = truth(command, "migrate", "--thread", str(target.pid), "--for", "1s", "--steady")
        assert sum(phase["done"] for phase in found["phases"]) > 0
        assert os.sched_getaffinity(target.pid) == before
        assert command("runs").err == ""
        for _ in range(3):
            kill_soon(command, target.pid)
            # What was left is undone, and told, by the next command.
            assert command("runs").code == 0
            assert os.sched_getaffinity(target.pid) == before
            assert command("runs").err == ""


def kill_soon(command: CommandLine, thread: int) -> None:
    """Move a thread for a while, and kill what moves it in the middle of that."""
    with begun(command, "migrate", "--thread", str(thread), "--steady") as process:
        wait_until(lambda: len(processes_below(process.pid)) == 2, "the mover")
        all_of_it = processes_below(process.pid)
        mover = disturber(process.pid)
        if os.geteuid() == 0:
            # Before all ordinary threads: else what is moved keeps the mover from its CPU.
            wait_until(lambda: os.sched_getscheduler(mover) == os.SCHED_FIFO, "its priority")
        wait_until(lambda: cpu_s(mover) > 0.02, "some moves")
        process.kill()
        wait_until(lambda: not living(all_of_it), "the end of the injection")


def test_evicted_files_are_read_from_the_device_again(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(os.urandom(1 << 20))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not _blocks_of_reading(file):
            pytest.skip("the file system of the tests' folder has no device: set --basetemp to one that has")
        assert _blocks_of_reading(file) == 0
        with begun(command, "evict", "--path", str(file), "--steady"):
            wait_until(lambda: _blocks_of_reading(file) > 0, "a read from the device")


def _blocks_of_reading(file: Path) -> int:
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
    file.read_bytes()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock - before


@pytest.mark.parametrize(
    ("words", "code", "reported"),
    [
        (["hgo"], 2, "there is no cause 'hgo' to inject: did you mean 'hog'?"),
        (["hog", "hog"], 2, "the cause hog is named twice: name it once"),
        (["hog=2"], 2, "the cause hog has no amount: write hog"),
        (["delay"], 2, "delay is injected into what is measured, not into the machine"),
        (["delay=2us"], 2, "delay is injected into what is measured, not into the machine"),
        (["hog", "--on", "soon"], 2, "--on: 'soon' is not a duration"),
        (["hog", "--for", "1us"], 2, "--for 1us is less than 1 ms"),
        (["hog", "--cpu", "4000"], 1, "--cpu: must be one of the allowed CPUs"),
        (["migrate"], 1, "migrate needs to know the thread to move: name it with --thread TID"),
        (["migrate", "--thread", "4194304"], 1, "the thread 4194304 cannot be moved: No such process"),
        (["evict", "--path", "/nowhere"], 1, "--path /nowhere: No such file or directory"),
    ],
)
def test_what_cannot_be_is_one_line(command: CommandLine, words: list[str], code: int, reported: str) -> None:
    answer = command("inject", *words)
    assert (answer.code, answer.out) == (code, "")
    (line,) = answer.errors
    assert line.startswith(f"oscope: {reported}")


def test_without_root_all_files_cannot_be_evicted_and_others_threads_not_moved(probe: Path) -> None:
    with as_nobody(probe) as oscope:
        answer = oscope("inject", "evict")
        assert answer.code == 1
        (line,) = answer.errors
        assert "drop_caches" in line
        assert "--path FILE" in line
        if os.geteuid() == 0 and len(os.sched_getaffinity(0)) > 1:
            answer = oscope("inject", "migrate", "--thread", str(os.getpid()))
            assert answer.code == 1
            assert "cannot be moved: Operation not permitted" in answer.errors[0]


def test_an_injection_is_repeated_from_its_object(probe: Path) -> None:
    known = causes.load(probe)
    expected = Injection.parse(["hog,delay=1.5us", "drift=3ns"], known, seed=7)
    assert (expected.causes, expected.delay_ns, expected.drift_ns_per_s) == (
        ("hog",),
        1500.0,
        pytest.approx(3.0),
    )
    assert Injection.from_object(json.loads(json.dumps(expected.to_object()))) == expected
    first, second = (expected.request(number, 5) for number in (1, 2))
    assert first is not None
    assert second is not None
    assert first["seed"] != second["seed"]
    assert Injection.parse(["hog"], known, seed=7).request(1, 5) is None
    with pytest.raises(UsageError, match="at most 1 s"):
        Injection.parse(["delay=2s"], known, seed=7)
