"""One process of the user's own workload program: it is asked like the probe, and its answers are checked."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import orjson

from oscope.model.errors import BrokenProtocolError, ProbeError, SilentProgramError
from oscope.model.program import Program
from oscope.probe.own_program import DOCUMENT, START_REMEDY
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Done, Event, Sample

CLOCK: Mapping[str, Any] = {"kind": "monotonic_raw", "hz": 1e9}
"""The clock of a program that names none: `raw` is in nanoseconds."""
_SHOWN = 3
_FIXES = (
    (
        "broke the protocol",
        "write one event of JSON a line on standard output, and all else on standard error",
    ),
    (
        "was silent",
        "flush standard output after each line, or give the workload more patience in oscope.toml",
    ),
    ("did not greet first", 'write the line {"event": "hello", ...} once, before any request is read'),
    ("greeted twice", "write hello once, when the process starts"),
    ("answered request", 'write into each event the "id" of the request that it answers, as "request"'),
    ("spoke on", "write nothing after done until the next request comes"),
    ("wrote a line without end", "end each event with a line feed, and keep it below 16 MiB"),
    ("takes no more requests", "read standard input until it ends"),
    ("gave a sample", "give each metric that describe names (null where there is no value), and no others"),
    ("gave", "take as many repetitions as the request says in reps; one that went wrong is a failed sample"),
    ("did not end", "end when standard input ends, and on SIGTERM"),
)
"""How what a program did begins, and how to fix it."""


class WorkloadProcess(Probe):
    """A running workload program."""

    schema_remedy = f"write the schema as in {DOCUMENT}"
    start_remedy = START_REMEDY
    busy_patience = 1
    """Its author says how long it may be silent."""

    def __init__(
        self,
        program: Program,
        metrics: Mapping[str, frozenset[str]],
        *,
        begun: Callable[[Probe], None] | None = None,
    ) -> None:
        """Start `program` and wait for its greeting. Raises ProbeError.

        `metrics` are those that each of its workloads declares; `begun` is as of Probe.
        """
        self.subject = f"the workload program {program.name}"
        self._metrics = metrics
        self._program = program
        self.death_remedy = self._by_hand({"id": 1, "workload": next(iter(metrics))})
        super().__init__([*program.command, "run"], begun=begun, folder=program.folder)

    def _by_hand(self, request: Mapping[str, Any]) -> str:
        line = shlex.quote(orjson.dumps(request).decode())
        return f"see what it does by hand: echo {line} | {self._program.name} run"

    def give_up(self, what: str, doing: str = "") -> NoReturn:
        """Kill it and raise: BrokenProtocolError, but another ProbeError where it was slow."""
        try:
            super().give_up(what, doing)
        except ProbeError as error:
            if what.startswith("was silent"):
                raise SilentProgramError(error.message, remedy=error.remedy) from None
            if what.startswith("did not end"):
                raise
            raise BrokenProtocolError(error.message, remedy=error.remedy) from None

    def remedy_for(self, what: str) -> str:
        """Return how to fix that the program did `what`."""
        fix = next((fix for begin, fix in _FIXES if what.startswith(begin)), "")
        return f"{fix} ({DOCUMENT})" if fix else f"{DOCUMENT} says what it has to answer"

    def run(self, request: Request, *, silence_limit_s: float) -> Iterator[tuple[Event, ...]]:
        """Do what `Probe.run` does, and check that the samples are what the description promises."""
        asked = {"id": 1, "workload": request.workload, "params": dict(request.params)}
        self.death_remedy = self._by_hand(asked)
        count = 0
        for events in super().run(request, silence_limit_s=silence_limit_s):
            for event in events:
                if isinstance(event, Sample):
                    count += 1
                    self._check_sample(event, request)
                    if count > request.reps:
                        self.give_up(f"gave {count} samples where {request.reps} were asked for")
                elif isinstance(event, Done):
                    self._check_count(event, count, request)
            yield events

    def _check_sample(self, sample: Sample, request: Request) -> None:
        if sample.iterations < 1:
            self.give_up(f"broke the protocol (iterations is {sample.iterations}, and has to be 1 or more)")
        if sample.failed is not None:
            return
        declared = self._metrics[request.workload]
        if missing := sorted(declared - sample.metrics.keys()):
            self._give_up_metrics(f"gave a sample of {request.workload} without the metric", missing)
        if unknown := sorted(sample.metrics.keys() - declared):
            self._give_up_metrics(f"gave a sample of {request.workload} with the undescribed metric", unknown)

    def _give_up_metrics(self, what: str, names: list[str]) -> None:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        self.give_up(f"{what} {', '.join(names[:_SHOWN])}{more}")

    def _check_count(self, done: Done, count: int, request: Request) -> None:
        if done.samples != count:
            self.give_up(f"gave {count} of the {done.samples} samples that it says in done")
        if count < request.reps and not done.interrupted:
            self.give_up(f"gave {count} of the {request.reps} samples asked for")
