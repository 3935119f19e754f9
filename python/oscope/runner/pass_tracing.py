"""Has a tracer watch the processes of a pass, and keeps what it found of each point."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from oscope.model.errors import OscopeError, ProbeError
from oscope.model.interruption import Interruption, raise_interrupt
from oscope.planning.schedule import Pass
from oscope.probe.wire import Done, Event, Sample
from oscope.runner import losses
from oscope.runner.attachment import Attachment
from oscope.runner.events import Happened, RunEvent, note
from oscope.runner.point_state import PointState
from oscope.runner.process_chain import ProcessChain
from oscope.trace.factor import UNTRACED, tracer_of
from oscope.trace.tracer import TraceUnavailable


class PassTracing:
    """The tracer of the pass under way, if it has one."""

    def __init__(self, path: Path, chain: ProcessChain) -> None:
        """`path` is the probe, whose marks are followed; `chain` has the processes."""
        self._chain = chain
        self._attachment = Attachment(path)

    @property
    def active(self) -> bool:
        """Whether a tracer is attached."""
        return self._attachment.tracing

    def attach(
        self, one: Pass, point: PointState, others: Sequence[PointState]
    ) -> Generator[RunEvent, None, bool]:
        """Have the tracer of the pass watch the process that takes it; False where it cannot.

        `others` are all points of the experiment, which are skipped where there is no such tracer.
        """
        if self._attachment.level != one.tracer:
            yield from self.detach()
        if self.active or one.tracer == UNTRACED:
            return not self._chain.interrupted
        room = len(others) * (point.experiment.blocks or 1)
        try:
            probe = yield from self._chain.process(point.experiment)
            if self._chain.interrupted:
                return False
            # Attaching takes seconds, and nothing is traced yet that would be lost.
            with Interruption(raise_interrupt):
                program = point.experiment.program
                marked = None if program is None else Path(program.command[0])
                self._attachment.attach(one.tracer, probe.pid, room, marked)
        except KeyboardInterrupt:
            self._chain.interrupt()
        except TraceUnavailable as error:
            for other in others:
                if tracer_of(other.factors) == one.tracer and not other.skipped:
                    yield losses.skip(other, error.message, error.remedy)
        except ProbeError:
            if not self._chain.interrupted:
                raise
        except OscopeError as error:
            yield from losses.fail(point, one.block, error)
        else:
            # A signal may have come meanwhile.
            return not self._chain.interrupted
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

    def end_pass(self, experiment_blocks: int | None) -> Iterator[RunEvent]:
        """Detach a tracer that watches one process only."""
        # Without a number of blocks, none knows how much room a tracer needs.
        if not self._attachment.lasts or experiment_blocks is None:
            yield from self.detach()

    def detach(self) -> Iterator[RunEvent]:
        """Detach the tracer, if there is one, and keep what it found."""
        try:
            found = self._attachment.detach()
        except OscopeError as error:
            yield note(f"what was traced is lost: {error}", failure=True)
            return
        for point, reading, warning in found:
            if reading is not None:
                yield Happened("trace", reading, point)
            if warning is not None:
                yield from note_once(warning, point)

    def lose_process(self) -> None:
        """Forget what a tracer found of a process that died, unless it outlasts it."""
        if not self._attachment.lasts:
            self._attachment.kill()

    def kill(self) -> None:
        """Detach at once."""
        self._attachment.kill()


def note_once(text: str, point: PointState) -> Iterator[RunEvent]:
    """Yield a note on a point that does not have it yet."""
    if text not in point.notes:
        yield note(text, point)
