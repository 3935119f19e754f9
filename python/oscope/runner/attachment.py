"""The tracer under way in a run: when it is attached and detached, and which point its readings belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError
from oscope.runner.point_state import PointState
from oscope.trace import tracers
from oscope.trace.factor import UNTRACED
from oscope.trace.tracer import Tracer, Tracing

Found = tuple[PointState, Mapping[str, Any] | None, str | None]
"""A point, what was found there, and what is to be reported about it."""


class Attachment:
    """At most one tracer at a time.

    One that follows marks stays attached from process to process, until another is wanted; any other is
    attached to each process anew.
    """

    def __init__(self, probe: Path) -> None:
        """`probe` is the program whose marks are followed."""
        self._probe = probe
        self._tracer: Tracer | None = None
        self._expected: dict[int, tuple[PointState, dict[str, Any]]] = {}
        self._number = 0
        self.level = UNTRACED
        """Level of the factor `tracer` that holds now."""

    @property
    def tracing(self) -> bool:
        """Whether a tracer is attached."""
        return self._tracer is not None

    @property
    def lasts(self) -> bool:
        """Whether the tracer, if there is one, outlasts the process that it watches."""
        return self._tracer is None or self._tracer.follows_marks

    def attach(self, level: str, pid: int, room: int, program: Path | None = None) -> None:
        """Have the tracer of `level` watch the process `pid`; `room`: how many requests will come.

        `program` is the one whose marks are followed, where it is not the probe.
        Raises TraceUnavailable where this machine cannot, OscopeError where the tracer dies.
        """
        if self._tracer is not None or level == UNTRACED:
            return

        tracer = tracers.make(level, program or self._probe, turns=room)
        if tracer is None:
            return
        try:
            tracer.start(pid)
        except BaseException:
            tracer.kill()
            raise
        self._tracer, self.level = tracer, level

    def lost(self) -> list[PointState] | None:
        """Return the points of which nothing is known since the tracer has died; None while it lives."""
        if self._tracer is None or self._tracer.alive():
            return None
        points = [point for point, _ in self._expected.values()]
        self.kill()
        return list({id(point): point for point in points}.values())

    def expect(self, request: int, point: PointState, about: dict[str, Any]) -> None:
        """Note that what is found of `request` belongs to `point`."""
        self._expected[request] = (point, about)

    def detach(self) -> list[Found]:
        """Detach the tracer, if there is one, and return what it found, by point."""
        tracer, expected = self._tracer, self._expected
        self._tracer, self._expected, self.level = None, {}, UNTRACED
        if tracer is None:
            return []
        self._number += 1
        try:
            found = tracer.stop()
        except OscopeError:
            tracer.kill()
            raise
        return list(_by_point(tracer, found, expected, self._number))

    def kill(self) -> None:
        """Detach at once, and forget what was found."""
        tracer = self._tracer
        self._tracer, self._expected, self.level = None, {}, UNTRACED
        if tracer is not None:
            tracer.kill()


def _by_point(
    tracer: Tracer,
    found: Tracing,
    expected: Mapping[int, tuple[PointState, dict[str, Any]]],
    number: int,
) -> Iterator[Found]:
    readings = found.readings
    if not tracer.follows_marks:
        # It watched the process as a whole: its figures are a point's only where there was but one.
        if len(expected) > 1:
            return
        readings = {token: reading for token in expected for reading in readings.values()}
    lost = None
    if found.losses.any:
        lost = f"the tracer lost {found.losses.describe()}: its counts are lower bounds"
    for token, (point, about) in expected.items():
        if token in readings:
            about = {**about, "attachment": number, "losses": found.losses.to_object()}
            yield point, {**about, **readings[token]}, lost
        else:
            yield point, None, f"the tracer {tracer.name} saw nothing of it"
