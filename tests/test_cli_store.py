"""Stores and probes that cannot be used: one line, exit code 1 or 2, and what is there stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import COST, CommandLine, as_nobody
from waiting import unmount


@pytest.fixture
def nobody(probe: Path) -> Iterator[CommandLine]:
    with as_nobody(probe) as oscope:
        yield oscope


def only_line(reported: str) -> str:
    (line,) = reported.splitlines()
    assert line.startswith("oscope: ")
    return line


@pytest.mark.parametrize("words", [COST, ("runs",), ("show", "last")])
def test_a_file_that_is_no_database_is_left_alone(words: tuple[str, ...], oscope: CommandLine) -> None:
    file = oscope.folder / "letter.txt"
    file.write_text("Dear reader, " * 400)
    answer = oscope(*words, "--store", "letter.txt")
    assert answer.code == 1
    assert "letter.txt is not a readable database" in only_line(answer.err)
    assert file.read_text() == "Dear reader, " * 400


def test_a_database_of_something_else_is_left_alone(oscope: CommandLine) -> None:
    import sqlite3

    connection = sqlite3.connect(oscope.folder / "other.db")
    connection.execute("create table recipe (name text)")
    connection.close()
    answer = oscope(*COST, "--store", "other.db")
    assert answer.code == 1
    assert "is a database of something else" in only_line(answer.err)


@pytest.mark.parametrize("words", [COST, ("runs",), ("show", "last"), ("bench", "touch ran")])
@pytest.mark.parametrize(
    ("store", "reported"),
    [("missing/oscope.db", "does not exist"), (".", "is a folder"), ("/dev/null", "is a device")],
)
def test_a_name_that_can_be_no_store_is_a_wrong_request(
    store: str, reported: str, words: tuple[str, ...], oscope: CommandLine
) -> None:
    for answer in (oscope(*words, "--store", store), oscope(*words, OSCOPE_STORE=store)):
        assert (answer.code, answer.out) == (2, "")
        assert reported in only_line(answer.err)
    assert not (oscope.folder / "ran").exists()


def test_a_read_only_store_is_told_before_anything_is_measured(nobody: CommandLine) -> None:
    store = nobody.folder / "oscope.db"
    assert nobody(*COST).code == 0
    store.chmod(0o444)
    nobody.folder.chmod(0o555)
    try:
        for place in (store, nobody.folder / "new.db"):
            answer = nobody(*COST, "--store", str(place))
            assert answer.code == 2
            verb = "written" if place.exists() else "made"
            assert f"{place} cannot be {verb}: check the permissions" in only_line(answer.err)
        assert nobody("show", "last").code == 0
        store.chmod(0)
        answer = nobody("show", "last")
        assert answer.code == 2
        assert f"{store} cannot be read: check the permissions" in only_line(answer.err)
        nobody.folder.chmod(0)
        answer = nobody("show", "last", "--store", str(store))
        assert answer.code == 2
    finally:
        nobody.folder.chmod(0o755)
        store.chmod(0o644)
    assert len(nobody.runs()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_store_keeps_what_was_committed(oscope: CommandLine, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", full],
        check=False,
        timeout=300,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        answer = oscope("run", "syscall.cost", "--reps", "2000", "--store", str(full / "oscope.db"))
        assert answer.code == 1
        last = answer.err.splitlines()[-1]
        run = answer.err.split()[2].rstrip(":")
        assert last == (
            f"oscope: the store {full}/oscope.db is on a full disk; run {run} keeps what was measured: free "
            f"some space there; then continue with oscope run --resume {run} --store {full}/oscope.db"
        )
        assert "Traceback" not in answer.err
        # With room again, the store opens and has what was committed.
        room = tmp_path / "room"
        shutil.copytree(full, room)
        assert oscope("show", "last", "--store", str(room / "oscope.db")).code == 0
    finally:
        unmount(full)


def test_a_probe_that_is_not_there_is_told(oscope: CommandLine) -> None:
    answer = oscope(*COST, OSCOPE_PROBE="/no/such/probe")
    assert answer.code == 1
    assert "OSCOPE_PROBE=/no/such/probe is not a program" in only_line(answer.err)


def test_a_probe_that_dies_at_its_start_leaves_no_run(oscope: CommandLine) -> None:
    answer = oscope(*COST, FAKE_PROBE_HELLO="die")
    assert answer.code == 1
    assert "SIGSEGV" in only_line(answer.err)
    assert oscope.runs() == []


def test_a_probe_of_another_schema_is_refused(oscope: CommandLine) -> None:
    answer = oscope(*COST, FAKE_PROBE_HELLO="oscope.probe/9")
    assert answer.code == 1
    assert "oscope.probe/9" in only_line(answer.err)


READING = {
    "runs": ("runs",),
    "show": ("show", "last"),
    "list": ("list",),
    "compare": ("compare", "last", "last"),
    "compare by": ("compare", "last", "--by", "call=getpid,getppid"),
    "history": ("history", "syscall.cost"),
    "gate": ("gate", "last"),
    "explain-variation": ("explain-variation", "last"),
    "report": ("report", "last", "-o", "report.html"),
    "export": ("export", "last", "--format", "csv"),
    "resume": ("run", "--resume", "last"),
}


@pytest.mark.parametrize("words", READING.values(), ids=list(READING))
def test_a_command_that_reads_makes_neither_store_nor_folder(
    words: tuple[str, ...], oscope: CommandLine
) -> None:
    home = oscope.folder / "gone"
    answer = oscope(*words, HOME=str(home), OSCOPE_STORE="", XDG_DATA_HOME="", XDG_CACHE_HOME="")
    assert "Traceback" not in answer.err
    assert not home.exists()
    oscope(*words, OSCOPE_STORE="new.db")
    assert list(oscope.folder.iterdir()) == []


def test_a_run_without_a_home_folder_is_refused_in_a_line_or_uses_the_store_named(
    oscope: CommandLine,
) -> None:
    home = oscope.folder / "gone"
    without = {"HOME": str(home), "OSCOPE_STORE": "", "XDG_DATA_HOME": "", "XDG_CACHE_HOME": ""}
    answer = oscope(*COST, **without)
    assert (answer.code, answer.out) == (1, "")
    assert f"the home folder {home} does not exist: set HOME, or name a --store" in only_line(answer.err)
    assert oscope(*COST, "--store", "named.db", **without).code == 0
    assert [path.name for path in oscope.folder.iterdir()] == ["named.db"]


def test_the_schemes_of_a_store_are_named(oscope: CommandLine) -> None:
    answer = oscope("runs", "--store", "bogus://")
    assert answer.code == 2
    assert only_line(answer.err) == (
        "oscope: there is no driver for bogus://: "
        "name a file, sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
    )
