"""A probe process that reads or writes files for one command, and ends in good order on a signal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from oscope.errors import OscopeError, ProbeError, UsageError
from oscope.experiment import Level
from oscope.interruption import Interruption
from oscope.locate import find_probe
from oscope.probe import Probe, Request
from oscope.wire import Event, Note, Refusal, Sample

ABOUT_THE_FILE = ("file", "existing", "directory")
"""Parameters whose refusal tells of the file, not of the request: nothing was mistyped."""


@dataclass(frozen=True)
class Transfer:
    """What reading or writing a file once gave."""

    mib_per_s: float
    time_s: float
    bytes: int
    calls: int
    """System calls that read or wrote."""
    xor: int | None = None
    """XOR of the little-endian 32-bit words, where it was asked for."""

    @classmethod
    def of(cls, metrics: Mapping[str, float | None]) -> Transfer:
        """Read the metrics of a sample; ProbeError for one that is not there."""
        missing = [name for name in ("throughput", "time_s", "bytes", "calls") if metrics.get(name) is None]
        if missing:
            raise ProbeError(f"the probe did not measure {', '.join(missing)}")
        found: Mapping[str, Any] = metrics
        xor = found.get("xor")
        return cls(
            mib_per_s=found["throughput"],
            time_s=found["time_s"],
            bytes=int(found["bytes"]),
            calls=int(found["calls"]),
            xor=None if xor is None else int(xor),
        )

    def to_object(self) -> dict[str, float | int | str]:
        """Return it as a JSON object; the XOR as 8 hexadecimal digits."""
        found: dict[str, float | int | str] = {
            "mib_per_s": self.mib_per_s,
            "time_s": self.time_s,
            "bytes": self.bytes,
            "calls": self.calls,
        }
        return found if self.xor is None else found | {"xor": self.xor_text}

    @property
    def xor_text(self) -> str:
        """The XOR as 8 lower-case hexadecimal digits; empty where there is none."""
        return "" if self.xor is None else f"{self.xor:08x}"


class Session:
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

    def __enter__(self) -> Session:
        """Start the probe. Raises ProbeError."""
        self._signals.__enter__()
        try:
            self._probe = Probe(find_probe())
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

    def measure(self, workload: str, params: Mapping[str, Level], *, limit_s: float) -> Transfer:
        """Have the probe do `workload` once, not pinned to a CPU, and return what it measured.

        Raises UsageError where the request is wrong, OscopeError where the file or the machine cannot or it
        went wrong, ProbeError where the probe is lost or silent for longer than `limit_s`.
        """
        self.check()
        self._requests += 1
        request = Request(self._requests, workload, params, cpu=-1)
        try:
            answers = [
                event
                for events in self._running().run(request, silence_limit_s=limit_s)
                for event in self._without_notes(events)
            ]
        except ProbeError:
            # A probe that was told to end may have nothing better to say.
            self.check()
            raise
        if not any(isinstance(event, Sample) for event in answers):
            self.check()
        # What was done before the signal came is a result: a file that was written is there.
        return _judge(answers, workload)

    def _without_notes(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the other events; notes are told as they come."""
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


def _judge(answers: Iterable[Event], workload: str) -> Transfer:
    """Return what the one sample among `answers` says, or raise what the probe refused or failed at."""
    for event in answers:
        match event:
            case Refusal():
                raise _error(event)
            case Sample(failed=None):
                return Transfer.of(event.metrics)
            case Sample():
                raise OscopeError(event.failed or "the probe gave no reason")
    raise ProbeError(f"the probe answered {workload} without a sample")


def _error(refusal: Refusal) -> OscopeError:
    """Return the error that `refusal` means, with options in place of the probe's parameters."""
    message = _as_options(refusal.message)
    remedy = None if refusal.remedy is None else _as_options(refusal.remedy)
    if refusal.kind != "request" or refusal.field is None:
        return OscopeError(message, remedy=remedy)
    message = message.removeprefix(f"{refusal.field}: ")
    if refusal.field in ABOUT_THE_FILE:
        return OscopeError(message, remedy=remedy)
    return UsageError(f"--{refusal.field.replace('_', '-')}: {message}", remedy=remedy)


def _as_options(text: str) -> str:
    """Reword what the probe says of its parameters: `--set engine=read` is `--engine read` here."""
    return re.sub(r"--set (\w+)=", r"--\1 ", text).replace("existing=replace", "--overwrite")
