"""The latency ladder drawn with characters on a logarithmic axis, and the throughputs as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from oscope.figures.ladder import Rung
from oscope.model.formatting import Scale
from oscope.model.units import MEBIBYTE, format_duration

NARROWEST = 20
"""Columns of the drawing below which the intervals are not written beside it."""
WELL_KNOWN = 0.05
"""Half an interval over the median up to which it is not written beside a throughput."""
WIDE = 0.5
"""Share from which on the ends of the interval are written in place of half its width."""
_GAP = "  "
_HEADINGS = ("", "median", "95 % interval")


@dataclass(frozen=True)
class Marks:
    """The characters of a drawing."""

    median: str = "●"
    line: str = "─"
    low: str = "├"
    high: str = "┤"
    tick: str = "·"


ASCII = Marks("o", "-", "|", "|", ".")


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis of seconds, over `width` columns."""

    low: float
    """Decimal logarithms of both ends."""
    high: float
    width: int

    @classmethod
    def over(cls, rungs: Sequence[Rung], width: int) -> Axis:
        """Return the axis that holds all medians and intervals."""
        ends = [log10(end) for rung in rungs for end in _ends(rung)]
        return cls(min(ends), max(max(ends), min(ends) + 1), width)

    @property
    def decades(self) -> range:
        """Return the exponents of the powers of ten on the axis."""
        return range(ceil(self.low - 1e-9), floor(self.high + 1e-9) + 1)

    def column(self, seconds: float) -> int:
        """Return where a duration stands."""
        return round((log10(seconds) - self.low) / (self.high - self.low) * (self.width - 1))

    def labels(self) -> str:
        """Return the line of labels: each decade where there is room, else every third one."""
        for step in (1, 3):
            decades = [n for n in self.decades if n % step == 0]
            line = ""
            for decade in decades:
                text, start = format_duration(float(f"1e{decade}")), self.column(10.0**decade)
                # The last label ends where the axis does.
                start = min(start, self.width - len(text))
                if line and start <= len(line):
                    break
                line = line.ljust(start) + text
            else:
                return line.ljust(self.width)
        return " " * self.width

    def ticks(self) -> list[int]:
        """Return the columns of the powers of a thousand."""
        return [self.column(10.0**n) for n in self.decades if n % 3 == 0]


def draw(rungs: Sequence[Rung], width: int, marks: Marks | None = None) -> list[str]:
    """Return a line of labels and a line for each rung, none wider than `width` where that can be."""
    if not rungs:
        return []
    marks = marks or Marks()
    texts = [(rung.name, rung.scale.with_unit(rung.median), rung.interval) for rung in rungs]
    widths = [
        max(len(heading), *map(len, column))
        for heading, column in zip(_HEADINGS, zip(*texts, strict=True), strict=True)
    ]
    room = width - sum(widths) - 3 * len(_GAP)
    has_interval = room >= NARROWEST
    if not has_interval:
        room = max(width - sum(widths[:2]) - 2 * len(_GAP), NARROWEST // 2)
    axis = Axis.over(rungs, room)
    drawn = [axis.labels(), *(_row(rung, axis, marks) for rung in rungs)]
    lines = []
    for picture, (name, median, interval) in zip(drawn, (_HEADINGS, *texts), strict=True):
        cells = [name.ljust(widths[0]), picture, median.rjust(widths[1])]
        lines.append(_GAP.join([*cells, interval] if has_interval else cells).rstrip())
    return lines


def throughputs(rungs: Sequence[Rung]) -> list[str]:
    """Return each throughput in MiB/s: name and median, and its interval where half of it exceeds 5 %."""
    return [_throughput(rung) for rung in rungs]


def _row(rung: Rung, axis: Axis, marks: Marks) -> str:
    cells = [" "] * axis.width
    for tick in axis.ticks():
        cells[tick] = marks.tick
    low, median, high = (axis.column(end) for end in _ends(rung))
    cells[low : high + 1] = marks.line * (high + 1 - low)
    if low < median:
        cells[low] = marks.low
    if median < high:
        cells[high] = marks.high
    cells[median] = marks.median
    return "".join(cells)


def _ends(rung: Rung) -> tuple[float, float, float]:
    """Return the lower end, the median and the upper end in seconds."""
    low, high = (end * rung.base_factor for end in rung.ci95 or (rung.median, rung.median))
    return low, rung.median * rung.base_factor, high


def _throughput(rung: Rung) -> str:
    factor = rung.base_factor / MEBIBYTE
    low, high = (end * factor for end in rung.ci95 or (rung.median, rung.median))
    value, half = rung.median * factor, (high - low) / 2
    scale = Scale.of(value, half or (rung.summary.std or 0.0) * factor or None, "MiB/s")
    text = f"{rung.name} {scale.text(value)}"
    if rung.ci95 is None:
        return f"{text} {rung.interval}"
    if half > WIDE * value:
        return f"{text} ({scale.span((low, high))})"
    return f"{text} ±{100 * half / value:.0f} %" if half > WELL_KNOWN * value else text
