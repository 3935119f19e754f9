"""The trial of each command before the run: whether it works, how long it takes, and how it warms up.

Its figures are kept nowhere: they only size the run.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oscope.model.errors import OscopeError, UsageError
from oscope.probe.locate import find_probe
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Refusal, Sample
from oscope.statistics.warmup import find_warmup
from oscope.targets.affinity import Affinity
from oscope.targets.target import Local

TIME_S = 0.3
"""What the trial of a command takes, unless one run takes longer."""
MOST_RUNS = 20
WARMUP_TIME_S = 2.0
MOST_WARMUP_RUNS = 60
FEWEST_WARMUP_RUNS = 8
SILENCE_S = 60.0


@dataclass(frozen=True)
class Trial:
    """What was seen of a command."""

    duration_s: float
    """Median time of a run, after the first."""
    each_s: float
    """What a further run takes in all, with what is outside the clock."""
    warmup: int
    """Runs from the start of a process that take longer than the others; 1 where none do."""


class Stopwatch:
    """Starts what measures, and keeps how long that took in `seconds`."""

    def __init__(self, start: Callable[[Affinity], Probe]) -> None:
        self._start = start
        self.seconds = 0.0

    def __call__(self, affinity: Affinity) -> Probe:
        """Start it."""
        begin = time.monotonic()
        probe = self._start(affinity)
        self.seconds = time.monotonic() - begin
        return probe


def try_out(
    workload: str,
    params: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    *,
    find: bool,
    start: Callable[[Affinity], Probe],
    min_time_ns: int = 1,
    silence_s: float = SILENCE_S,
) -> tuple[Trial, ...]:
    """Try each command or function; `find` says whether enough to see how it warms up.

    `start` starts what measures them, which may be silent for `silence_s` beside a command's own limit.
    Raises OscopeError with the label of the first that fails.
    """
    with Affinity() as affinity, start(affinity) as probe:
        asker = _Asker(probe, workload, min_time_ns, silence_s)
        return tuple(_try(asker, each, label, find=find) for each, label in zip(params, labels, strict=True))


def run_once(workload: str, params: Mapping[str, Any], label: str) -> float:
    """Run a command once, and return how long it took in seconds; OscopeError with the label if it fails."""
    with Affinity() as affinity, Local(find_probe(), affinity).start() as probe:
        return _Asker(probe, workload, 1, SILENCE_S).runs(params, label, 1)[0].time_s


@dataclass(frozen=True)
class _Run:
    """A run of a command, or a repetition of a function."""

    started_s: float
    time_s: float


@dataclass
class _Asker:
    probe: Probe
    workload: str
    min_time_ns: int
    silence_s: float

    def runs(self, params: Mapping[str, Any], label: str, reps: int) -> list[_Run]:
        """Return `reps` runs, or repetitions of a function, in order."""
        # The start of a trivial program is measured in the run; a trial has no use for it.
        unneeded: dict[str, Any] = {"reference": []} if "reference" in params else {}
        request = Request(
            id=secrets.randbelow(2**30),
            workload=self.workload,
            params={**params, "warmup": 0, **unneeded},
            reps=reps,
            min_time_ns=self.min_time_ns,
        )
        found = []
        limit_s = self.silence_s + 8 * float(params.get("timeout", 0.0))
        for events in self.probe.run(request, silence_limit_s=limit_s):
            for event in events:
                if isinstance(event, Refusal):
                    kind = UsageError if event.kind == "request" else OscopeError
                    raise kind(f"{label}: {event.message}", remedy=event.remedy)
                if isinstance(event, Sample):
                    if event.failed is not None:
                        raise OscopeError(f"{label}: {event.failed}")
                    time_s = event.iterations * float(event.metrics["time_ns"] or 0.0) / 1e9
                    found.append(_Run(event.started_ns / 1e9, time_s))
        return found


def _try(asker: _Asker, params: Mapping[str, Any], label: str, *, find: bool) -> Trial:
    first = asker.runs(params, label, 1)[0].time_s
    allowed_s = WARMUP_TIME_S if find else TIME_S
    most = MOST_WARMUP_RUNS if find else MOST_RUNS
    reps = min(most, int(allowed_s / max(first, 1e-6)))
    if find:
        reps = max(reps, FEWEST_WARMUP_RUNS)
    runs = asker.runs(params, label, reps) if reps else []
    times = [first, *(run.time_s for run in runs)]
    duration_s = float(np.median(times[1:] or times))
    # From start to start: what a request takes beside its runs is allowed for once a turn, not once a run.
    each_s = (runs[-1].started_s - runs[0].started_s) / (len(runs) - 1) if len(runs) > 1 else duration_s
    return Trial(duration_s, each_s, _warmup(times) if find else 1)


def _warmup(times: Sequence[float]) -> int:
    found = find_warmup(np.array(times), np.zeros(len(times), dtype=np.int64))
    return found.repetitions if found is not None and found.change > 0 else 1
