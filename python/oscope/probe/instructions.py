"""What the instructions clock makes of a workload: counts of instructions in the place of times.

Under QEMU's `-icount shift=0,sleep=off` a guest's clock advances by one nanosecond with each instruction that
its only CPU executes, and jumps over the time in which the CPU would be idle. So a time that the probe reads
is a count of instructions only as far as the CPU was busy; whoever was running is counted. Three kinds of
metrics follow:

- what the probe's clock read is translated, and its text is about idle time;
- CPU time is the scheduler's account of the same clock: translated, free of idle time and of other threads,
  and in steps of a microsecond, here `CPU_TIME_STEP` instructions;
- times that are mere waiting, and the split of CPU time into user and system time, which samples at ticks,
  count nothing and are dropped, as are cycles and times per amount, such as s/GiB.
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

_IDLE = "It counts what the CPU executes meanwhile; idle time counts as one instruction per ns."
_ACCOUNT = (
    "The scheduler counts it, without idle time and other threads, in steps of up to "
    f"{CPU_TIME_STEP} instructions."
)
_SECOND = "second"
_PER = "10^9 instructions"
_MODEL = (
    "The clock counts executed instructions: raw and correction are instructions; durations in what follows "
    "are those of a wall clock. "
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
        found = _metric(metric, {})
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
    names = _new_names(workload)
    metrics = tuple(found for metric in workload.metrics if (found := _metric(metric, names)) is not None)
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
    amount, per, _ = name.partition("_per_")
    if per and amount.rpartition("_")[2] in _SCALES:
        return None
    if unit not in _SCALES or stem.endswith("_per") or not stem:
        return name
    if stem.rpartition("_")[2] in _SPLIT | _WAITING:
        return None
    before = stem.removesuffix("time").removesuffix("_")
    return f"{before}_{UNIT}" if before else UNIT


def _new_names(workload: Workload) -> dict[str, str]:
    """Return the new names of the metrics that have one."""
    names = {metric.name: _name(metric.name) for metric in workload.metrics}
    return {name: new for name, new in names.items() if new is not None and new != name}


def _metric(metric: Metric, names: Mapping[str, str]) -> Metric | None:
    """Return the metric under the instructions clock; `names` are the new ones of the workload's metrics."""
    name = _name(metric.name)
    if name is None:
        return None
    if name != metric.name:
        ending = _ACCOUNT if name == CPU_TIME else _IDLE
        if metric.quantity is None:
            doc = f"Instructions executed within this time: {metric.doc or metric.name} {ending}"
            return replace(metric, name=name, unit=UNIT, doc=doc)
        return _described(replace(metric, name=name, unit=UNIT, quantity=UNIT), ending, names)
    base, slash, per = metric.unit.partition("/")
    if slash and per == "s":
        unit = f"{base}{PER}"
        if metric.per != _SECOND:
            return replace(metric, unit=unit, doc=f"{metric.doc} A second stands for {_PER}. {_IDLE}")
        return _described(replace(metric, unit=unit, per=_PER), _IDLE, names)
    return metric


def _described(metric: Metric, ending: str, names: Mapping[str, str]) -> Metric:
    """Return `metric` with `ending` as its note's last sentence, and its text composed as the probe does."""
    note = " ".join(filter(None, (_renamed(metric.note or "", names), ending)))
    head = " of ".join(filter(None, (UNIT if metric.quantity == UNIT else None, metric.what)))
    per = f" per {metric.per}" if metric.per else ""
    missing = f" Null {metric.null_when}." if metric.null_when else ""
    return replace(metric, note=note, doc=f"{head[:1].upper()}{head[1:]}{per}. {note}{missing}")


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def _scaled(value: float | None, unit: str) -> float | None:
    if value is None:
        return None
    return float(f"{value * _SCALES[unit]:.{_EXACT_DIGITS}g}")


def _timing_model(workload: Workload) -> str:
    """Return the timing model with the new names, rates per 10^9 instructions, counts without a unit."""
    text = workload.timing_model.replace(
        "((raw - correction) in seconds)", "((raw - correction) in 10^9 instructions)"
    )
    text = text.replace("(raw - correction) in seconds", "(raw - correction)")
    text = re.sub(r"/ time_s\b", f"/ ({UNIT} / 10^9)", text)
    text = re.sub(r"^time = ", f"{UNIT} = ", text)
    return _MODEL + _renamed(text, _new_names(workload))
