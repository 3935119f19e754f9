"""A PostgreSQL server for the tests of a process: in a folder of its own, on a Unix socket there alone."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from waiting import wait_until

LIMIT_S = 60.0


@dataclass
class PostgreSQL:
    """A server; `start` and `stop` may be called again and again."""

    programs: Path
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def guard(self) -> list[str]:
        """Return what a program of the server is started by: it ends with the tests, and is not root.

        The server refuses root. When it is killed, its own processes notice and end.
        """
        words = ["setpriv", "--pdeathsig", "KILL"]
        if os.geteuid() == 0:
            words += ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        return [*words, "--"]

    def make(self) -> None:
        """Make the files of the server."""
        if os.geteuid() == 0:
            # The server's user may not look into pytest's folders, so this one is elsewhere.
            shutil.chown(self.folder, "postgres", "postgres")
        words = ["-A", "trust", "-U", "oscope", "-E", "UTF8", "--no-locale", "--no-sync"]
        subprocess.run(
            [*self.guard, self.programs / "initdb", "-D", self.folder / "data", *words],
            check=True,
            timeout=120,
            stdout=subprocess.DEVNULL,
            cwd="/",
        )

    def start(self) -> None:
        """Start the server, and return once it answers."""
        options = ["-k", str(self.folder), "-c", "listen_addresses=", "-c", "fsync=off"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.guard, self.programs / "postgres", "-D", self.folder / "data", *options],
                stdout=log,
                stderr=log,
                cwd="/",
            )
        ready = [str(self.programs / "pg_isready"), "-q", "-h", str(self.folder)]
        try:
            wait_until(
                lambda: subprocess.run(ready, timeout=LIMIT_S, check=False).returncode == 0,
                "a PostgreSQL server",
                self.process,
                limit_s=LIMIT_S,
            )
        except (TimeoutError, AssertionError) as error:
            raise RuntimeError((self.folder / "log").read_text()) from error

    def stop(self, before: subprocess.Popen[str] | None = None) -> None:
        """End the server and every connection at once, as a crash of its machine would.

        `before` is a process that is not to end earlier: it stands still meanwhile.
        """
        if before is not None:
            before.send_signal(signal.SIGSTOP)
        try:
            if self.process is not None:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait(LIMIT_S)
                self.process = None
        finally:
            if before is not None:
                before.send_signal(signal.SIGCONT)

    def database(self) -> str:
        """Make an empty database, and return its URL."""
        name = f"test{next(self.numbers)}"
        subprocess.run(
            [self.programs / "createdb", "-h", self.folder, "-U", "oscope", name], check=True, timeout=LIMIT_S
        )
        return f"postgresql://oscope@/{name}?host={self.folder}"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQL]:
    """Run a server for the tests of this process."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))
    if not programs:
        pytest.fail("PostgreSQL is not installed: run `make setup`")
    with tempfile.TemporaryDirectory(prefix="oscope-postgresql-") as folder:
        server = PostgreSQL(programs[-1], Path(folder))
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def postgresql(postgresql_server: PostgreSQL) -> str:
    """Return the URL of an empty database."""
    return postgresql_server.database()
