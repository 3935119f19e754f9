"""Rounds in which a server does not take what is copied back, and then does: nothing is lost or left."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from fs_mount import Mount
from ssh_server import SshServer
from waiting import wait_until

KIB = 1 << 10
SIZES = (1, 4 * KIB, 30 * KIB, 100 * KIB, 700 * KIB)
"""Up to 32 KiB a file that is empty on the server is written in place."""
NAMES = 5
TEMPORARY = ".oscope-fs-"
Trouble = Callable[[random.Random, int], AbstractContextManager[None]]
"""Has the server refuse some of what follows, the file being of so many bytes."""


class Rounds:
    """A mount, and what its files are to hold."""

    def __init__(self, mount: Mount, server: SshServer, folder: Path, allowed: set[int]) -> None:
        self._mount, self._server, self._folder, self._allowed = mount, server, folder, allowed
        self._model: dict[str, bytes] = {}
        self.refused = self.removed = self.kept = 0
        self.errors: set[int] = set()
        """The numbers of the errors that programs met."""
        self.lingers = False
        """Whether the server does not even let a temporary file be removed, while the trouble lasts."""

    def run(self, seed: int, trouble: Trouble) -> None:
        """Change a file while the server refuses, and see it go back when it no longer does."""
        rng = random.Random(seed)
        name, size = f"file{rng.randrange(NAMES)}", rng.choice(SIZES)
        path, before = self._mount.root / name, self._model.get(name)
        data = rng.randbytes(size)
        flags = rng.choice((os.O_TRUNC, os.O_APPEND, 0)) | os.O_WRONLY
        expected = {os.O_TRUNC: b"", os.O_APPEND: before or b""}.get(flags & ~os.O_WRONLY)
        expected = data + (before or b"")[size:] if expected is None else expected + data
        if len(expected) > 1000 * KIB:
            flags, expected = os.O_WRONLY | os.O_TRUNC, data
        if before is None:
            # Made while there is room; a name that cannot be made is no copying back.
            path.touch()
            before = self._model[name] = b""
        with trouble(rng, len(expected)):
            done = self._write(path, flags, data, sync=rng.random() < 0.5)
            self._handles_are_closed()
            if not self.lingers:
                self._nothing_is_left_over()
            found = (self._folder / name).read_bytes()
            # What was empty is filled in place; where it cannot be emptied again, it holds what was sent.
            kept = found == before or (before == b"" and expected.startswith(found))
            assert found == expected if done else kept, f"{len(found)} bytes, done: {done}"
            # Here it is as it was written.
            assert path.read_bytes() == expected
            meanwhile = rng.choice(("nothing", "nothing", "remove", "rename"))
            if not done:
                self.refused += 1
                if meanwhile == "remove" and not self._remove(path):
                    meanwhile = "nothing"
                elif meanwhile == "rename":
                    path = self._rename(path, f"file{rng.randrange(NAMES)}")
        if not done and meanwhile == "remove":
            del self._model[name]
            assert not path.exists()
            return
        self._model[path.name] = expected
        if not done:
            os.close(os.open(path, os.O_WRONLY))
            self.kept += 1
        assert (self._folder / path.name).read_bytes() == expected
        self._handles_are_closed()
        self._nothing_is_left_over()

    def _write(self, path: Path, flags: int, data: bytes, *, sync: bool) -> bool:
        """Return whether the server took it."""
        descriptor = os.open(path, flags)
        synced = True
        try:
            os.write(descriptor, data)
            if sync:
                os.fsync(descriptor)
        except OSError as error:
            self._check(error)
            synced = False
        try:
            os.close(descriptor)
        except OSError as error:
            self._check(error)
            return False
        # A close does without what a fsync asks for.
        self.kept += not synced
        return True

    def _remove(self, path: Path) -> bool:
        """Return whether it is gone; that may be refused as well."""
        try:
            path.unlink()
        except OSError as error:
            self._check(error)
            return False
        self.removed += 1
        return True

    def _rename(self, path: Path, other: str) -> Path:
        """Return the name that the file has then; that may be refused as well."""
        try:
            renamed = path.rename(path.with_name(other))
        except OSError as error:
            self._check(error)
            return path
        self._model[other] = self._model.pop(path.name)
        return renamed

    def _check(self, error: OSError) -> None:
        if error.errno not in self._allowed:
            raise error
        self.errors.add(error.errno)

    def _handles_are_closed(self) -> None:
        def held() -> list[str]:
            inside = f"{self._folder}/"
            return [name for name in self._server.open_files() if name.startswith(inside)]

        # One that was only read is closed within half a second.
        wait_until(lambda: not held(), f"no file of the server stays open: {held()}")

    def _nothing_is_left_over(self) -> None:
        wait_until(lambda: not self.temporaries(), "no temporary file stays on the server")

    def temporaries(self) -> list[str]:
        """Return the temporary files that the server has."""
        return [path.name for path in self._folder.iterdir() if path.name.startswith(TEMPORARY)]

    def failing(self) -> list[str]:
        """Return what `oscope-fs status` says could not be copied back."""
        words = [self._mount.words[0], "status", str(self._mount.root), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
        return sorted(failure["path"] for failure in json.loads(done.stdout)["failures"])

    def run_all(self, count: int, trouble: Trouble, note: Callable[[], str] = str) -> None:
        """Do so many rounds, and end; an error names its seed, and what `note` returns."""
        for seed in range(count):
            try:
                self.run(seed, trouble)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error}{note()}") from error
        self.end()

    def end(self) -> None:
        """Unmount; the server has all, and the log is true."""
        assert self.failing() == []
        self._mount.stop()
        found = {path.name: path.read_bytes() for path in self._folder.iterdir()}
        assert {name: content for name, content in found.items() if name.startswith("file")} == self._model
        assert [name for name in found if ".conflict-" in name or name.startswith(TEMPORARY)] == []
        log = self._mount.log_text()
        assert len(re.findall("is copied back after all", log)) == self.kept
        assert len(re.findall("was removed before it was copied back", log)) == self.removed


ROOM = {errno.ENOSPC}
REFUSALS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
