"""What a probe's answers come to: samples, notes, refusals, and the loop count of a point."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.probe.wire import Done, Event, Note, Refusal, Sample
from oscope.runner import losses
from oscope.runner.point_state import PointState
from oscope.runner.run_events import Events, RecordedEvent, note_once
from oscope.runner.run_state import RunState
from oscope.runner.stop_request import StopRequest
from oscope.targets.target import Target


def events_of(
    answers: Sequence[tuple[Event, ...]],
    point: PointState,
    block: int,
    state: RunState,
    target: Target,
    stop: StopRequest,
) -> Events:
    """Yield what the answers of a probe at `target` come to; UsageError where it refused the request."""
    workload = point.experiment.workload.name
    for events in answers:
        samples = [target.translate(event, workload) for event in events if isinstance(event, Sample)]
        if samples:
            yield state.samples_taken(point, block, samples)
        for event in events:
            if isinstance(event, Note):
                yield from note_once(event.text, point)
            # A program that was ended over the signal fails; the resumed run asks again.
            elif isinstance(event, Refusal) and not stop.asked:
                yield from losses.refuse(point, block, event)
            elif isinstance(event, Done) and not event.interrupted:
                yield from keep_iterations(point, event.iterations)


def keep_iterations(point: PointState, iterations: int | None) -> Events:
    """Have every block run the same loop, so that its overhead is the same in each."""
    if point.iterations is None and iterations is not None:
        yield RecordedEvent("iterations", iterations, point)
