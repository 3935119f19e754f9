"""Has the probe undo what measurements that were killed left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.probe import restore_report
from oscope.probe.locate import call, ending, find_probe

_LIMIT_S = 300.0
"""Taking a swap file out of use reads back all that is in it."""


def undo(journal: Path, notify: Callable[[str], None]) -> None:
    """Undo what all journals of dead processes hold; `notify` hears a line on each thing. Never raises.

    `journal` is the one that is named where a line names one.
    """
    try:
        path = find_probe()
        # Before the call: what is in a swap file is read back, and nothing else is heard meanwhile.
        notify(f"undoing what a measurement that was killed left behind ({journal.name})")
        answer = call(path, "restore", _LIMIT_S)
    except OscopeError as error:
        notify(f"what a measurement that was killed left behind stays, see {journal}: {error}")
        return
    for line in restore_report.describe(answer, ending(path, "restore", answer)):
        notify(line)
