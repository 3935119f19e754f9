"""Runs benchmark modules, each in a process of its own, within limits of time; nothing that fails stops it.

A part that takes much longer than it declares is stopped, and the module continues with its next part.
Processes that a module leaves running end with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from bars import Bar, Effort, Figure, Part

PROGRAM = Path(__file__).with_name("module_run.py")
PATIENCE = 8.0
"""Times the seconds that a part declares, after which it hangs; and PATIENCE_S more."""
PATIENCE_S = 120.0
GOODBYE_S = 20.0
"""For what is stopped to undo what it did."""
POLL_S = 0.5
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Module:
    """A benchmark module: its name, its title, what it measures."""

    name: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of a bar: a figure, or the reason for which there is none."""

    module: str
    bar: Bar
    figure: Figure | None = None
    why: str = ""
    failed: bool = False
    """Whether there is no figure because something is broken, and not because something is not there."""

    @property
    def verdict(self) -> str:
        """Return `met`, `missed`, `shown` (nothing is wanted of it) or `not measured`."""
        return "not measured" if self.figure is None else self.bar.judge(self.figure)


class Listener(Protocol):
    """Hears how far a run is."""

    def part(self, module: Module, index: int) -> None:
        """Hear that a part begins."""

    def took(self, module: Module, index: int, seconds: float, cpu_s: float) -> None:
        """Hear that a part has ended, and what it used of the CPUs."""

    def outcome(self, outcome: Outcome) -> None:
        """Hear what came of a bar."""

    def left(self, seconds: float) -> None:
        """Hear how long it will take about."""


@dataclass
class Run:
    """A run over modules. Interrupted, it has an outcome for every bar all the same."""

    modules: Sequence[Module]
    effort: Effort
    listener: Listener
    budget_s: float | None = None
    """After so many seconds, what is not measured yet stays so."""
    outcomes: list[Outcome] = field(default_factory=list)
    interrupted: bool = False
    _spent_s: float = 0.0
    _declared_s: float = 0.0

    def go(self) -> None:
        """Measure all modules."""
        _adopt_orphans()
        # As an exception it could come while an event is taken, which then would be lost.
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            self._go()
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
        # Pressed again, it ends the run wherever it is.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _go(self) -> None:
        deadline = None if self.budget_s is None else time.monotonic() + self.budget_s
        for at, module in enumerate(self.modules):
            later = sum(self._declared(each, range(len(each.parts))) for each in self.modules[at + 1 :])
            try:
                self._module(module, deadline, later)
            except KeyboardInterrupt:
                self.interrupted = True
            if self.interrupted:
                break
        known = {(outcome.module, outcome.bar.name) for outcome in self.outcomes}
        for module in self.modules:
            for bar in (bar for part in module.parts for bar in part.bars):
                if (module.name, bar.name) not in known:
                    self.add(Outcome(module.name, bar, why="interrupted"))
        order = [module.name for module in self.modules]
        self.outcomes.sort(key=lambda outcome: order.index(outcome.module))

    @property
    def failed(self) -> bool:
        """Whether a bar is missed, or could not be measured since something is broken."""
        return any(each.failed or each.verdict == "missed" for each in self.outcomes)

    def _declared(self, module: Module, indices: Sequence[int]) -> float:
        return sum(module.parts[index].seconds(self.effort) or 0.0 for index in indices)

    def _module(self, module: Module, deadline: float | None, later_s: float) -> None:
        todo = []
        for index, part in enumerate(module.parts):
            if part.seconds(self.effort) is None:
                self._missing(module, part, f"only by make bench-full: it takes {_about(part.full_s)}")
            else:
                todo.append(index)
        while todo and not self.interrupted:
            if deadline is not None and time.monotonic() >= deadline:
                why = f"no time left of {_about(self.budget_s or 0)}"
                for index in todo:
                    self._missing(module, module.parts[index], why, failed=True)
                return
            todo = self._child(module, todo, deadline, later_s)

    def _child(self, module: Module, todo: list[int], deadline: float | None, later_s: float) -> list[int]:
        """Have a process measure the parts `todo`; return those that it did not come to."""
        with ModuleProcess(module.name, self.effort, todo) as child:
            state = _Parts(module, todo, self)
            why = self._follow(child, state, deadline, later_s)
            if why:
                child.stop()
                for event in child.rest():
                    # It fails by being stopped.
                    if "failed" in event:
                        break
                    state.take(event)
                state.stopped(why, failed=not self.interrupted)
            elif child.status != 0:
                state.stopped(f"the module ended with status {child.status}: {child.last_words()}")
            while state.todo and not why and child.status == 0:
                state.stopped("the module said nothing of it")
            return state.todo

    def _follow(self, child: ModuleProcess, state: _Parts, deadline: float | None, later_s: float) -> str:
        """Take what a process writes until its end; return why it is to be stopped before, or nothing."""
        begun = time.monotonic()
        limit = self._limit(state.module, state.todo[0])
        while (event := child.next(POLL_S)) is not None:
            now = time.monotonic()
            if "begin" in event:
                begun, limit = now, self._limit(state.module, event["begin"])
            if "end" in event:
                self._spent_s += now - begun
                self._declared_s += self._declared(state.module, [event["end"]])
            state.take(event)
            if "end" in event:
                self.listener.took(state.module, event["end"], now - begun, event["cpu_s"])
            self._tell_left(self._declared(state.module, state.todo) + later_s, now - begun, deadline)
            if self.interrupted:
                return "interrupted"
            if deadline is not None and now > deadline:
                return "the time was over"
            if now > limit:
                return f"hung: stopped after {_about(now - begun)}"
        return ""

    def _limit(self, module: Module, index: int) -> float:
        seconds = module.parts[index].seconds(self.effort) or 0.0
        return time.monotonic() + PATIENCE * seconds + PATIENCE_S

    def _tell_left(self, declared_s: float, current_s: float, deadline: float | None) -> None:
        # What is declared is of an idle machine; this one may be slower or faster.
        pace = (self._spent_s + 60) / (self._declared_s + 60)
        left_s = max(pace * declared_s - current_s, 0.0)
        self.listener.left(left_s if deadline is None else min(left_s, deadline - time.monotonic()))

    def _missing(self, module: Module, part: Part, why: str, *, failed: bool = False) -> None:
        for bar in part.bars:
            self.add(Outcome(module.name, bar, why=why, failed=failed))

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        self.outcomes.append(outcome)
        self.listener.outcome(outcome)


class _Parts:
    """What is known of the parts that one process measures."""

    def __init__(self, module: Module, todo: Sequence[int], run: Run) -> None:
        self.todo = list(todo)
        """Parts that have not ended."""
        self.module = module
        self._run = run
        self._open: dict[str, Bar] = {}
        """Bars of the part that has begun that have no outcome yet."""

    def take(self, event: dict[str, Any]) -> None:
        """Take what the process wrote."""
        if "begin" in event:
            self._open = {bar.name: bar for bar in self.module.parts[event["begin"]].bars}
            self._run.listener.part(self.module, event["begin"])
        elif "bar" in event:
            bar = self._open.pop(event["bar"], None)
            if bar is None:
                why = "the module does not declare it, or gave it twice"
                self._run.add(Outcome(self.module.name, Bar(event["bar"]), why=why, failed=True))
                return
            interval = event["interval"] and tuple(event["interval"])
            figure = Figure(bar, event["value"], interval, event["detail"])
            self._run.add(Outcome(self.module.name, bar, figure))
        elif "unmeasured" in event or "failed" in event:
            self._close(event["why"], failed="failed" in event)
        elif "end" in event:
            self._close("the module gave no figure", failed=True)
            self.todo.remove(event["end"])

    def stopped(self, why: str, *, failed: bool = True) -> None:
        """Give up the part under way; the next ones are to be tried. After all of them it is the clean-up."""
        if not self.todo:
            self._run.add(Outcome(self.module.name, Bar("leaves nothing behind"), why=why, failed=failed))
            return
        if not self._open:
            self._open = {bar.name: bar for bar in self.module.parts[self.todo[0]].bars}
        self._close(why, failed=failed)
        self.todo = self.todo[1:]

    def _close(self, why: str, *, failed: bool) -> None:
        for bar in self._open.values():
            # A peer that is not there is no fault of the module.
            lacks = bar.lacks
            self._run.add(Outcome(self.module.name, bar, why=lacks or why, failed=failed and not lacks))
        self._open = {}


class ModuleProcess:
    """A process that measures parts of a module; it and all that it started end with the context."""

    def __init__(self, module: str, effort: Effort, indices: Sequence[int]) -> None:
        self._words = [sys.executable, str(PROGRAM), module, effort.name, *map(str, indices)]
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed on exit.
        self.status: int | None = None

    def __enter__(self) -> ModuleProcess:
        """Start it, in a session of its own: the runner says when it is to stop, not the terminal."""
        self._process = subprocess.Popen(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs of it."""
        if self._process.poll() is None:
            self.stop()
        _end_orphans()
        self._reader.join(GOODBYE_S)
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                with contextlib.suppress(ValueError):
                    self._events.put(json.loads(line))
        self._events.put(None)

    def next(self, timeout_s: float) -> dict[str, Any] | None:
        """Return what it wrote next, nothing (an empty object) after `timeout_s`, None at its end."""
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            return {}
        if event is None:
            self.status = self._process.wait()
        return event

    def rest(self) -> Iterator[dict[str, Any]]:
        """Yield what it wrote before it ended."""
        self._reader.join(GOODBYE_S)
        while not self._events.empty():
            if event := self._events.get():
                yield event

    def stop(self) -> None:
        """Interrupt it as Ctrl-C does, and kill it where it does not end."""
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GOODBYE_S)
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def last_words(self) -> str:
        """Return the last line that it wrote to standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _adopt_orphans() -> None:
    """Have what a module leaves running become a child of this process, which can end it then."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_orphans() -> None:
    """Kill the children of this process that are left, and theirs, until there are none."""
    # No wait for a condition: each round kills, and waits for what it has killed.
    deadline = time.monotonic() + GOODBYE_S
    while (left := list(_children())) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            yield from map(int, (task / "children").read_text().split())


def _about(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.0f} h"
    )
