"""A desk for tests of `oscope-fs`: a folder of a real server, a mount point, the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_driver import Answer
from fs_mount import find_oscope_fs, is_mounted
from ssh_server import ALIAS, SshServer, running

LIMIT_S = 60


@pytest.fixture(scope="module")
def filesystem() -> Path:
    try:
        return find_oscope_fs()
    except RuntimeError as error:
        pytest.fail(str(error))


@pytest.fixture(scope="module")
def desk_server() -> Iterator[SshServer]:
    # Only its owner may enter pytest's folders; sshd reads the key as the user who logs in.
    with tempfile.TemporaryDirectory(prefix="oscope-fs-command-") as name:
        Path(name).chmod(0o755)
        with running(Path(name)) as server:
            yield server


@dataclass
class Desk:
    """A folder of the server, a mount point, and the program with a cache home of its own."""

    program: Path
    server: SshServer
    home: Path

    @property
    def there(self) -> Path:
        return self.home / "there"

    @property
    def point(self) -> Path:
        return self.home / "point"

    @property
    def target(self) -> str:
        return f"{ALIAS}:{self.there}"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"XDG_CACHE_HOME": str(self.home / "caches"), "OSCOPE_FS": str(self.program)}

    def __call__(self, *words: object, cwd: Path | None = None) -> Answer:
        """Carry out `oscope-fs WORDS`. What a mount leaves in the background must not hold its streams."""
        done = subprocess.run(
            [self.program, *map(os.fspath, map(_word, words))],
            cwd=cwd or self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Answer(
            done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Begin it and return at once."""
        return subprocess.Popen(
            [self.program, *map(str, words)],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def mount(self, *words: object) -> Answer:
        """Mount the folder, with the server's own settings unless `words` has others."""
        settings = [] if "-F" in words else ["-F", self.server.config]
        return self("mount", *settings, self.target, self.point, *words)

    def mounted(self, *words: object) -> Answer:
        answer = self.mount(*words)
        assert answer.code == 0, answer
        assert is_mounted(self.point)
        return answer

    def status(self) -> dict[str, object]:
        answer = self("status", self.point, "--json")
        assert answer.code == 0, answer
        found: dict[str, object] = json.loads(answer.out)
        return found

    def pid(self) -> int:
        pid = self.status()["pid"]
        assert isinstance(pid, int)
        return pid

    def unmounted(self) -> Answer:
        answer = self("umount", self.point)
        assert answer.code == 0, answer
        self.is_quiet()
        return answer

    def processes(self) -> list[int]:
        """Return the processes of oscope-fs, and of ssh for it, that concern this desk."""
        home = os.fsencode(self.home)
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue  # It has ended.
            if words.startswith(os.fsencode(self.program)) and home in words:
                found.append(int(path.parent.name))
        return found

    def nothing_runs(self) -> bool:
        """Say whether two looks in a row find no process: one may miss what forks or executes just then."""
        return not any(self.processes() for _ in range(2))

    def is_quiet(self) -> None:
        """Nothing is mounted and nothing runs."""
        assert not is_mounted(self.point)
        assert self.processes() == []

    def clear(self) -> None:
        """End what runs and unmount what is mounted, however the test ended."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        while is_mounted(self.point):
            words = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
            subprocess.run([*words, self.point], check=True, timeout=LIMIT_S)


def _word(word: object) -> str | bytes:
    return word if isinstance(word, bytes) else str(word)


@pytest.fixture
def desk(filesystem: Path, desk_server: SshServer, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(filesystem, desk_server, tmp_path)
    desk.there.mkdir()
    desk.point.mkdir()
    (desk.there / "file").write_bytes(b"there before")
    try:
        yield desk
    finally:
        desk.clear()


def only_line(answer: Answer, code: int) -> str:
    """Return the one line that an error is."""
    assert answer.code == code, answer
    assert answer.out == ""
    (line,) = answer.err.splitlines()
    assert line.startswith("oscope-fs: ")
    assert "panicked" not in line
    return line
