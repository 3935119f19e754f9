"""Kills of oscope-fs and cuts of its connection at random moments: nothing acknowledged is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path

import pytest

import fs_load
import fs_mount
from campaigns import rounds
from fs_history import History
from fs_kills import KINDS, plan, run
from fs_nodes import stuff
from ssh_server import SshServer, running

ROUNDS = rounds(20, full=200)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """Run an sshd of our own."""
    if lack := fs_mount.missing():
        pytest.skip(lack)
    with running(tmp_path_factory.mktemp("keys")) as started:
        yield started


@pytest.mark.parametrize(("seed", "kind"), plan(ROUNDS))
def test_after_a_kill_or_a_cut_nothing_is_lost(
    seed: int, kind: str, server: SshServer, tmp_path: Path
) -> None:
    outcome = run(server, tmp_path / "round", seed, kind)
    assert not outcome.problems, str(outcome)
    assert outcome.struck_at > 0


def test_every_kind_is_among_the_rounds() -> None:
    assert {kind for _, kind in plan(ROUNDS)} == set(KINDS)


@pytest.mark.parametrize("seed", range(3))
def test_the_notes_tell_what_a_local_folder_holds(seed: int, tmp_path: Path) -> None:
    folder, notes = tmp_path / "folder", tmp_path / "notes"
    folder.mkdir()
    words = [sys.executable, fs_load.__file__, folder, notes, seed, 300]
    subprocess.run([str(word) for word in words], check=True, timeout=300)
    history = History.read(notes.read_text().splitlines())
    assert history.steps >= 300
    assert not history.errors
    for name in history.names.keys() | {path.name for path in folder.iterdir()}:
        path = folder / name
        content = path.read_bytes() if path.exists() else None
        assert history.keeps_written(name, content), name
        assert history.whole(name, content), name
        if content:
            for wrong in (None, content[:-1], content + b"?"):
                assert not history.keeps_acknowledged(name, wrong), name


def notes(*steps: tuple[object, ...]) -> list[str]:
    """Return the notes of these steps: the last value of each is its end; 'cut' has none."""
    lines = []
    for *step, end in steps:
        lines.append(json.dumps(["begin", step]))
        if end != "cut":
            lines.append(json.dumps(["end", end]))
    return lines


def test_what_was_acknowledged_what_was_written_and_what_was_under_way_are_told_apart() -> None:
    made = ("open", 0, "f", 0o1, 0o644, None)
    one, two, three = (("write", 0, seed, 10, None) for seed in (1, 2, 3))
    history = History.read(notes(made, one, ("fsync", 0, None), two, (*three[:-1], "cut")))
    (thing,) = history.names["f"]
    assert thing is not None
    states = [state[:30] for state in thing.states]
    assert [len(state) for state in states] == [0, 10, 20, 30]
    assert [history.keeps_acknowledged("f", state) for state in states] == [False, True, True, True]
    assert [history.keeps_written("f", state) for state in states] == [False, False, True, True]
    assert [history.whole("f", state) for state in states] == [False, True, False, False]


def test_a_write_that_a_kill_cut_off_may_have_been_done_up_to_the_end_of_a_page() -> None:
    made = ("open", 0, "f", 0o1, 0o644, None)
    whole = ("write", 0, 1, 3 * PAGESIZE, "cut")
    short = [*notes(made, whole), json.dumps(["end", None, 10])]
    sizes = [PAGESIZE, 2 * PAGESIZE, 3 * PAGESIZE]
    for lines, expected in ((notes(made, whole), [0, *sizes]), (short, [10, *sizes])):
        history = History.read(lines)
        content = stuff(1, 3 * PAGESIZE)
        kept = [size for size in range(3 * PAGESIZE + 1) if history.keeps_written("f", content[:size])]
        assert kept == expected
    assert not history.whole("f", content)


def test_a_rename_under_way_may_have_been_done_or_not() -> None:
    made = ("open", 0, "f", 0o1, 0o644, None)
    written = (("write", 0, 1, 10, None), ("close", 0, None))
    done = History.read(notes(made, *written, ("rename", "f", "g", None)))
    under_way = History.read(notes(made, *written, ("rename", "f", "g", "cut")))
    (thing,) = done.names["g"]
    assert thing is not None
    content = thing.states[-1]
    assert [done.keeps_written(name, content) for name in "fg"] == [False, True]
    assert [under_way.keeps_written(name, content) for name in "fg"] == [True, True]
    assert under_way.keeps_written("g", None)
