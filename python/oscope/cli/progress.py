"""A run's progress on standard error: a bar on a terminal, sparse lines elsewhere, only notes under CI."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from oscope.cli.errors import note, one_line
from oscope.figures.answer_text import kind
from oscope.model.units import format_duration, format_share
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe.catalogue import format_level
from oscope.report.terminal import print_note
from oscope.runner.progress import Listener, Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID

    from oscope.storage.store import Store

MOST_NAMED = 4
"""Of more experiments only their number is printed: with them, the line would not fit a terminal."""
LINE_INTERVAL_S = 15.0
"""Between two plain lines; a log of a three-minute survey stays readable."""


def note_if_complete(store: Store, run_id: str, again: str) -> None:
    """Note that a run to be resumed is complete, and the command that measures `again`."""
    if any(entry.id == run_id and entry.status == "done" for entry in store.runs()):
        note(f"run {run_id} is complete, there is nothing left to measure: to measure again, {again}")


class Display(Listener, Protocol):
    """A listener that holds the terminal while it is entered."""

    run_id: str | None
    """The run, once it is in the store."""

    def __enter__(self) -> Display:
        """Begin to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and leave the terminal as it was."""
        ...


def display(*, remarks: bool = True) -> Display:
    """Return the display that suits standard error; without `remarks` it leaves out the notes on points."""
    shown = Notes() if os.environ.get("CI") else Bar() if sys.stderr.isatty() else Lines()
    shown.remarks = remarks
    return shown


class Notes:
    """Prints notes, and no progress."""

    def __init__(self) -> None:
        self.run_id: str | None = None
        self.remarks = True
        """Whether notes on points are written."""
        self._printed: set[str] = set()

    def __enter__(self) -> Display:
        """Begin to show."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""

    def begin(self, run_id: str, plan: Plan) -> None:
        """Remember the run's id, which is needed to resume it."""
        del plan
        self.run_id = run_id

    def progress(self, progress: Progress) -> None:
        """Say nothing."""

    def inspecting(self, name: str) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Write the note as a line, once for all points that it is about: the summary names them all."""
        self._once(text, text.partition(": ")[2])

    def remark(self, text: str) -> None:
        """Write a note on a point, if that is wanted."""
        if self.remarks:
            # Of notes that differ in their figures alone, such as a buffer's bytes, the first one says it.
            self._once(text, kind(text.partition(": ")[2]))

    def _once(self, text: str, key: str) -> None:
        """Write a line unless one that says the same was written."""
        if key not in self._printed:
            self._printed.add(key)
            self._write(f"oscope: {one_line(text)}")

    def _write(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Lines(Notes):
    """Prints the progress as a plain line now and then, for logs."""

    def __init__(self) -> None:
        super().__init__()
        self._experiments: dict[str, PlannedExperiment] = {}
        self._printed_at = 0.0

    def begin(self, run_id: str, plan: Plan) -> None:
        """Write what will be measured."""
        super().begin(run_id, plan)
        self._experiments = {experiment.name: experiment for experiment in plan.experiments}
        self._printed_at = time.monotonic()
        self.note(f"run {run_id}: {size(plan)}")

    def progress(self, progress: Progress) -> None:
        """Write where the run stands, if the last line is old."""
        now = time.monotonic()
        if now - self._printed_at >= LINE_INTERVAL_S:
            self._printed_at = now
            self._write(f"oscope: {counted(progress)}: {where(progress, self._experiments)}")

    def inspecting(self, name: str) -> None:
        """Write what is looked at."""
        # Not as a note: all of them would say the same.
        self._write(f"oscope: looking at {name}")


class Bar(Notes):
    """Shows a bar with the samples, the time left (or gone, of the budget), and the point under way."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._experiments: dict[str, PlannedExperiment] = {}
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def begin(self, run_id: str, plan: Plan) -> None:
        """Say what will be measured, and draw the bar."""
        super().begin(run_id, plan)
        self._experiments = {experiment.name: experiment for experiment in plan.experiments}
        self.note(f"run {run_id}: {size(plan)}")
        self._bar = _make_bar(plan, self._console)
        # A bar of no samples would be full at once; without a total it only moves.
        self._task = self._bar.add_task("", total=plan.total or None, counted="")
        self._bar.start()

    def progress(self, progress: Progress) -> None:
        """Move the bar."""
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task,
                completed=progress.finished,
                description=where(progress, self._experiments),
                counted=counted(progress),
            )

    def inspecting(self, name: str) -> None:
        """Tell what is looked at."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=f"looking at {name}")

    def _write(self, line: str) -> None:
        """Write the line above the bar."""
        print_note(line, self._console)


def _make_bar(plan: Plan, console: Console) -> RichProgress:
    clock: tuple[ProgressColumn, ProgressColumn]
    if plan.total == 0:
        clock = (TimeElapsedColumn(), TextColumn("so far"))
    elif plan.total is not None:
        clock = (TimeRemainingColumn(), TextColumn("left"))
    else:
        clock = (TimeElapsedColumn(), TextColumn(f"of at most {format_duration(plan.budget_s or 0)}"))
    return RichProgress(
        BarColumn(bar_width=16),
        TextColumn("{task.fields[counted]}", markup=False),
        *clock,
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        # Every redraw takes time from the machine that is measured.
        refresh_per_second=2,
    )


def size(plan: Plan) -> str:
    """Tell how much will be measured, and what is looked at."""
    looked = _named(plan.inspections, "inspection")
    if not plan.experiments:
        return looked
    names = _named([experiment.name for experiment in plan.experiments], "experiment")
    points = sum(len(experiment.points) for experiment in plan.experiments)
    if plan.total is not None:
        until = f"{plan.total} sample{'' if plan.total == 1 else 's'}"
        until += ", more after interference" if plan.again else ""
    elif plan.precision is not None:
        until = f"each until half its interval is {format_share(plan.precision)} of the median"
    else:
        until = f"for {format_duration(plan.budget_s or 0)}"
    measured = f"{names}: {points} point{'' if points == 1 else 's'}, {until}"
    return f"{looked}; {measured}" if looked else measured


def _named(names: Sequence[str], noun: str) -> str:
    """Name them; of many, say how many."""
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} {noun}s"


def counted(progress: Progress) -> str:
    """Tell how many samples there are, of how many, and how many of these the plan has not."""
    total = "" if progress.total is None else f"/{progress.total}"
    again = f" ({progress.again} in repetition)" if progress.again else ""
    return f"{progress.finished}{total} samples{again}"


def where(progress: Progress, experiments: dict[str, PlannedExperiment]) -> str:
    """Tell which point is measured: its varied levels only, since a line is short."""
    experiment = experiments[progress.experiment]
    # A level without a meaning at a point is not there.
    seen = {name: {point[name] for point in experiment.points if name in point} for name in progress.point}
    varied = [name for name, found in seen.items() if len(found) > 1]
    levels = [format_level(experiment.workload.parameter(name), progress.point[name]) for name in varied]
    return " ".join([progress.experiment, *levels])
