"""A repository whose revisions are measured, and the command line in its checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli_driver import Answer, CommandLine
from oscope.targets import own_folders

BYTES = ("--reps", "6", "--warmup", "0", "--metric", "written_bytes")
"""A metric without noise: what a program writes."""
SHOW = ("--", "cat", "data")
IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


class Repository:
    """A repository in a folder, and what it looks like."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        """Return what git prints; it has to succeed."""
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env=os.environ | IDENTITY,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, subject: str, files: Mapping[str, str]) -> str:
        """Return the id of a new commit with these files changed."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def state(self) -> dict[str, tuple[int, int]]:
        """Return every file of the checkout and of .git, with its size and time of change."""
        return {
            str(path.relative_to(self.folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
            for path in self.folder.rglob("*")
        }


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository whose file grows from 100 kB to 150 kB at commit 5 of 8; tests work on copies."""
    made = Repository(tmp_path_factory.mktemp("history") / "checkout")
    for number in range(9):
        size = 150_000 if number >= 5 else 100_000
        made.commit(f"Change {number}", {"data": "x" * size, "note": str(number)})
        made.git("tag", f"c{number}")
    return made.folder


@pytest.fixture
def repository(history: Path, tmp_path: Path) -> Repository:
    """Give a copy of `history`."""
    copy = Repository(shutil.copytree(history, tmp_path / "checkout", symlinks=True))
    # The index names the originals' inodes: git would write it anew at its first look.
    copy.git("status")
    return copy


@pytest.fixture
def bench_git(
    tmp_path: Path, real_probe: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """Give the command line in the checkout, with a store and a cache of its own outside of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = {
        "OSCOPE_PROBE": str(real_probe),
        "OSCOPE_STORE": str(tmp_path / "store.db"),
        "OSCOPE_STATE": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "COLUMNS": "200",
    }
    return CommandLine(repository.folder, own)


def left() -> list[Path]:
    """Return the folders of Oscope's own that are there; that in which they lie where it has none of them."""
    root = own_folders.root()
    return sorted(root.glob("oscope-*")) or [each for each in (root,) if each.exists()]


def last_line(answer: Answer) -> str:
    """Return the last line on standard error."""
    return answer.err.splitlines()[-1]


class Slowness:
    """A file while which is there a command takes 0.1 s: long enough to be interrupted, and no longer."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "slow"
        self._file.touch()
        self.script = f"test ! -e {self._file} || sleep 0.0981; cat data"
        """For `sh -c`."""

    def end(self) -> None:
        """Have it take no longer than it needs."""
        self._file.unlink()


@pytest.fixture
def slowness(tmp_path: Path) -> Slowness:
    """Give it."""
    return Slowness(tmp_path)
