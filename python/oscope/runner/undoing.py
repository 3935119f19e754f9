"""Has the probe undo what measurements that were killed left behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError
from oscope.probe.locate import call, ending, find_probe

_LIMIT_S = 300.0
"""Taking a swap file out of use reads back all that is in it."""
_REMEDY = "run `oscope-probe restore` as root and see what it says"
_SHOWN = 80
"""Characters shown of a line that means nothing."""


def undo(journal: Path, tell: Callable[[str], None]) -> None:
    """Undo what all journals of dead processes hold; `tell` hears a line on each thing. Never raises.

    `journal` is the one that is named where a line names one.
    """
    try:
        path = find_probe()
        # Before the call: what is in a swap file is read back, and nothing else is heard meanwhile.
        tell(f"undoing what a measurement that was killed left behind ({journal.name})")
        answer = call(path, "restore", _LIMIT_S)
    except OscopeError as error:
        tell(f"what a measurement that was killed left behind stays, see {journal}: {error}")
        return
    for line in _lines(path, answer):
        tell(line)


def _lines(path: Path, answer: subprocess.CompletedProcess[bytes]) -> Iterator[str]:
    failed = False
    for line in answer.stdout.decode(errors="replace").splitlines():
        told = _parse(line)
        if "restored" in told:
            yield f"undone, left by process {told.get('of')} that was killed: {told['restored']}"
        else:
            failed = True
            what, remedy = (
                told.get("failed", f"the probe said {line[:_SHOWN]!r}"),
                told.get("remedy") or _REMEDY,
            )
            yield f"cannot undo what a measurement that was killed left behind: {what}: {remedy}"
    if answer.returncode != 0 and not failed:
        yield f"cannot undo what a measurement that was killed left behind: {ending(path, 'restore', answer)}"


def _parse(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
