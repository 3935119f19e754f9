"""What the probe is asked for the samples of a point, and how long it may be silent over that."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.planning.plan import counts_instructions
from oscope.probe.process import Request
from oscope.runner.point_state import PointState

PATIENCE_S = 60.0
"""How long a probe may prepare a point without a word, beyond the time that the point itself asks for."""


def make_request(
    number: int, point: PointState, reps: int, cpu: int | None, inject: Mapping[str, object] | None
) -> Request:
    """Return the request for so many samples more of a point.

    They are pinned to `cpu`; None: to the one that the probe takes. `inject` goes into the measured region.
    """
    return Request(
        id=number,
        workload=point.experiment.workload.name,
        params=point.params,
        reps=reps,
        # Where instructions are counted the probe decides alike each time, and boots do the same.
        iterations=None if counts_instructions(point.experiment) else point.iterations,
        min_time_ns=point.experiment.min_time_ns,
        cpu=cpu,
        inject=inject,
    )


def silence_limit_s(point: PointState, request: Request) -> float:
    """Return how long the probe may be silent: time to calibrate, warm up and repeat, and more."""
    durations = sum(
        float(point.factors.get(parameter.name, parameter.default))
        for parameter in point.experiment.workload.parameters
        if parameter.type == "duration"
    )
    if point.experiment.params:
        # The factors are no parameters of the workload: the limit of a repetition is among what it is asked.
        durations += float(point.params.get("timeout", 0.0))
    # There the probe keeps what it has to say to the end of the request: writing it would be counted.
    together = request.reps if counts_instructions(point.experiment) else 1
    return PATIENCE_S + 8 * together * (durations + request.min_time_ns / 1e9)
