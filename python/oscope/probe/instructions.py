"""What the instructions clock makes of a workload: counts of instructions in the place of times.

Under QEMU's `-icount shift=0,sleep=off` a guest's clock advances by one nanosecond with each instruction that
its only CPU executes, and jumps over the time in which the CPU would be idle. So a time that the probe reads
is a count of instructions only as far as the CPU was busy; whoever was running is counted. Three kinds of
metrics follow:

- what the probe's clock read is translated, and its text is about idle time;
- CPU time is the scheduler's account of the same clock: translated, free of idle time and of other threads,
  and in steps of a microsecond, here `CPU_TIME_STEP` instructions;
- times that are mere waiting, and the split of CPU time into user and system time, which samples at ticks,
  count nothing and are dropped, as are cycles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from oscope.model.clocks import CPU_TIME, CPU_TIME_STEP, PER, UNIT
from oscope.probe.catalogue import Metric, Workload

if TYPE_CHECKING:
    from oscope.probe.wire import Sample

_SPLIT = frozenset(("utime", "stime", "user", "system"))
_WAITING = frozenset(("wait",))
_SCALES: Mapping[str, float] = {"ns": 1.0, "s": 1e9}
_EXACT_DIGITS = 15
"""Digits that a double surely holds: a count that went through seconds comes out whole again."""

_IDLE = " Counted is what the CPU executed meanwhile, and idle time as one a ns."
_ACCOUNT = (
    " By the scheduler's account: without idle time and other threads, in steps of "
    f"up to {CPU_TIME_STEP} and not to the instruction."
)
_MODEL = (
    "The clock counts executed instructions: raw and correction are instructions; durations in what follows "
    "are those of a wall clock. "
)

_WORDING = (
    (re.compile(r"^CPU time of"), "Instructions of"),
    (re.compile(r"^CPU time\b"), "Instructions"),
    (re.compile(r"^Time (of|that|in|from)\b"), r"Instructions \1"),
    (re.compile(r"^From\b"), "Instructions from"),
    (re.compile(r"^How long ((?:\w+ )+)took"), r"Instructions that \1took"),
    (re.compile(r"\bin a second\b"), "in 10^9 instructions"),
    (re.compile(r"\bthe whole time\b"), "all instructions"),
    (re.compile(r"^The shortest"), "The fewest"),
    (re.compile(r"^The longest"), "The most"),
)


def translate_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that these metrics have under the instructions clock, without those that it drops.

    `time_ns` and `time_s` become `instructions`, other NAME_ns and NAME_s NAME_instructions; rates keep
    theirs.
    """
    return tuple(dict.fromkeys(new for name in names if (new := _name(name)) is not None))


def describe_changes(workload: Workload) -> str:
    """Return in words which metrics `workload` has under the instructions clock, and which it has not."""
    renamed: dict[str, list[str]] = {}
    rates, dropped = [], []
    for metric in workload.metrics:
        found = _metric(metric)
        if found is None:
            dropped.append(metric.name)
        elif found.name != metric.name:
            renamed.setdefault(found.name, []).append(metric.name)
        elif found.unit != metric.unit:
            rates.append(f"{found.name} [{found.unit}]")
    parts = [f"{new} for {' and '.join(old)}" for new, old in renamed.items()] + rates
    if dropped:
        parts.append(f"without {', '.join(dropped)}")
    return ", ".join(parts)


def translate_workload(workload: Workload) -> Workload:
    """Return `workload` with the metrics, units and texts that it has under the instructions clock."""
    metrics = tuple(found for metric in workload.metrics if (found := _metric(metric)) is not None)
    return replace(workload, metrics=metrics, timing_model=_timing_model(workload))


def translate_sample(sample: Sample, workload: Workload) -> Sample:
    """Return `sample` with the metrics of the translated workload; `workload` is the untranslated one.

    Raw reading, correction and covariates stay as they came: covariates in ns or us are durations of the
    guest's own clock.
    """
    units = {metric.name: metric.unit for metric in workload.metrics}
    values: dict[str, float | None] = {}
    for name, value in sample.metrics.items():
        new = _name(name)
        if new is not None:
            values[new] = value if new == name else _scaled(value, units.get(name, ""))
    return msgspec.structs.replace(sample, metrics=values)


def _name(name: str) -> str | None:
    """Return a metric's name under the instructions clock; None for one that is dropped."""
    stem, _, unit = name.rpartition("_")
    if name == "cycles" or unit == "cycles":
        return None
    if unit not in _SCALES or stem.endswith("_per") or not stem:
        return name
    if stem.rpartition("_")[2] in _SPLIT | _WAITING:
        return None
    before = stem.removesuffix("time").removesuffix("_")
    return f"{before}_{UNIT}" if before else UNIT


def _metric(metric: Metric) -> Metric | None:
    name = _name(metric.name)
    if name is None:
        return None
    if name != metric.name:
        ending = _ACCOUNT if name == CPU_TIME else _IDLE
        return replace(metric, name=name, unit=UNIT, doc=_worded(metric.doc) + ending)
    base, slash, per = metric.unit.partition("/")
    if slash and per == "s":
        return replace(metric, unit=f"{base}{PER}", doc=_worded(metric.doc) + _IDLE)
    return metric


def _scaled(value: float | None, unit: str) -> float | None:
    if value is None:
        return None
    return float(f"{value * _SCALES[unit]:.{_EXACT_DIGITS}g}")


def _worded(doc: str) -> str:
    for pattern, replacement in _WORDING:
        doc = pattern.sub(replacement, doc)
    return doc


def _timing_model(workload: Workload) -> str:
    """Return the timing model with the new names, rates per 10^9 instructions, counts without a unit."""
    text = workload.timing_model.replace(
        "((raw - correction) in seconds)", "((raw - correction) in 10^9 instructions)"
    )
    text = text.replace("(raw - correction) in seconds", "(raw - correction)")
    text = re.sub(r"/ time_s\b", f"/ ({UNIT} / 10^9)", text)
    text = re.sub(r"^time = ", f"{UNIT} = ", text)
    for metric in workload.metrics:
        new = _name(metric.name)
        if new is not None and new != metric.name:
            text = re.sub(rf"\b{metric.name}\b", new, text)
    return _MODEL + text
