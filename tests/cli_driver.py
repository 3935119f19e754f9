"""Drives the command line as a person or a script would: in a process and a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import fake_probe
import preloaded
from oscope.model.errors import StoreError
from oscope.storage.store import RunEntry, Store

ROOT = Path(__file__).parent.parent
COST = ("run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop", "--reps", "4")
TIME_LIMIT_S = 240
NOBODY = 65534 if os.geteuid() == 0 else os.geteuid()


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines on standard error, without those that only tell the progress of a run."""
        return [line for line in self.err.splitlines() if not line.startswith("oscope: run 2")]


@dataclass(frozen=True)
class CommandLine:
    """Calls `oscope` in `folder`, with `environment` on top of the tests' own."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    """A program that starts the command, such as one that changes the user."""

    def __call__(self, *words: str, **environment: str) -> Answer:
        """Carry out `oscope WORDS`."""
        variables = self.all_variables(environment)
        if not self.prefix and preloaded.serves(variables):
            return Answer(*preloaded.run(words, self.folder, variables, TIME_LIMIT_S))
        done = subprocess.run(
            [*self.prefix, sys.executable, "-m", "oscope", *words],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str, **streams: Any) -> subprocess.Popen[str]:
        """Begin `oscope WORDS` and return at once."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "oscope", *words],
            cwd=self.folder,
            env=self.all_variables({}),
            text=True,
            **options,
        )

    def entries(self) -> tuple[RunEntry, ...]:
        """Return the runs in the store, the oldest first; none while the store is being made."""
        place = self.folder / self.all_variables({})["OSCOPE_STORE"]
        with contextlib.suppress(StoreError), Store.read(place, read_only=True) as store:
            return store.runs()
        return ()

    def runs(self) -> list[str]:
        """Return the ids of these runs."""
        return [entry.id for entry in self.entries()]

    def has_samples(self) -> bool:
        """Return whether a run has samples."""
        return any(entry.samples for entry in self.entries())

    def all_variables(self, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment of the command: neither CI nor the width of this terminal reaches it."""
        own = {name: value for name, value in os.environ.items() if name not in ("CI", "COLUMNS", "LINES")}
        return own | {"PYTHONPATH": str(ROOT / "python")} | self.environment | environment


def requests(command: CommandLine) -> list[dict[str, Any]]:
    """Return what the probe of `session_command` was asked for."""
    return [json.loads(line) for line in Path(command.environment["FAKE_REQUESTS"]).read_text().splitlines()]


@contextlib.contextmanager
def as_nobody(probe: Path) -> Iterator[CommandLine]:
    """Give a command line without root, in a folder of its own; skip where no other user can read Oscope."""
    prefix: tuple[str, ...] = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if os.geteuid() != 0:
        prefix = ()  # The tests have no root, which is the case wanted.
    # Only its owner may enter pytest's folders.
    with tempfile.TemporaryDirectory(prefix="oscope-nobody-") as name:
        folder = Path(name)
        copy = shutil.copy(probe, folder / "oscope-probe")
        environment = {"OSCOPE_PROBE": str(copy), "OSCOPE_STORE": str(folder / "oscope.db"), "HOME": name}
        if prefix:
            os.chown(folder, NOBODY, NOBODY)
        oscope = CommandLine(folder, environment, prefix)
        if oscope("--version").code != 0:
            pytest.skip("another user cannot read this Python or this working copy")
        yield oscope


def described(version: int = 1) -> str:
    """Return a description under which the fake probe passes for one with the system-call lab's workloads."""
    description = json.loads(json.dumps(fake_probe.DESCRIPTION))
    (fake,) = description["workloads"]
    calls = ["getpid", "getppid", "read", "lseek", "gethostid", "clock_gettime"]
    choice: dict[str, Any] = {"type": "choice", "pattern": None, "unit": None, "doc": "."}
    extra: dict[str, Any] = {
        "syscall.cost": [
            choice | {"name": "call", "default": "getppid", "choices": calls, "pattern": "nr:N"},
            choice | {"name": "style", "default": "loop", "choices": ["loop", "single"]},
        ],
        "syscall.throughput": [
            choice | {"name": "call", "default": "getppid", "choices": calls},
            {"name": "duration", "type": "duration", "default": 10.0, "unit": "s", "doc": "."},
        ],
        "process.create": [
            choice
            | {
                "name": "how",
                "default": "fork",
                "choices": ["fork", "vfork", "clone3", "posix_spawn", "thread"],
            },
            {"name": "resident", "type": "bytes", "default": 0, "unit": "B", "doc": "."},
            choice | {"name": "pages", "default": "4K", "choices": ["4K", "huge"]},
        ],
        "syscall.uring-nop": [
            {
                "name": "batch",
                "type": "integer",
                "default": 1,
                "minimum": 1,
                "maximum": 4096,
                "unit": None,
                "doc": ".",
            },
        ],
    }
    metrics = {
        "syscall.cost": ["time_ns", "cycles"],
        "syscall.throughput": ["calls_per_s", "bytes_per_s"],
        "process.create": [
            f"{part}_{unit}" for unit in ("ns", "cycles") for part in ("child", "parent", "total")
        ],
        "syscall.uring-nop": ["time_ns", "cycles"],
    }
    description["workloads"] = [
        fake
        | {
            "name": name,
            "version": version,
            "parameters": [*parameters, *fake["parameters"]],
            "metrics": [
                {"name": m, "unit": m.split("_")[-1], "better": "less", "doc": "."} for m in metrics[name]
            ],
        }
        for name, parameters in extra.items()
    ]
    return json.dumps(description)
