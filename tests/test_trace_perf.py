"""perf attached to real programs: what it counts, what it loses, and what it leaves behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import traced_program
from oscope.model.errors import OscopeError
from oscope.trace import perf
from oscope.trace.perf import PerfTracer
from oscope.trace.tracer import TraceUnavailable
from traced_program import FAILING_CLOSES, STATUS, TASKS, waiting

CALLS = 20_000

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="perf trace needs root: run the tests as root")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_program.build(tmp_path_factory.mktemp("program"))


def perf_of(traced: int) -> int:
    """Return the process id of the perf that watches `traced`."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"record" in words and words[-3:-1] == [b"-p", str(traced).encode()]:
            return int(path.parent.name)
    raise AssertionError("no perf watches it")


@pytest.mark.parametrize("way", TASKS)
def test_every_call_is_counted(way: str, program: Path) -> None:
    tracer = PerfTracer()
    with waiting(program, CALLS, way) as traced:
        tracer.start(traced.pid)
        assert tracer.alive()
        traced.go()
        found = tracer.stop()
        assert traced.end() == STATUS
    assert not found.losses.any
    assert list(found.readings) == [0]
    reading = found.readings[0]
    assert (reading["tracer"], reading["scope"]) == ("perf-trace", "process")
    calls = reading["calls"]
    assert calls["getppid"]["count"] == CALLS * TASKS[way]
    assert calls["getppid"]["time_ns"] > 0
    assert (calls["close"]["count"], calls["close"]["errors"]) == (FAILING_CLOSES, {"EBADF": FAILING_CLOSES})
    # The new task returns from the call that made it, too: it was made once.
    makers = sum(calls[name]["count"] for name in ("clone", "clone3", "fork", "vfork") if name in calls)
    assert makers == TASKS[way] - 1


def test_what_a_full_ring_lost_is_counted(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "RING_PAGES", 1)
    tracer = PerfTracer()
    with waiting(program, CALLS, "alone") as traced:
        tracer.start(traced.pid)
        # While it is stopped, nothing is read.
        os.kill(perf_of(traced.pid), signal.SIGSTOP)
        traced.go()
        os.kill(perf_of(traced.pid), signal.SIGCONT)
        found = tracer.stop()
    counted = found.readings[0]["calls"].get("getppid", {"count": 0})["count"]
    assert counted < CALLS
    # Each call has two events.
    assert found.losses.ring >= CALLS - counted
    assert found.losses.ring <= 2 * (CALLS + FAILING_CLOSES + 2)


def test_a_killed_tracer_lets_the_process_go_on(program: Path) -> None:
    tracer = PerfTracer()
    tracer.kill()
    with waiting(program, CALLS, "alone") as traced:
        tracer.start(traced.pid)
        tracer.kill()
        tracer.kill()
        assert not tracer.alive()
        traced.go()
        assert traced.end() == STATUS


def test_a_tracer_that_died_is_an_error_not_a_reading(program: Path) -> None:
    tracer = PerfTracer()
    with waiting(program, CALLS, "alone") as traced:
        tracer.start(traced.pid)
        os.kill(perf_of(traced.pid), signal.SIGKILL)
        traced.go()
        with pytest.raises(OscopeError, match="perf ended early"):
            tracer.stop()
        assert traced.end() == STATUS


def test_no_process_and_no_perf_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(OscopeError, match="there is no process"):
        PerfTracer().start(2**22 + 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceUnavailable, match="perf is not installed"):
        PerfTracer().start(os.getpid())
