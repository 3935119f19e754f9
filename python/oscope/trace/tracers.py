"""Makes the tracer of a level of the factor `tracer`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from oscope.model.errors import UsageError
from oscope.trace.bpf import BpfTracer, Room
from oscope.trace.factor import KINDS, LEVELS, UNTRACED
from oscope.trace.perf import PerfTracer
from oscope.trace.strace import LEVELS as STRACE_LEVELS
from oscope.trace.strace import StraceTracer
from oscope.trace.tracer import Tracer

_BPF: Mapping[str, tuple[str, ...]] = {
    "bpf-count": ("counts",),
    "bpf-histogram": ("syscalls",),
    "bpf-full": ("events",),
}


def make(level: str, probe: Path, *, turns: int) -> Tracer | None:
    """Return the tracer of `level`, not started; None for `none`.

    `probe` is the program whose marks are followed, `turns` the number of tokens to make room for. Raises
    UsageError for a level that is not in LEVELS.
    """
    if level not in LEVELS:
        raise UsageError(f"{level!r} is no tracer", remedy=f"there is {', '.join(LEVELS)}")
    if level == UNTRACED:
        return None
    if level in STRACE_LEVELS:
        return StraceTracer(level)
    if level == "perf-trace":
        return PerfTracer()
    kinds = _BPF.get(level) or tuple(kind for kind in KINDS if kind in level.split("+"))
    return BpfTracer(level, kinds, probe, Room.for_turns(turns))
