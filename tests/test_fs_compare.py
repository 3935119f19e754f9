"""`fs.compare` with the real probe: real servers, networks and mounts, and what goes over the line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from machine_state import family
from oscope.probe.probe_session import ProbeSession, RefusedError
from waiting import wait_until_gone

LIMIT_S = 120.0
SIZE = 2 << 20
FILES = 20
SMALL = 4096
HEADER = 66
"""Least bytes of a packet of TCP: Ethernet, IPv4, TCP with time stamps."""
WHOLE = ("read-first", "read-again")
CHANGES = ("change-block", "append")
HERE = [
    pytest.param("local"),
    pytest.param("oscope", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root makes networks")),
    pytest.param("sshfs", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root makes networks")),
]
REMOTE = HERE[1:]


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, probe: Path) -> Path:
    """Keep the journals of these tests apart, with a probe that is the built one."""
    del probe
    folder = tmp_path / "state"
    monkeypatch.setenv("OSCOPE_STATE", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give an empty place for the scratch folder."""
    place = tmp_path / "place"
    place.mkdir()
    return place


def measured(system: str, operation: str, folder: Path, **more: object) -> dict[str, float | None]:
    params = {
        "system": system,
        "operation": operation,
        "size": SIZE,
        "files": FILES,
        "directory": str(folder),
    }
    with ProbeSession([].append) as session:
        found = session.measure("fs.compare", params | more, limit_s=LIMIT_S)
        assert family(session.pid) == []
    return dict(found.metrics)


def mounts(folder: Path) -> list[str]:
    """Return what is mounted below a folder, as everybody sees it."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]


def available(system: str, operation: str, folder: Path) -> dict[str, float | None]:
    """Measure; skip where a program or the kernel does not have it, which is told with a remedy."""
    try:
        return measured(system, operation, folder)
    except RefusedError as error:
        refusal = error.refusal
    assert refusal.kind == "unavailable"
    assert refusal.remedy
    pytest.skip(f"{refusal.message} ({refusal.remedy})")


@pytest.mark.parametrize("system", HERE)
@pytest.mark.parametrize("operation", ["create", "read-small", "list", "git-status", "unpack"])
def test_small_files_are_worked_on_and_nothing_is_left(
    operation: str, system: str, folder: Path, state: Path
) -> None:
    found = available(system, operation, folder)
    assert found["files"] == FILES
    assert found["bytes"] == {"list": 0, "git-status": None}.get(operation, FILES * SMALL)
    assert list(folder.iterdir()) == []
    assert list((state / "made").iterdir()) == []
    assert mounts(folder) == []
    moved = [found[name] for name in ("received_bytes", "sent_bytes", "received_packets", "sent_packets")]
    if system == "local":
        assert moved == [None] * 4
        return
    received, sent, packets, answers = (value or 0 for value in moved)
    assert received >= packets * HEADER
    assert sent >= answers * HEADER
    # Contents go over the line once at least, whichever way.
    if operation == "read-small":
        assert received > FILES * SMALL
    if operation in ("create", "unpack"):
        assert sent > FILES * SMALL


@pytest.mark.parametrize("system", REMOTE)
def test_a_first_reading_moves_the_file_and_parts_are_within_the_whole(system: str, folder: Path) -> None:
    found = available(system, "read-first", folder)
    assert found["bytes"] == SIZE
    # The file, and of headers, answers and what encryption adds less than a tenth of it.
    assert SIZE < (found["received_bytes"] or 0) < 1.1 * SIZE
    assert (found["sent_bytes"] or 0) < 0.1 * SIZE
    parts = (found["open_ns"] or 0) + (found["close_ns"] or 0)
    assert 0 < parts < (found["time_ns"] or 0)


def test_what_oscope_fs_has_read_it_does_not_fetch_again(folder: Path) -> None:
    for operation in ("read-again", "read-random"):
        found = available("oscope", operation, folder)
        assert (found["received_bytes"] or 0) < 0.1 * SIZE, operation
    assert found["bytes"] == 1000 * SMALL


def test_sshfs_fetches_again_what_it_has_read(folder: Path) -> None:
    assert SIZE < (available("sshfs", "read-again", folder)["received_bytes"] or 0) < 1.1 * SIZE
    found = available("sshfs", "read-random", folder)
    # The pages that 1000 reads touch, each once; few of them are read ahead.
    assert (found["received_bytes"] or 0) > 0.5 * SIZE
    assert found["bytes"] == 1000 * SMALL


@pytest.mark.parametrize("system", REMOTE)
def test_of_a_large_file_what_changed_is_sent(system: str, folder: Path) -> None:
    for operation in CHANGES:
        found = available(system, operation, folder)
        assert SMALL < (found["sent_bytes"] or 0) < 0.1 * SIZE, operation
        assert (found["received_bytes"] or 0) < 0.1 * SIZE, operation
        assert found["bytes"] == SMALL


def test_a_first_local_reading_finds_nothing_in_the_page_cache_or_is_refused(folder: Path) -> None:
    """A file system in memory has no such reading, and gives no figure for one."""
    assert measured("local", "read-first", folder)["bytes"] == SIZE
    with pytest.raises(RefusedError, match="stay in the page cache"):
        measured("local", "read-first", Path("/dev/shm"))  # noqa: S108 - it is a tmpfs.


@pytest.mark.parametrize("system", REMOTE)
def test_a_delay_is_waited_for_or_told_to_need_netem(system: str, folder: Path) -> None:
    delay = 0.01
    try:
        found = measured(system, "list", folder, delay=delay)
    except RefusedError as error:
        refusal = error.refusal
    else:
        # There and back again, which no load makes shorter.
        assert (found["time_ns"] or 0) >= 2 * delay * 1e9
        return
    assert refusal.kind == "unavailable"
    assert "guest" in (refusal.remedy or "") or "install" in (refusal.remedy or "")


def test_what_cannot_be_is_refused_with_a_remedy(folder: Path) -> None:
    with pytest.raises(RefusedError, match="system=local"):
        measured("local", "list", folder, delay=0.01)
    with pytest.raises(RefusedError) as caught:
        measured("nfs", "list", folder)
    assert caught.value.refusal.kind == "unavailable"
    assert caught.value.refusal.remedy
    with pytest.raises(RefusedError, match="directory"):
        measured("local", "list", folder / "nowhere")


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


@pytest.mark.parametrize("system", HERE)
def test_a_kill_leaves_no_process_and_no_mount_and_restore_removes_the_rest(
    system: str, folder: Path, state: Path, probe: Path
) -> None:
    process = subprocess.Popen([probe, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None
        params = {"system": system, "operation": "create", "files": FILES, "directory": str(folder)}
        request = {"id": 1, "workload": "fs.compare", "params": params, "reps": 1_000_000}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = next(event for event in events(process) if event["event"] in ("sample", "error"))
        if answer["event"] == "error":
            assert answer["kind"] == "unavailable"
            pytest.skip(answer["message"])
        helpers = family(process.pid)
        assert bool(helpers) == (system != "local")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=LIMIT_S)
    wait_until_gone(helpers)
    assert mounts(folder) == []
    (left,) = folder.iterdir()
    restored = subprocess.run([probe, "restore"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert str(left) in restored.stdout
    assert list(folder.iterdir()) == []
    assert list((state / "made").iterdir()) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_a_program_that_is_missing_is_told_with_its_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = folder / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    with pytest.raises(RefusedError) as caught:
        measured("local", "git-status", folder)
    assert caught.value.refusal.message == "git is not installed"
    assert caught.value.refusal.remedy == "apt-get install git"
