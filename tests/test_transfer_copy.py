"""`transfer.copy` with the real probe: real sockets, real namespaces, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from machine_state import family
from oscope.probe.probe_session import ProbeSession, RefusedError
from waiting import wait_until, wait_until_gone

LIMIT_S = 60.0
DOCUMENT = {"files": 5, "sizes": "document"}
RATE = 10_000_000
BURST = max(RATE // 250, 16 << 10)
"""What a token bucket lets go at once (crates/sys/src/net/shape.rs)."""
NETEM = {"where": "namespaces", "size": 100_000}
IS_ROOT = os.geteuid() == 0
root_only = pytest.mark.skipif(not IS_ROOT, reason="only root makes network namespaces")


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, probe: Path) -> Path:
    """Keep the journals of these tests apart, with a probe that is the built one."""
    del probe
    folder = tmp_path / "state"
    monkeypatch.setenv("OSCOPE_STATE", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give an empty place for source and destination."""
    place = tmp_path / "place"
    place.mkdir()
    return place


def measured(params: dict[str, Any], notes: list[str] | None = None) -> dict[str, float | None]:
    with ProbeSession((notes if notes is not None else []).append) as session:
        return dict(session.measure("transfer.copy", params, limit_s=LIMIT_S).metrics)


def networks(*pids: int) -> set[str]:
    """Return the network namespaces that threads of these processes are in or hold open."""
    found = set()
    for pid in pids:
        process = Path("/proc", str(pid))
        for link in (*process.glob("task/*/ns/net"), *process.glob("fd/*")):
            # Any of them may end meanwhile.
            with contextlib.suppress(OSError):
                found.add(str(link.readlink()))
    return {name for name in found if name.startswith("net:")}


def marked(mark: str) -> list[int]:
    """Return all processes that have this in their environment: a probe and what it started, anywhere.

    The number of a network namespace is given to another one as soon as it is free, so that not all processes
    of the machine may be asked.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_both_sides_give_their_figures_and_nothing_is_left(folder: Path, state: Path) -> None:
    found = measured({"folder": str(folder), "files": 3, "size": 1_502_860})
    assert None not in found.values()
    assert found["bytes"] == 3 * 1_502_860
    assert list(folder.iterdir()) == []
    assert list((state / "made").iterdir()) == []


@pytest.mark.parametrize(("files", "bytes_"), [(1, 4), (5, 2275), (10, 3015)])
def test_the_documents_files_have_its_lengths(files: int, bytes_: int, folder: Path) -> None:
    params = {"folder": str(folder), "files": files, "sizes": "document"}
    assert measured(params)["bytes"] == bytes_


def test_an_empty_file_has_no_cost_a_gib(folder: Path) -> None:
    found = measured({"folder": str(folder), "size": 0})
    assert found["bytes"] == 0
    assert found["cpu_s_per_gib"] is None
    assert found["receiver_cpu_s_per_gib"] is None


def test_a_receiver_that_is_late_costs_the_sender_its_sleep(folder: Path) -> None:
    """The step of the document: who comes late, here by 0.7 s, is served after the other's sleep of 1 s."""
    found = measured(DOCUMENT | {"folder": str(folder), "meeting": "retry", "late": 0.7})
    waited, seen, whole = (found[name] or 0 for name in ("wait_ns", "receiver_time_ns", "time_ns"))
    # What it cannot be less than: a sleep at the sender, of which the receiver misses the time it was late.
    assert waited >= 1e9
    assert seen < whole


@pytest.mark.parametrize("late", [0.5, 0.9])
def test_a_receiver_that_is_refused_has_a_whole_sleep_in_its_time(late: float, folder: Path) -> None:
    """The step of the document in its own roles: how late the sender is does not matter."""
    found = measured(DOCUMENT | {"folder": str(folder), "meeting": "receiver-retry", "late": late})
    waited, seen, whole = (found[name] or 0 for name in ("wait_ns", "receiver_time_ns", "time_ns"))
    assert min(waited, seen) >= 1e9
    assert waited <= whole


@root_only
def test_a_rate_is_set_between_namespaces_that_vanish(folder: Path) -> None:
    notes: list[str] = []
    params: dict[str, Any] = {"folder": str(folder), "where": "namespaces", "rate": RATE, "size": 1 << 20}
    with ProbeSession(notes.append) as session:
        found = session.measure("transfer.copy", params, limit_s=LIMIT_S).metrics
        again = session.measure("transfer.copy", params | {"rate": 0}, limit_s=LIMIT_S).metrics
        assert family(session.pid) == []
        # The probe itself is back where it was, and holds no other: nobody is left in those it made.
        assert networks(session.pid) == networks(os.getpid())
    assert any(f"{RATE} B/s" in note for note in notes)
    assert found["bytes"] == again["bytes"] == 1 << 20
    # No load makes it faster than the link; a bucket lets so much go at once.
    assert (found["time_ns"] or 0) >= ((1 << 20) - BURST) / RATE * 1e9


@root_only
@pytest.mark.parametrize("shape", [{"delay": 0.02}, {"loss": 20}])
def test_delay_and_loss_work_or_are_told_to_need_netem(shape: dict[str, float], folder: Path) -> None:
    notes: list[str] = []
    try:
        found = measured(NETEM | shape | {"folder": str(folder)}, notes)
    except RefusedError as error:
        refusal = error.refusal
    else:
        assert any("netem" in note for note in notes)
        assert found["bytes"] == NETEM["size"]
        # There and back again, which no load makes shorter.
        assert (found["time_ns"] or 0) >= 2 * shape.get("delay", 0) * 1e9
        return
    # Where the kernel has none, that is said, and where there is one.
    assert refusal.kind == "unavailable"
    assert "netem" in refusal.message
    assert "guest" in (refusal.remedy or "")


@root_only
def test_pages_lent_to_a_slow_network_are_given_back_after_the_receipt(folder: Path) -> None:
    """The receiver hangs up before the sender's kernel has told that it needs no page any more."""
    params = NETEM | {
        "size": 500_000,
        "files": 2,
        "rate": 2_000_000,
        "sender": "zerocopy",
        "folder": str(folder),
    }
    with ProbeSession([].append) as session:
        for _ in range(3):
            found = session.measure("transfer.copy", params, limit_s=LIMIT_S).metrics
            assert found["bytes"] == 1_000_000


@pytest.mark.parametrize("name", ["rate", "delay", "loss"])
def test_the_machines_own_loopback_is_not_slowed_down(name: str) -> None:
    with pytest.raises(RefusedError, match="where=namespaces"):
        measured({name: 1})


def ask(process: subprocess.Popen[str], params: dict[str, Any], reps: int) -> None:
    assert process.stdin is not None
    request = {"id": 1, "workload": "transfer.copy", "params": params, "reps": reps, "warmup": 0}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def first_sample(process: subprocess.Popen[str]) -> dict[str, Any]:
    answer = next(event for event in events(process) if event["event"] in ("sample", "error"))
    assert answer["event"] == "sample", answer
    return answer


@pytest.mark.parametrize("where", ["loopback", pytest.param("namespaces", marks=root_only)])
def test_what_a_kill_leaves_is_removed_by_restore(where: str, folder: Path, state: Path, probe: Path) -> None:
    mark = f"OSCOPE_TEST_MARK={folder}"
    process = subprocess.Popen(
        ["env", mark, probe, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        params = {"folder": str(folder), "where": where, "size": 200_000}
        ask(process, params, 1_000_000)
        first_sample(process)
        (receiver,) = family(process.pid)
        made = networks(process.pid, receiver) - networks(os.getpid())
        assert bool(made) == (where == "namespaces")
        assert {process.pid, receiver} <= set(marked(mark))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=LIMIT_S)
    wait_until_gone([receiver])
    wait_until(lambda: not made & networks(*marked(mark)), "the end of the network namespaces")
    (left,) = folder.iterdir()
    reported = subprocess.run([probe, "restore"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert json.loads(reported.stdout)["restored"] == f"folder {left}"
    assert list(folder.iterdir()) == []
    assert list((state / "made").iterdir()) == []


@pytest.mark.parametrize("writes", ["whole", "small"])
def test_a_long_repetition_is_given_up_on_a_signal(writes: str, folder: Path, probe: Path) -> None:
    process = subprocess.Popen([probe, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    params = {"folder": str(folder), "meeting": "retry", "late": 60.0, "writes": writes}
    try:
        ask(process, params, 1)
        wait_until(lambda: family(process.pid), "the receiver")
        process.send_signal(signal.SIGTERM)
        # Should the signal come before the request was begun, nothing is answered.
        ends = [event for event in events(process) if event["event"] in ("done", "error")]
        assert process.wait(timeout=LIMIT_S) == 0
    finally:
        process.kill()
        process.communicate(timeout=LIMIT_S)
    assert all(event.get("interrupted", True) for event in ends)
    assert list(folder.iterdir()) == []


CALL = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\(")
NOT_COUNTED = {"setsockopt", "getpeername", "ioctl", "poll", "mmap", "madvise", "fcntl", "umask"}
"""Neither move anything nor have to do with a file: options, memory, and what a debug build checks."""
WORDS = ("sendto", "recvfrom")
ADMISSION = 5
"""Calls by which the receiver asks the kernel whose the sender is: part of the meeting, and not counted."""


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
@pytest.mark.parametrize("writes", ["whole", "small"])
@pytest.mark.parametrize(
    "params", [{"size": 10_000, "files": 4}, {"size": 400_000, "files": 2, "digest": "none"}]
)
def test_the_calls_counted_are_those_that_strace_sees(
    writes: str, params: dict[str, Any], folder: Path, probe: Path, tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    command = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(log),
        "-e",
        "trace=%desc,%file,%network,fchmod",
        str(probe),
        "run",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        asked = params | {"folder": str(folder), "writes": writes, "sender": "readwrite"}
        ask(process, asked, 1)
        sample = first_sample(process)
    finally:
        process.communicate(timeout=LIMIT_S)
    assert sample["failed"] is None
    calls = [
        (found["pid"], found["name"]) for line in log.read_text().splitlines() if (found := CALL.match(line))
    ]
    assert seen(calls, "connect") == sample["metrics"]["calls"]
    # The engine's count is in the receiver's last word; before its first, it opens the destination.
    whole = writes == "whole"
    assert seen(calls, "accept4", after=ADMISSION + whole) - whole == sample["metrics"]["receiver_calls"]


def seen(calls: list[tuple[str, str]], meeting: str, after: int = 0) -> int:
    """Count what a process did between the connection and its last word, but for the first `after` calls.

    `meeting` is the call by which it connected. Before the last such call was the exchange that makes both
    sides ready.
    """
    (own,) = {pid for pid, name in calls if name == meeting}
    names = [name for pid, name in calls if pid == own]
    names = names[len(names) - names[::-1].index(meeting) :]
    last = max(place for place, name in enumerate(names) if name in WORDS)
    return sum(name not in NOT_COUNTED for name in names[: last + 1]) - after
