"""strace attached to real programs: what it counts, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import traced_program
from oscope.model.errors import OscopeError
from oscope.trace import strace, tool
from oscope.trace.strace import StraceTracer
from oscope.trace.tool import Tool
from oscope.trace.tracer import TraceUnavailable
from traced_program import FAILING_CLOSES, STATUS, TASKS, tracer_pid, waiting
from waiting import wait_until

CALLS = 500


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_program.build(tmp_path_factory.mktemp("program"))


@pytest.mark.parametrize("level", strace.LEVELS)
@pytest.mark.parametrize("way", TASKS)
def test_every_call_is_counted(level: str, way: str, program: Path) -> None:
    tracer = StraceTracer(level)
    with waiting(program, CALLS, way) as traced:
        tracer.start(traced.pid)
        assert tracer.alive()
        assert tracer_pid(traced.pid) != 0
        traced.go()
        found = tracer.stop()
        assert tracer_pid(traced.pid) == 0
        assert traced.end() == STATUS
    assert list(found.readings) == [0]
    reading = found.readings[0]
    assert (reading["tracer"], reading["scope"]) == (level, "process")
    assert reading["calls"]["getppid"]["count"] == CALLS * TASKS[way]
    assert reading["calls"]["close"]["count"] == FAILING_CLOSES
    name = strace.UNNAMED_ERROR if level == "strace-count" else "EBADF"
    assert reading["calls"]["close"]["errors"] == {name: FAILING_CLOSES}
    assert ("time_ns" in reading["calls"]["getppid"]) == (level == "strace-count")
    assert not found.losses.any


@pytest.mark.parametrize("level", strace.LEVELS)
def test_a_killed_tracer_lets_the_process_go_on(level: str, program: Path) -> None:
    tracer = StraceTracer(level)
    tracer.kill()
    with waiting(program, CALLS, "alone") as traced:
        tracer.start(traced.pid)
        tracer.kill()
        tracer.kill()
        assert not tracer.alive()
        assert tracer_pid(traced.pid) == 0
        traced.go()
        assert traced.end() == STATUS


def test_a_tracer_that_died_is_an_error_not_a_reading(program: Path) -> None:
    tracer = StraceTracer("strace-count")
    with waiting(program, CALLS, "alone") as traced:
        tracer.start(traced.pid)
        os.kill(tracer_pid(traced.pid), signal.SIGKILL)
        traced.go()
        with pytest.raises(OscopeError, match="strace ended early"):
            tracer.stop()
        assert traced.end() == STATUS


def test_a_record_beyond_its_bound_is_an_error(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "LARGEST_RECORD_BYTES", 4096)
    tracer = StraceTracer("strace")
    with waiting(program, CALLS, "alone") as traced:
        tracer.start(traced.pid)
        traced.go()
        with pytest.raises(OscopeError, match="stopped at 4096 bytes"):
            tracer.stop()
        assert traced.end() == STATUS


def test_nothing_outlives_a_killed_laboratory(program: Path) -> None:
    script = (
        "import sys, time; from oscope.trace.strace import StraceTracer\n"
        "StraceTracer('strace').start(int(sys.argv[1])); print('attached', flush=True); time.sleep(60)"
    )
    with waiting(program, CALLS, "alone") as traced:
        words = [sys.executable, "-c", script, str(traced.pid)]
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | path) as laboratory:
            assert laboratory.stdout is not None
            assert laboratory.stdout.readline() == "attached\n"
            assert tracer_pid(traced.pid) != 0
            laboratory.kill()
        wait_until(lambda: tracer_pid(traced.pid) == 0, "the tracer's end")
        traced.go()
        assert traced.end() == STATUS


def test_what_is_traced_already_is_unavailable(program: Path) -> None:
    first, second = StraceTracer("strace-count"), StraceTracer("strace-count")
    with waiting(program, CALLS, "alone") as traced:
        first.start(traced.pid)
        with pytest.raises(TraceUnavailable, match="is traced by process"):
            second.start(traced.pid)
        traced.go()
        assert first.stop().readings[0]["calls"]["getppid"]["count"] == CALLS


def test_a_refusal_has_one_text_for_all_processes() -> None:
    words = "ptrace(PTRACE_SEIZE): Operation not permitted"
    refused = SimpleNamespace(words=words, pid=1)
    with subprocess.Popen(["sleep", "600"]) as other:
        reported = [strace.refusal(pid, cast(Tool, refused)) for pid in (os.getpid(), other.pid)]
        other.kill()
    assert str(reported[0]) == str(reported[1])
    assert str(reported[0]).startswith("strace may not trace the process")
    refusals = [str(strace.refusal(pid, cast(Tool, refused))) for pid in (2**22 + 1, 2**22 + 2)]
    assert refusals == ["the process ended before strace was attached"] * 2


def test_no_process_and_no_strace_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(OscopeError, match="there is no process"):
        StraceTracer("strace").start(2**22 + 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceUnavailable, match="strace is not installed") as caught:
        StraceTracer("strace").start(os.getpid())
    assert caught.value.remedy is not None
    assert caught.value.remedy.endswith("apt-get install strace")


def test_text_in_arguments_is_no_call_and_no_error() -> None:
    lines = [
        b'12 write(1, ") = -1 EBADF (Bad file descriptor)", 34) = 34\n',
        b'12 read(0,  <unfinished ...>\n13 openat(AT_FDCWD, "x(", O_RDONLY) = -1 ENOENT (No such file)\n',
        b"12 <... read resumed>0x7ff, 1) = -1 EAGAIN (Resource temporarily unavailable)\n",
        b"12 --- SIGCHLD {si_signo=SIGCHLD} ---\n12 +++ exited with 0 +++\n",
    ]
    assert strace.parse_calls(b"".join(lines).splitlines(keepends=True)) == {
        "write": {"count": 1, "errors": {}},
        "read": {"count": 1, "errors": {"EAGAIN": 1}},
        "openat": {"count": 1, "errors": {"ENOENT": 1}},
    }
    with pytest.raises(OscopeError, match="cut short"):
        strace.parse_calls([b"12 getppid() = "])
