"""A probe process that does a few things for one command, and ends in good order on a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self

from oscope.model.errors import OscopeError, ProbeError
from oscope.model.factors import Level
from oscope.model.interruption import Interruption
from oscope.probe.locate import find_probe
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Event, Note, Refusal, Sample


class RefusedError(OscopeError):
    """The probe refused a request: in its words, which the command puts into those of its own options."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message, remedy=refusal.remedy)
        self.refusal = refusal


class ProbeSession:
    """One probe process, from entering to leaving.

    While entered, the first SIGINT or SIGTERM has the probe give up what it does and undo what it made; what
    comes next then raises KeyboardInterrupt.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        """`note` hears what the probe has to tell, a line each, as it comes."""
        self._note = note
        self._probe: Probe | None = None
        self._requests = 0
        self._interrupted = False
        self._signals = Interruption(self._interrupt)

    def __enter__(self) -> Self:
        """Start the probe. Raises ProbeError."""
        self._signals.__enter__()
        try:
            self._probe = Probe([find_probe(), "run"])
        except BaseException:
            self._signals.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the probe."""
        try:
            if self._probe is not None:
                self._probe.close()
        finally:
            self._signals.__exit__()

    @property
    def pid(self) -> int:
        """The probe's process id."""
        return self._running().pid

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal came: for work between the requests."""
        if self._interrupted:
            raise KeyboardInterrupt

    def measure(
        self, workload: str, params: Mapping[str, Level], *, limit_s: float, warmup: int | None = None
    ) -> Sample:
        """Have the probe do `workload` once, not pinned to a CPU, and return what it measured.

        `warmup` repetitions go before, unreported; by default as many as the workload wants.

        Raises RefusedError where the probe refuses or gives up the request, OscopeError where the repetition
        went wrong, ProbeError where the probe is lost or silent for longer than `limit_s`.
        """
        self.check()
        self._requests += 1
        request = Request(self._requests, workload, params, warmup=warmup, cpu=-1)
        try:
            answers = [
                event
                for events in self._running().run(request, silence_limit_s=limit_s)
                for event in self._without_notes(events)
            ]
        except ProbeError:
            # A probe that was asked to end may have nothing better to say.
            self.check()
            raise
        if not any(isinstance(event, Sample) for event in answers):
            self.check()
        # What was done before the signal came is a result: a file that was written is there.
        return _judge(answers, workload)

    def _without_notes(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the other events; notes are reported as they come."""
        for event in events:
            if isinstance(event, Note):
                self._note(event.text)
            else:
                yield event

    def _running(self) -> Probe:
        if self._probe is None:
            raise RuntimeError("the session is not entered")
        return self._probe

    def _interrupt(self) -> None:
        self._interrupted = True
        if self._probe is not None:
            self._probe.terminate()


def _judge(answers: Iterable[Event], workload: str) -> Sample:
    """Return the one sample among `answers`, or raise what the probe refused or failed at."""
    for event in answers:
        match event:
            case Refusal():
                raise RefusedError(event)
            case Sample(failed=None):
                return event
            case Sample():
                raise OscopeError(event.failed or "the probe gave no reason")
    raise ProbeError(f"the probe answered {workload} without a sample")
