"""Kills and cuts in the middle of a load: nothing acknowledged is lost, nothing torn, nothing left over.

One round has a mount with a cache and a server folder of its own. After it, the server's folder is judged
by the notes of the load (fs_history): once right after a kill, and once after recovery.
"""

from __future__ import annotations

import contextlib
import errno
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fs_history import History
from fs_load import GONE
from fs_mount import Mount, oscope_fs, recover
from ssh_server import SshServer
from waiting import wait_until

KINDS = ("kill", "cut", "kill", "stop", "kill-recovery", "freeze", "cut-kill", "stop-kill")
KILLS = ("kill", "kill-recovery", "cut-kill", "stop-kill")
STEPS = 120
LIMIT_S = 120.0
TEMPORARY = ".oscope-fs-"
CONFLICT = ".conflict-"


@dataclass
class Round:
    """How one round went."""

    seed: int
    kind: str
    problems: list[str] = field(default_factory=list)
    steps: int = 0
    struck_at: int = 0
    """After so many steps of the load."""

    def __str__(self) -> str:
        where = f"{self.kind}, seed {self.seed}, struck after {self.struck_at} of {self.steps} steps"
        return f"{where}: {'; '.join(self.problems) or 'well'}"


def plan(count: int) -> list[tuple[int, str]]:
    """Return seeds with their kinds, each kind about as often."""
    return [(seed, KINDS[seed % len(KINDS)]) for seed in range(count)]


def run(server: SshServer, home: Path, seed: int, kind: str, *options: object) -> Round:
    """Run one round; `home` has to be new."""
    outcome = Round(seed, kind)
    folder = home / "server"
    for path in (home, folder):
        path.mkdir()
    notes = home / "notes"
    notes.touch()
    mount = oscope_fs(server, folder, home, "--timeout", "20s", *options)
    try:
        mount.start()
        with _load(mount.root, notes, seed) as load:
            _strike(server, mount, notes, outcome)
            status = load.wait(LIMIT_S)
        history = _judged_load(notes, status, outcome)
        if kind in KILLS:
            _compare(folder, history, outcome, recovered=False)
            _recover(server, folder, home, mount, outcome)
        else:
            mount.stop()
        _compare(folder, history, outcome, recovered=True)
        _compare_view(folder, mount, outcome)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        outcome.problems.append(f"{type(error).__name__}: {error}")
    finally:
        mount.kill()
    return outcome


@contextlib.contextmanager
def _load(root: Path, notes: Path, seed: int) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, Path(__file__).with_name("fs_load.py"), root, notes, seed, STEPS]
    with notes.with_name("load.log").open("wb") as log:
        load = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)
        try:
            yield load
        finally:
            load.kill()
            load.wait()


def _strike(server: SshServer, mount: Mount, notes: Path, outcome: Round) -> None:
    """Wait for a random moment of the load, and do what the round is for."""
    roll = random.Random(outcome.seed)
    steps = roll.randrange(1, 2 * STEPS - 10)
    # A load that has failed is judged with the rest of the round. A step takes a few milliseconds.
    with contextlib.suppress(TimeoutError):
        wait_until(
            lambda: notes.read_bytes().count(b"\n") >= steps,
            f"note {steps} of the load",
            limit_s=LIMIT_S,
            interval_s=0.001,
        )
    # Somewhere within the step that is under way.
    time.sleep(roll.random() * 0.004)
    outcome.struck_at = notes.read_bytes().count(b"\n") // 2
    match outcome.kind:
        case "cut":
            for _ in range(roll.randrange(1, 4)):
                server.cut()
                time.sleep(roll.random() * 0.3)
        case "stop":
            server.stop()
            time.sleep(roll.random() * 2)
            server.start()
        case "freeze":
            with server.frozen():
                time.sleep(roll.random() * 1.5)
        case "cut-kill":
            server.cut()
            time.sleep(roll.random() * 0.3)
            mount.crash()
        case "stop-kill":
            server.stop()
            time.sleep(roll.random() * 0.3)
            mount.crash()
            server.start()
        case _:
            mount.crash()


def _judged_load(notes: Path, status: int, outcome: Round) -> History:
    if status != 0:
        lines = notes.with_name("load.log").read_text().splitlines()
        outcome.problems.append(f"the load ended with {status}: {' '.join(lines[-1:])}")
    history = History.read(notes.read_text().splitlines())
    outcome.steps = history.steps
    allowed = {errno.EIO} if outcome.kind not in ("kill", "kill-recovery", "freeze") else set()
    if outcome.kind in KILLS:
        allowed.update(GONE)
    for step, number in history.errors:
        if number not in allowed:
            outcome.problems.append(f"{step} ended with {errno.errorcode.get(number, number)}")
    return history


def _recover(server: SshServer, folder: Path, home: Path, mount: Mount, outcome: Round) -> None:
    """Recover by the next mount, or by the command; killed once more before, if the round is for that."""
    roll = random.Random(-outcome.seed - 1)
    if outcome.kind == "kill-recovery":
        mount.clear()
        begun = subprocess.Popen(
            mount.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(roll.random() * 0.6)
        begun.kill()
        begun.wait()
    if roll.random() < 0.5:
        mount.clear()
        answer = recover(server, folder, home)
        if answer.returncode != 0:
            outcome.problems.append(f"recover ended with {answer.returncode}: {answer.stderr.strip()[-300:]}")
    else:
        # The dead mount is left for the program to clear.
        mount.start()
        mount.stop()


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _compare(folder: Path, history: History, outcome: Round, *, recovered: bool) -> None:
    found = _contents(folder)
    for name in sorted(found.keys() | history.names.keys()):
        content = found.get(name)
        if name.startswith(TEMPORARY):
            if recovered:
                outcome.problems.append(f"the temporary {name} is left on the server")
        elif CONFLICT in name:
            outcome.problems.append(f"{name}: a conflict, and nobody else wrote")
        elif not recovered:
            if not history.whole(name, content):
                outcome.problems.append(f"{name} before recovery: {history.describe(name, content)}")
        elif not history.keeps_acknowledged(name, content):
            outcome.problems.append(f"{name}: ACKNOWLEDGED LOST or torn: {history.describe(name, content)}")
        elif not history.keeps_written(name, content):
            outcome.problems.append(f"{name}: what was written is lost: {history.describe(name, content)}")


def _compare_view(folder: Path, mount: Mount, outcome: Round) -> None:
    """Mount once more: the mount shows what the server has."""
    mount.start()
    expected, found = _contents(folder), _contents(mount.root)
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            sizes = [
                None if content is None else len(content) for content in (expected.get(name), found.get(name))
            ]
            outcome.problems.append(f"{name}: the mount differs from the server, sizes {sizes}")
    mount.stop()
