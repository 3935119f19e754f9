"""Random operations on a mounted folder: each answer as the model's, the server's folder byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fs_mount
from fs_course import QUIET, replay, run
from fs_operations import Hand
from fs_places import AT_ONCE, Plain, by_oscope_fs
from ssh_server import SshServer, running

SEEDS = 4
OPERATIONS = 500
WAYS: dict[str, tuple[str, ...]] = {
    "as usual": (),
    "seen at once": AT_ONCE,
    "through the daemon": (*AT_ONCE, "--no-passthrough"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """Run an sshd of our own."""
    if lack := fs_mount.missing():
        pytest.skip(lack)
    with running(tmp_path_factory.mktemp("keys")) as started:
        yield started


@pytest.mark.parametrize("seed", range(5))
def test_the_model_answers_as_a_local_file_system_does(seed: int, tmp_path: Path) -> None:
    verdict = run(Plain(tmp_path), seed, 1000)
    assert verdict.difference is None, str(verdict)
    assert verdict.operations >= 1000


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_mounted_folder_answers_as_the_model_does(
    seed: int, way: str, server: SshServer, tmp_path: Path
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with by_oscope_fs(server, tmp_path / "home", folder, *WAYS[way]) as place:
        verdict = run(place, seed, OPERATIONS)
        assert verdict.difference is None, str(verdict)
        assert list(folder.iterdir()) == []
        place.mount.stop()


@pytest.mark.parametrize("way", ["as usual", "through the daemon"])
def test_courses_at_the_same_time_do_not_disturb_each_other(
    way: str, server: SshServer, tmp_path: Path
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    # Neither mounting again nor changes elsewhere: the other courses have files open.
    options = [option for option in WAYS[way] if option not in AT_ONCE]
    with by_oscope_fs(server, tmp_path / "home", folder, *options) as place, ThreadPoolExecutor(4) as threads:
        verdicts = list(threads.map(lambda seed: run(place, seed, OPERATIONS, again=False), range(100, 104)))
        assert not [str(verdict) for verdict in verdicts if verdict.difference]
        place.mount.stop()
    assert list(folder.iterdir()) == []


def faulty(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one operation of every hand go wrong."""
    right = getattr(Hand, f"do_{name}")

    def wrong(self: Hand, *words: Any) -> Any:
        if name == "pwrite":
            slot, seed, size, offset = words
            return right(self, slot, seed, size, offset + 1 if offset == 4096 else offset)
        if name == "unlink":
            return None
        return right(self, *words) + b"?"

    monkeypatch.setattr(Hand, f"do_{name}", wrong)


@pytest.mark.parametrize("name", ["pwrite", "unlink", "readlink"])
def test_a_fault_is_noticed_and_its_sequence_is_short(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty(name, monkeypatch)
    verdict = run(Plain(tmp_path), 1, 5000)
    assert verdict.difference is not None
    assert name in {operation[0] for operation in verdict.sequence}
    assert len(verdict.sequence) <= 5
    assert replay(Plain(tmp_path), "again", verdict.sequence) is not None
    assert "seed 1" in str(verdict)


def test_the_server_is_compared_and_not_the_mount_alone(tmp_path: Path) -> None:
    for name in ("mount", "server"):
        (tmp_path / name).mkdir()

    class Apart(Plain):
        @property
        def server(self) -> Path:
            return tmp_path / "server"

    difference = replay(Apart(tmp_path / "mount"), "one", [("mkdir", b"a", 0o755), QUIET])
    assert difference is not None
    assert "the server" in str(difference)
