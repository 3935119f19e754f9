"""Reports the progress of all sides to one listener, as if they were one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oscope.planning.plan import Plan
from oscope.runner.progress import Listener, Progress


class JointListener:
    """What all sides report."""

    def __init__(self, listener: Listener, plans: Sequence[Plan]) -> None:
        self._listener = listener
        self._plan = plans[0]
        self._finished = [0] * len(plans)
        self._totals = [plan.total for plan in plans]

    def of(self, number: int) -> Listener:
        """Return the listener of one side."""
        return _SideListener(self, number)

    def begin(self, number: int, run_id: str) -> None:
        """Hear of the run of a side; the first one's name stands for all."""
        if number == 0:
            self._listener.begin(run_id, self._plan)

    def progress(self, number: int, progress: Progress) -> None:
        """Hear how far a side is."""
        self._finished[number] = progress.finished
        # It grows by what is repeated.
        self._totals[number] = progress.total or self._totals[number]
        # None where a budget ends it.
        total = None if None in self._totals else sum(filter(None, self._totals))
        self._listener.progress(replace(progress, finished=sum(self._finished), total=total, again=0))

    def note(self, text: str) -> None:
        """Hear what a person should know."""
        self._listener.note(text)


class _SideListener:
    """The listener of one side."""

    def __init__(self, joint: JointListener, number: int) -> None:
        self._joint = joint
        self._number = number

    def begin(self, run_id: str, plan: Plan) -> None:
        """Pass it on, with the number of the side."""
        del plan
        self._joint.begin(self._number, run_id)

    def progress(self, progress: Progress) -> None:
        """Pass it on, with the number of the side."""
        self._joint.progress(self._number, progress)

    def inspecting(self, name: str) -> None:
        """Nothing is inspected side by side."""

    def note(self, text: str) -> None:
        """Pass it on."""
        self._joint.note(text)

    def remark(self, text: str) -> None:
        """Pass it on as any other note."""
        self._joint.note(text)
