from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import TESTS
from oscope.model.errors import OscopeError, ProbeError
from oscope.probe import locate, programs
from oscope.probe.child import Child
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Done, Event, Note, Refusal, Sample, parse_event
from oscope.targets.affinity import Affinity
from oscope.targets.target import Local
from waiting import wait_until


def ask(client: Probe, do: str, reps: int = 3, number: int = 1, silence_limit_s: float = 120) -> list[Event]:
    request = Request(id=number, workload="fake.work", params={"do": do}, reps=reps)
    return [event for events in client.run(request, silence_limit_s=silence_limit_s) for event in events]


def test_the_greeting_and_several_requests(fake_probe: Path) -> None:
    with Probe([fake_probe, "run"]) as client:
        assert client.hello.pid == client.pid
        assert client.hello.environment["boot_id"] == "boot-1"
        for number in (1, 2):
            events = ask(client, "ok", number=number)
            assert [type(e) for e in events] == [Sample, Sample, Sample, Done]
            assert all(e.request == number for e in events)


def test_an_error_ends_a_request_but_not_the_probe(fake_probe: Path) -> None:
    with Probe([fake_probe, "run"]) as client:
        (refusal,) = ask(client, "unavailable")
        assert isinstance(refusal, Refusal)
        assert (refusal.kind, refusal.remedy) == ("unavailable", "buy another machine")
        assert isinstance(ask(client, "ok", number=2)[-1], Done)


def test_a_note_comes_before_the_samples(fake_probe: Path) -> None:
    with Probe([fake_probe, "run"]) as client:
        assert isinstance(ask(client, "note")[0], Note)


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("die", ["killed by SIGSEGV", "segment violated"]),
        ("exit", ["ended with status 3", "giving up"]),
        ("garbage", ["broke the protocol", "this is not JSON"]),
        ("endless", ["a line without end"]),
        ("foreign", ["answered request 2 while 1"]),
        ("chatter", ["after the end of a request"]),
    ],
)
def test_a_lost_probe_is_explained_in_one_line(fake_probe: Path, do: str, words: list[str]) -> None:
    with Probe([fake_probe, "run"]) as client:
        with pytest.raises(ProbeError) as error:
            ask(client, do)
        for word in words:
            assert word in str(error.value)
        assert "\n" not in str(error.value)
        assert not Path(f"/proc/{client.pid}").exists()


def test_a_silent_probe_is_killed(fake_probe: Path) -> None:
    with Probe([fake_probe, "run"]) as client:
        with pytest.raises(
            ProbeError,
            match=r"silent for \d+\.\d s and was killed; its threads: [A-Z].*; its last words: stuck here",
        ):
            ask(client, "hang", silence_limit_s=0.1)
        assert not Path(f"/proc/{client.pid}").exists()


def test_a_probe_that_computes_may_be_silent_for_longer(fake_probe: Path) -> None:
    with Probe([fake_probe, "run"]) as client:
        events = ask(client, "compute", silence_limit_s=0.7)
        assert isinstance(events[-1], Done)
        assert events[-1].samples == 3
        with pytest.raises(ProbeError, match=r"was silent for 1\.5 s and was killed"):
            ask(client, "compute_long", silence_limit_s=0.3)


def test_a_probe_told_to_end_gives_its_last_events(fake_probe: Path) -> None:
    with Probe([fake_probe, "run"]) as client:
        events: list[Event] = []
        request = Request(id=1, workload="fake.work", params={"pause": 0.05}, reps=1000)
        for batch in client.run(request, silence_limit_s=20):
            events += batch
            client.terminate()
        assert isinstance(events[-1], Done)
        assert events[-1].interrupted
        assert events[-1].samples == len(events) - 1


def test_a_probe_deaf_to_being_told_is_killed(fake_probe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Probe, "goodbye_limit_s", 0.2)
    client = Probe([fake_probe, "run"])
    request = Request(id=1, workload="fake.work", params={"do": "deaf"})
    events = client.run(request, silence_limit_s=60)
    assert isinstance(next(events)[0], Note), "it is deaf now"
    client.terminate()
    with pytest.raises(ProbeError, match="did not end"):
        list(events)
    assert not Path(f"/proc/{client.pid}").exists()


def test_closing_waits_for_the_probe(fake_probe: Path) -> None:
    client = Probe([fake_probe, "run"])
    client.close()
    client.close()
    assert not Path(f"/proc/{client.pid}").exists()
    with pytest.raises(ProbeError):
        ask(client, "ok")


@pytest.mark.parametrize(
    ("greeting", "message"), [("oscope.probe/2", "speaks 'oscope.probe/2'"), ("die", "killed by SIGSEGV")]
)
def test_a_bad_greeting(
    fake_probe: Path, monkeypatch: pytest.MonkeyPatch, greeting: str, message: str
) -> None:
    monkeypatch.setenv("FAKE_PROBE_HELLO", greeting)
    with pytest.raises(ProbeError, match=message):
        Probe([fake_probe, "run"])


def test_a_renewed_process_takes_over_what_the_one_before_found(real_probe: Path) -> None:
    local = Local(real_probe, Affinity())
    with local.start() as client:
        assert client.hello.renews
        environments = [dict(client.hello.environment)]
        places = {(Path("/proc") / str(client.pid) / "maps").read_bytes()}
        for _ in range(3):
            # What another program leaves it does not outlast the block.
            os.sched_setaffinity(client.pid, {min(os.sched_getaffinity(0))})
            local.begin_renewal(client)
            client.finish_renewal()
            assert os.sched_getaffinity(client.pid) == os.sched_getaffinity(0)
            assert client.hello.pid == client.pid
            environments.append(dict(client.hello.environment))
            places.add((Path("/proc") / str(client.pid) / "maps").read_bytes())
    clocks = [environment.pop("clock") for environment in environments]
    assert all(environment == environments[0] for environment in environments)
    assert len({clock["hz"] for clock in clocks}) == 1
    assert len(places) == len(environments), "each has an address space of its own"


def test_what_is_no_program_is_told(tmp_path: Path) -> None:
    program = tmp_path / "probe"
    program.write_text("#!/nonexistent\n")
    program.chmod(0o755)
    with pytest.raises(ProbeError, match="does not start"):
        Probe([program, "run"])


def test_a_mute_program_is_given_up(tmp_path: Path) -> None:
    program = tmp_path / "probe"
    program.write_text("#!/bin/sh\nsleep 100\n")
    program.chmod(0o755)
    begun = time.monotonic()
    with pytest.raises(ProbeError, match="silent"):
        Probe([program, "run"], hello_limit_s=0.1)
    assert time.monotonic() - begun < 90, "its child was killed with it"


@pytest.mark.parametrize("waited", [False, True])
def test_children_of_a_program_that_has_ended_are_killed(waited: bool) -> None:
    command = ["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]
    program = Child(command, stdin=subprocess.DEVNULL)
    lines, _ = program.lines(300)
    left = int(lines[0])
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{left}").exists()
    if waited:
        assert program.wait() == 0
    program.kill()
    wait_until(lambda: _has_ended(left), "the end of its child")


@contextlib.contextmanager
def _no_descriptor_left() -> Iterator[None]:
    free = os.dup(0)
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("asked", [Probe.close, Probe.wait])
def test_a_program_is_killed_also_where_no_descriptor_is_left(
    monkeypatch: pytest.MonkeyPatch, asked: Callable[[Probe], object]
) -> None:
    monkeypatch.setattr(Probe, "goodbye_limit_s", 0.2)
    monkeypatch.setattr(Probe, "_read_hello", lambda *_: None)
    program = Probe(["sh", "-c", "trap '' TERM; sleep 1000 >/dev/null 2>&1 & echo $!; wait"])
    left = int(program.lines(300)[0][0])
    with _no_descriptor_left(), contextlib.suppress(ProbeError):
        asked(program)
    assert not Path(f"/proc/{program.pid}").exists()
    wait_until(lambda: _has_ended(left), "the end of its child")


def _has_ended(pid: int) -> bool:
    """Say whether there is no such process, or one that has ended and that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_probe_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSCOPE_PROBE", str(tmp_path / "nothing"))
    with pytest.raises(OscopeError, match="OSCOPE_PROBE"):
        locate.find_probe()
    monkeypatch.delenv("OSCOPE_PROBE")
    monkeypatch.setattr(programs.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(OscopeError, match="make setup"):
        locate.find_probe()
    for folder in (tmp_path / "path", tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / "oscope-probe").touch(mode=0o755)
        assert locate.find_probe() == folder / "oscope-probe"


def test_a_request_is_one_line() -> None:
    line = Request(id=7, workload="a.b", params={"text": "one\ntwo"}, reps=5).to_line()
    assert line.count(b"\n") == 1
    assert orjson.loads(line)["params"] == {"text": "one\ntwo"}


SAMPLE = {
    "event": "sample",
    "request": 7,
    "rep": 0,
    "started_ns": 1,
    "raw": 2600123,
    "iterations": 10000,
    "correction": 38.0,
    "metrics": {"time_ns": 98.1},
    "covariates": {"run_delay_ns": 0, "steal_ticks": None},
    "failed": None,
}


def test_a_sample_is_read() -> None:
    event = parse_event(orjson.dumps(SAMPLE))
    assert isinstance(event, Sample)
    assert event.metrics == {"time_ns": 98.1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("raw", 1.5),
        ("raw", True),
        ("raw", None),
        ("raw", 2**64 - 1),
        ("rep", "0"),
        ("correction", None),
        ("correction", "38"),
        ("metrics", []),
        ("metrics", {"time_ns": "98"}),
        ("covariates", {"x": True}),
        ("failed", 3),
        ("event", "sampel"),
        ("event", None),
    ],
)
def test_a_malformed_sample_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_event(orjson.dumps(SAMPLE | {field: value}))


@pytest.mark.parametrize("field", [name for name in SAMPLE if name not in ("failed", "event")])
def test_a_sample_that_lacks_something_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        parse_event(orjson.dumps({name: value for name, value in SAMPLE.items() if name != field}))


FIXTURES = sorted((TESTS / "fixtures/wire").glob("*.jsonl"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_lines_that_the_probe_is_tested_to_write_are_read(path: Path) -> None:
    for line in path.read_bytes().splitlines():
        event = parse_event(line)
        kind = {"error": "Refusal"}.get(path.stem, path.stem.capitalize())
        assert type(event).__name__ == kind


@given(st.binary())
def test_no_line_breaks_the_reader(line: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_event(line)


_JSON = st.sampled_from(
    [None, True, 0, -1, 2**63 - 1, 1.5, "", "text", [], [1], {}, {"a": 1}, {"a": None}, {"a": "b"}]
)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys([*SAMPLE, "kind", "message", "samples", "text", "pid"], _JSON)
    ),
    st.sampled_from(["hello", "sample", "note", "done", "error"]),
)
def test_no_event_breaks_the_reader(fields: dict[str, object], kind: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_event(orjson.dumps(fields | {"event": kind})) is not None
