"""Oscope's own commands, as a person calls them, in a process of their own with nothing on the terminal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from oscope.model.errors import OscopeError
from oscope.probe.locate import find_probe

LIMIT_S = 120.0
_GOODBYE_S = 10.0
_OWN = "oscope: "


def ask(*words: str) -> dict[str, Any]:
    """Carry out `oscope WORDS --json` and return the object that it prints. OscopeError as of `carry_out`."""
    found: dict[str, Any] = json.loads(carry_out(*words, "--json"))
    return found


def carry_out(*words: str, environment: Mapping[str, str] | None = None) -> bytes:
    """Carry out `oscope WORDS` and return its standard output.

    `environment` goes on top of this process's. Raises OscopeError, with the command's own words, where it
    fails or takes longer than `LIMIT_S`.
    """
    with started(*words, environment=environment, stdin=subprocess.DEVNULL) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise OscopeError(
                f"oscope {words[0]} did not end within {LIMIT_S:g} s", remedy="try it by itself"
            ) from None
    check(process.returncode, err, words[0])
    return bytes(out)


@contextlib.contextmanager
def started(
    *words: str, environment: Mapping[str, str] | None = None, stdin: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Start `oscope WORDS`, in a session of its own: a Ctrl-C at the terminal is this process's to act on.

    However this is left, the command has ended then; it also ends where this process is killed.
    """
    try:
        process = subprocess.Popen(
            # Not from the working folder, which may hold modules of the same names.
            ["setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-P", "-m", "oscope", *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A trace shows the working folder, which may be named after a person. A relative path to the
            # probe would not lead there any more.
            cwd="/",
            env={**os.environ, "OSCOPE_PROBE": str(find_probe().absolute()), **(environment or {})},
            start_new_session=True,
            bufsize=0,
        )
    except FileNotFoundError as error:
        raise OscopeError("setpriv(1) is missing", remedy="apt install util-linux") from error
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have it end in good order, or else at once."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_GOODBYE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def check(status: int, err: bytes, name: str) -> None:
    """Raise OscopeError where a command ended with an exit code that is not 0, in its own last words."""
    if status == 0:
        return
    lines = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
    text = lines[-1].removeprefix(_OWN) if lines else f"oscope {name} ended with status {status}"
    # Errors have one form: what, where, then a colon and the remedy.
    what, colon, remedy = text.rpartition(": ")
    raise OscopeError(what if colon else text, remedy=remedy if colon else None)
