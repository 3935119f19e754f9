"""Carries out command lines with broken standard streams, each in a fork that has all modules loaded.

Reads a JSON array of cases from standard input, and writes one of what came of them. A case has `words`,
`streams` (a name of BROKEN), `folder` and `input`, the content of standard input.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from command_tree import commands
from oscope.cli import main
from preloaded import LIBRARIES

PRELOADED = (
    *LIBRARIES,
    "plotly.offline",
    "oscope.analysis.run_history",
    "oscope.figures.variation",
    "oscope.report.page",
    "oscope.storage.frames",
    "oscope.storage.store",
)
"""What takes long to import, once for all."""

LIMIT_S = 120


def close(descriptor: int) -> Callable[[str], None]:
    """Return what closes a descriptor, as the interpreter finds it where a shell closed it (`>&-`)."""

    def act(_: str) -> None:
        os.close(descriptor)
        name = ("stdin", "stdout", "stderr")[descriptor]
        setattr(sys, name, None)
        setattr(sys, f"__{name}__", None)

    return act


def fill(descriptor: int) -> Callable[[str], None]:
    """Return what puts a device that is full at a descriptor."""
    return lambda full: place(os.open(full, os.O_WRONLY), descriptor)


def leave(_: str) -> None:
    """Put a pipe without a reader at standard output."""
    reading, writing = os.pipe()
    os.close(reading)
    place(writing, 1)


def place(opened: int, descriptor: int) -> None:
    """Move an open file to a descriptor."""
    os.dup2(opened, descriptor)
    os.close(opened)


def close_all(full: str) -> None:
    """Close all three."""
    for descriptor in (0, 1, 2):
        close(descriptor)(full)


BROKEN: dict[str, Callable[[str], None]] = {
    "whole": lambda _: None,
    "stdin closed": close(0),
    "stdout closed": close(1),
    "stderr closed": close(2),
    "all closed": close_all,
    "stdout full": fill(1),
    "stderr full": fill(2),
    "reader left": leave,
}


def carry_out(case: dict[str, Any], full: str) -> dict[str, Any]:
    """Carry out a case in a process of its own, and return its exit code and what it wrote."""
    folder = Path(case["folder"])
    files = [folder / f".{name}" for name in ("in", "out", "err")]
    files[0].write_bytes(case["input"].encode())
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        signal.alarm(LIMIT_S)
        for descriptor, file in enumerate(files):
            place(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND), descriptor)
        BROKEN[case["streams"]](full)
        os._exit(ended(case["words"]))
    _, status = os.waitpid(child, 0)
    out, err = (file.read_bytes().decode(errors="replace") for file in files[1:])
    return {"code": os.waitstatus_to_exitcode(status), "out": out, "err": err}


def ended(words: list[str]) -> int:
    """Return the exit code of a command line as the interpreter would have it."""
    code: object = 121
    try:
        main(words)
    except SystemExit as exit_:
        code = exit_.code
    except Exception:  # noqa: BLE001 - what the interpreter would print.
        traceback.print_exc()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return 120  # As of Py_FinalizeEx.
    return code if isinstance(code, int) else 0 if code is None else 1


if __name__ == "__main__":
    list(commands())
    for module in PRELOADED:
        importlib.import_module(module)
    asked = json.load(sys.stdin)
    done = [carry_out(case, asked["full"]) for case in asked["cases"]]
    json.dump(done, sys.stdout)
