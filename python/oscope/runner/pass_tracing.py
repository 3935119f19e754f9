"""Has a tracer watch the processes of a pass, and keeps what it found of each point."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

from oscope.model.errors import OscopeError, ProbeError
from oscope.model.interruption import Interruption, raise_interrupt
from oscope.planning.schedule import Pass
from oscope.probe.wire import Done, Event, Sample
from oscope.runner import losses
from oscope.runner.attachment import Attachment
from oscope.runner.point_state import PointState
from oscope.runner.run_events import Events, RecordedEvent, RunEvent, note, note_once
from oscope.trace.factor import tracer_of
from oscope.trace.tracer import TraceUnavailable


class PassTracing:
    """The tracer of the pass under way, if it has one."""

    def __init__(self, path: Path) -> None:
        """`path` is the probe, whose marks are followed."""
        self._attachment = Attachment(path)

    @property
    def active(self) -> bool:
        """Whether a tracer is attached."""
        return self._attachment.tracing

    def begin_pass(self, one: Pass) -> Events:
        """Detach a tracer that is not the one of the pass."""
        if self._attachment.level != one.tracer:
            yield from self.detach()

    def attach(
        self, one: Pass, point: PointState, others: Sequence[PointState], pid: int
    ) -> Generator[RunEvent, None, bool]:
        """Have the tracer of the pass watch the process `pid`, which takes it; False where it cannot.

        `others` are all points of the experiment, which are skipped where there is no such tracer. Raises
        KeyboardInterrupt after a signal, ProbeError where the process has died.
        """
        room = len(others) * (point.experiment.blocks or 1)
        program = point.experiment.program
        marked = None if program is None else Path(program.command[0])
        try:
            # Attaching takes seconds, and nothing is traced yet that would be lost.
            with Interruption(raise_interrupt):
                self._attachment.attach(one.tracer, pid, room, marked)
        except TraceUnavailable as error:
            traced = [other for other in others if tracer_of(other.factors) == one.tracer]
            yield from losses.skip_all(traced, error.message, error.remedy)
        except ProbeError:
            raise
        except OscopeError as error:
            yield from losses.fail(point, one.block, error)
        else:
            return True
        return False

    def watch(
        self, point: PointState, block: int, request: int, answers: Sequence[Sequence[Event]]
    ) -> Generator[RunEvent, None, bool]:
        """Note that what is found of `request` belongs to a point; False where the tracer has died.

        The answers are believed only once it is known that the tracer was there to the end.
        """
        lost = self._attachment.lost()
        if lost is not None:
            for earlier in lost:
                yield from note_once("what was traced of it before the tracer died is lost", earlier)
            died = OscopeError("the tracer died while it watched", remedy="run it again")
            yield from losses.fail(point, block, died)
            return False
        events = [event for together in answers for event in together]
        samples = [event for event in events if isinstance(event, Sample)]
        whole = not any(sample.failed for sample in samples) and any(
            isinstance(event, Done) and not event.interrupted for event in events
        )
        if samples and whole:
            self._attachment.expect(request, point, {"block": block, "reps": len(samples)})
        elif samples:
            yield from note_once("what was traced in a turn that was not finished is left out", point)
        return True

    def end_pass(self, experiment_blocks: int | None) -> Events:
        """Detach a tracer that watches one process only."""
        # Without a number of blocks, none knows how much room a tracer needs.
        if not self._attachment.lasts or experiment_blocks is None:
            yield from self.detach()

    def detach(self) -> Events:
        """Detach the tracer, if there is one, and keep what it found."""
        try:
            found = self._attachment.detach()
        except OscopeError as error:
            yield note(f"what was traced is lost: {error}", failure=True)
            return
        for point, reading, warning in found:
            if reading is not None:
                yield RecordedEvent("trace", reading, point)
            if warning is not None:
                yield from note_once(warning, point)

    def lose_process(self) -> None:
        """Forget what a tracer found of a process that died, unless it outlasts it."""
        if not self._attachment.lasts:
            self._attachment.kill()

    def kill(self) -> None:
        """Detach at once."""
        self._attachment.kill()
