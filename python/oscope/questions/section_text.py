"""What sections say: figures of headlines, ratios, shares, and why something is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import nan
from typing import NamedTuple, TypeVar

from oscope.figures.answer_text import counted, emulation, median
from oscope.model.formatting import MISSING, bounded_text, format_count, format_share, format_value
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary

_Row = TypeVar("_Row")
_Key = TypeVar("_Key")
NOT_RUN = "{} was not run: `oscope run {}` does it"
EFFECT = "Probe effect: time traced over untraced, paired by block."
_INTERVAL = re.compile(r" \(([^()]*?) to ([^()]*?)\)")
FINEST = 0.002
"""Half of the narrowest interval of a share that gives digits."""


def brackets(text: str) -> str:
    """Return `132 ns [131, 134]` for `132 ns (131 to 134)`: how a headline writes an interval.

    What is the same in every sample stands alone.
    """
    return _INTERVAL.sub(lambda ends: "" if ends[1] == ends[2] else f" [{ends[1]}, {ends[2]}]", text)


def bracketed(summary: Summary, unit: str) -> str:
    """Return `132 ns [131, 134]`: a median with its 95 % interval, for a headline."""
    return brackets(median(summary, unit))


def times(row: ComparedMetric) -> str:
    """Return `1.52 times [1.40, 1.66]`: a ratio with its 95 % interval, for a headline."""
    number, opened, rest = brackets(ratio_text(row)).partition(" [")
    return f"{number} times{opened}{rest}"


class Verdict(NamedTuple):
    """The result of a comparison: the ratio with its interval, and both answers."""

    ratio: str
    different: str
    matters: str


def ratio_text(row: ComparedMetric | None) -> str:
    """Return `1.52 (1.40 to 1.66)`, or what can be said of it."""
    return MISSING if row is None else bounded_text(row.ratio, *row.ci95)


def not_different(row: ComparedMetric) -> str:
    """Say of a ratio that is no proven difference what it is: `which cannot be distinguished from 1`."""
    if row.different == "no":
        return "which is no difference"
    low, high = row.ci95
    among = " among so many comparisons" if low > 1 or high < 1 else ""
    return f"which cannot be distinguished from 1{among}"


def judged(row: ComparedMetric | None, what: str = "") -> str:
    """Return `1.46 (1.45 to 1.47) times WHAT`, and of what is no proven difference, that."""
    if row is None:
        return "not compared"
    text = " ".join(filter(None, [f"{ratio_text(row)} times", what]))
    return text if row.different == "yes" else f"{text}, {not_different(row)}"


def times_or_judged(row: ComparedMetric, what: str) -> str:
    """Return `1.46 times [1.45, 1.47] WHAT` for a headline, and of what is no proven difference, that."""
    return f"{times(row)} {what}" if row.different == "yes" else judged(row, what)


def bounded_share(share: float, low: float, high: float, finest: float = FINEST) -> str:
    """Return `12 % (11 to 13 %)`; digits by the interval, down to half a width of `finest`."""
    half = max((high - low) / 2, finest)
    ends = [format_share(end, half) for end in (low, high)]
    return f"{format_share(share, half)} ({ends[0].removesuffix(' %')} to {ends[1]})"


def nanoseconds(value: float) -> str:
    """Return a time of traced calls or faults, to three digits or so."""
    return format_value(value * 1e-9, 0.01 * value * 1e-9, "s")


def over(part: float | None, whole: float | Summary | None) -> float | None:
    """Return a figure over another one, or its median; None where one is missing, or that is not above 0."""
    number = whole.median if isinstance(whole, Summary) else whole
    return part / number if part is not None and number is not None and number > 0 else None


def quotient_text(a: Summary | None, b: Summary | None) -> str | None:
    """Return a figure over another one that is above 0, with the interval that the latter's makes of it."""
    if a is None or b is None or not b.median > 0:
        return None
    low, high = b.ci95 or (nan, nan)
    bounds = (a.median / high, a.median / low) if low > 0 else (nan, nan)
    return bounded_text(a.median / b.median, *bounds)


def rough(value: float, unit: str = "") -> str:
    """Return a figure to three digits or so."""
    return format_value(value, value / 50, unit)


def share_text(summary: Summary | None) -> str:
    """Return a share as per cent with its interval, if it has one."""
    if summary is None:
        return MISSING
    if summary.ci95 is None:
        return format_share(summary.median, 0.01)
    return bounded_share(summary.median, *summary.ci95)


def bytes_text(size: float) -> str:
    """Return a number of bytes: `64 KiB` where it is a whole number of KiB, else in B to the last one."""
    whole = int(size)
    return format_bytes(whole) if whole % 1024 == 0 else f"{format_count(whole)} B"


def capital(text: str) -> str:
    """Return a sentence's beginning with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def joined(*texts: str) -> str:
    """Return these texts one after another, each once."""
    return " ".join(dict.fromkeys(filter(None, texts)))


def reasons(experiment: ExperimentResults, **levels: object) -> str:
    """Say why points with these levels were skipped or failed, and how to fix it; each reason once."""
    points = [each for each in experiment.points if levels.items() <= each.factors.items()]
    found: Counter[str] = Counter()
    for point in points:
        if point.skipped is not None:
            found[f"{point.skipped}: {point.remedy}." if point.remedy else f"{point.skipped}."] += 1
        elif len(point) and len(point.failed) == len(point):
            found[f"every sample failed: {point.failed[0][1]}."] += 1
    of = counted(len(points), "point")
    return " ".join(f"{count} of {of}: {reason}" for reason, count in found.items())


def cautions(experiment: ExperimentResults) -> list[str]:
    """Return what speaks against times: that the guest was emulated, or the machine busy at the start."""
    found = list(filter(None, [emulation([experiment])]))
    load, cpus = experiment.environment.get("load"), experiment.environment.get("cpu") or {}
    allowed = len(cpus.get("allowed") or ())
    if load and allowed and load[0] > allowed:
        found.append(
            f"The machine was busy when this was measured (a load of {load[0]:.1f} on "
            f"{counted(allowed, 'CPU')}): times are longer, and fewer differences are found, than on an "
            "idle one."
        )
    return found


def grouped(rows: Iterable[_Row], key: Callable[[_Row], _Key]) -> dict[_Key, list[_Row]]:
    """Return the rows by their key, in the order in which keys and rows come."""
    found: dict[_Key, list[_Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def errors_text(errors: Mapping[str, int]) -> str:
    """Return each error with its count."""
    return ", ".join(f"{name}: {format_count(number)}" for name, number in errors.items()) or "none"


def greatest(rows: Sequence[_Row], share: Callable[[_Row], float | None]) -> tuple[str, list[_Row]]:
    """Return the greatest share, and the rows that have it to the digits shown; none of a share of 0."""
    written = {format_share(found): found for row in rows if (found := share(row))}
    most = max(written, key=written.__getitem__, default="")
    return most, [row for row in rows if (found := share(row)) and format_share(found) == most]


def first_named(names: Sequence[str]) -> str:
    """Return equal ones in words: two by their names, of more the first and how many others there are."""
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} others"
