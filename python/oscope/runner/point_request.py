"""What the probe is asked for the samples of a point, and how long it may be silent over that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oscope.model.factors import Level
from oscope.planning.plan import counts_instructions
from oscope.probe.process import SWAP_S, Request, uses_swap
from oscope.runner.point_state import PointState

SLOW_B_PER_S = 20e6
"""A slow disk, whose process sleeps until it has written everything (fdatasync(2))."""
_NO_AMOUNTS = frozenset(
    {"block_size", "buffer", "rate", "stride", "window", "limit", "swap_size", "resident"}
)
"""Parameters in bytes, or bytes a second, that say nothing about how many are moved."""
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
    parameters = point.experiment.workload.parameters
    values = {each.name: point.factors.get(each.name, each.default) for each in parameters}
    durations = sum(float(values[each.name]) for each in parameters if each.type == "duration")
    if point.experiment.params:
        # The factors are no parameters of the workload: the limit of a repetition is among what it is asked.
        durations += float(point.params.get("timeout", 0.0))
    # There the probe keeps what it has to say to the end of the request: writing it would be counted.
    together = request.reps if counts_instructions(point.experiment) else 1
    sizes = [each.name for each in parameters if each.type == "bytes" and each.name not in _NO_AMOUNTS]
    moving = _moving_s(values, sizes)
    waiting = SWAP_S if uses_swap(request) else 0.0
    return PATIENCE_S + waiting + together * (8 * (durations + request.min_time_ns / 1e9) + moving)


def _moving_s(values: Mapping[str, Level], sizes: Iterable[str]) -> float:
    """Return how long one repetition may take to move the bytes that it is asked for, on slow devices."""
    whole = sum(float(values[name]) for name in sizes) * max(1.0, float(values.get("files", 1)))
    rate = float(values.get("rate", 0)) or SLOW_B_PER_S
    # Once to make what is read, once to move it.
    return 2 * whole / min(rate, SLOW_B_PER_S)
