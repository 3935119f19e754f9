"""The turns of a fleet's hosts that wait: by round, then in the round's own random order of the hosts."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping

import numpy as np

from oscope.model.errors import UsageError
from oscope.runner.fleet.turn import Turn
from oscope.storage.fleets import FleetEntry, FleetRun

_FIRST_PAUSE_S = 2.0
"""Before a host is tried again; doubled each time."""
_MOST_PAUSE_S = 30.0


def check_labels(labels: Iterable[Mapping[str, str]], label: str) -> None:
    """Raise UsageError where no host, of those whose labels are given, has this one."""
    if not any(label in own for own in labels):
        raise UsageError(
            f"no host has the label {label}",
            remedy=f'write labels = {{ {label} = "..." }} for each host in the fleet\'s file',
        )


class TurnQueue:
    """Turns that wait. Of a round, those that failed come last."""

    def __init__(self, entry: FleetEntry, place: str, seed: int, apart: str | None = None) -> None:
        """Hold the turns that the fleet's runs miss.

        Two hosts with the same value of the label `apart` are never measured at the same time.
        """
        self._entry = entry
        self._place = place
        self._apart = apart
        self.stop = f"stop-{entry.id}-{secrets.token_hex(4)}"
        count = len(entry.runs)
        self._numbers = {run.run_id: number for number, run in enumerate(entry.runs)}
        self._order = [
            np.random.default_rng([seed, number]).permutation(count).tolist()
            for number in range(entry.rounds)
        ]
        self._waiting: dict[str, tuple[int, int, float, FleetRun]] = {}
        for run in entry.runs:
            self.add(run, run.rounds_done + 1)

    def add(self, run: FleetRun, number: int, tries: int = 0) -> None:
        """Have a host take its turn in a round, if there is such a round."""
        if number > self._entry.rounds:
            return
        place = self._order[number - 1][self._numbers[run.run_id]]
        pause = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1)) if tries else 0.0
        at = time.monotonic() + pause
        self._waiting[run.run_id] = (number, place + tries * len(self._entry.runs), at, run)

    def next(self, running: Iterable[FleetRun] = ()) -> tuple[FleetRun, Turn] | None:
        """Take the first turn that need not wait any longer, beside those that are `running`."""
        now = time.monotonic()
        busy = {self._rack(run) for run in running} - {None}
        ready = [
            each for each in self._waiting.values() if each[2] <= now and self._rack(each[3]) not in busy
        ]
        if not ready:
            return None
        number, _, _, run = min(ready, key=lambda each: each[:2])
        del self._waiting[run.run_id]
        return run, Turn(self._place, run.run_id, run.host, number, self._entry.rounds, self.stop)

    def runs(self) -> list[FleetRun]:
        """Return the hosts whose turns wait."""
        return [each[3] for each in self._waiting.values()]

    def __bool__(self) -> bool:
        """Say whether a turn waits."""
        return bool(self._waiting)

    def _rack(self, run: FleetRun) -> str | None:
        return None if self._apart is None else run.labels.get(self._apart)
