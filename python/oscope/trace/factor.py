"""The factor `tracer`, which the laboratory sets around the probe: its levels, and how kinds make one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from oscope.model.errors import UsageError
from oscope.model.factors import Level
from oscope.probe.catalogue import Parameter

UNTRACED = "none"
PROGRAMS = ("bpf-count", "bpf-histogram", "bpf-full", "perf-trace", "strace-count", "strace")
"""Tracers that are compared with each other."""
KINDS = ("counts", "syscalls", "sched", "faults")
"""What bpftrace can be asked for; any of them together are a level, joined by `+` in this order."""
_TOGETHER = tuple(
    "+".join(kinds) for size in range(1, len(KINDS) + 1) for kinds in itertools.combinations(KINDS, size)
)
LEVELS = (UNTRACED, *PROGRAMS, *_TOGETHER)

TRACER = Parameter(
    name="tracer",
    type="choice",
    default=UNTRACED,
    choices=LEVELS,
    doc="What watches the probe while it measures: nothing, a program, or kinds of bpftrace programs.",
)


def tracer_of(factors: Mapping[str, Level]) -> str:
    """Return the level of `tracer` at a point; `none` where it is no factor."""
    return str(factors.get(TRACER.name, UNTRACED))


def parse_kinds(texts: Sequence[str]) -> str:
    """Return the level that these kinds make together; UsageError with the nearest for an unknown one."""
    for text in texts:
        if text not in KINDS:
            near = get_close_matches(text, KINDS, n=1, cutoff=0.5)
            remedy = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(KINDS)}"
            raise UsageError(f"{text!r} cannot be traced", remedy=remedy)
    return "+".join(kind for kind in KINDS if kind in texts)
