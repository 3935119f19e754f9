"""A calibration on a terminal: how far it is, and what it found."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from oscope.analysis.calibration import trials
from oscope.analysis.calibration.certificate import entries
from oscope.analysis.calibration.pair_measurement import Listener
from oscope.figures import mde
from oscope.figures.error_rates import by_method_and_way, by_subject, sentences
from oscope.report.terminal import console, print_prose, print_table


class _ProgressBar:
    """Draws how many pairs are judged."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def trial(self, done: int, total: int, name: str) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, total=total, description=name)


@contextlib.contextmanager
def watching() -> Iterator[Listener]:
    """Draw a bar on standard error while a calibration goes on; nothing where that is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    out = console(to_standard_error=True)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        yield _ProgressBar(progress)


def print_calibration(result: Mapping[str, Any], run_id: str, out: Console) -> None:
    """Print the rates of a calibration, and where it is stored."""
    found = trials.from_object(result["trials"])
    certified = entries(found)
    # Without an injected difference, methods differ in false positives alone: a few pairs say little of them.
    rates = (by_subject(found), *by_method_and_way(found)) if trials.effects(found) else ()
    for table in (*rates, *([mde.table(certified)] if certified else [])):
        print_table(table, out)
    print_prose(" ".join(sentences(found)), out, style="bold")
    if result["interrupted"]:
        print_prose("interrupted: these are the pairs up to then", out, style="bold red")
    print_prose(f"stored as run {run_id}", out, style="dim")
