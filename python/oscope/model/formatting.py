"""Numbers as people read them: digits follow the uncertainty, a value and its interval share unit and digits.

Rounding is to `SIGNIFICANT` digits of the uncertainty, as the GUM (JCGM 100:2008, 7.2.6) advises. Prefixes
are decimal for seconds (ns, µs, ms, s), binary for bytes (KiB = 1024 B). Counts, and rates of what is counted
(calls/s), have no prefix, and a plain count has no unit. Groups of three digits are parted by a narrow
no-break space from 10 000 on. Where counts of instructions repeat exactly they keep up to `EXACT_DECIMALS`
decimals, which a division by a number of iterations brings about, or two digits of a value that these would
round to 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from oscope.model.clocks import UNIT as INSTRUCTIONS

SIGNIFICANT = 2
MOST_DIGITS = 5
"""However narrow an interval is: the clock's rate is not known better, and it reads in steps of a tick."""
MOST_DECIMALS = 9
EXACT_DECIMALS = 2
NOISE = 1e-7
"""Instructions below which a difference is what a division rounded away."""
FINEST = 0.002
"""Share of a ratio to which its digits go, however narrow its interval."""
UNBOUNDED = 1e6
"""A ratio that may be larger, and an interval whose ends are so far apart, has no upper bound in writing."""
FAR = 1e9
"""End of an interval from which on it is written as a power of ten."""
BEYOND = 1e4
"""Times its low end to which an interval reaches at most, for that end not to be written as 0."""
MISSING = "–"
"""Stands where a number could not be had."""

GROUP = "\u202f"

_TIMES = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
_BINARY = (("", 1.0), ("Ki", 2.0**10), ("Mi", 2.0**20), ("Gi", 2.0**30), ("Ti", 2.0**40))
_BINARY_UNITS = frozenset(f"{prefix}B" for prefix, _ in _BINARY if prefix)


@dataclass(frozen=True)
class Scale:
    """A unit and a number of decimals, shared by a group of figures (an interval, a table's column)."""

    unit: str
    """Unit to print, prefix included, such as `µs` or `MiB/s`."""
    factor: float
    """Value of one `unit` in the base unit: printed = value / factor."""
    decimals: int
    """Digits after the point; -2 rounds to hundreds."""
    base: str = ""
    """The unit in which values are given."""

    @classmethod
    def choose(cls, values: Iterable[float | None], spreads: Iterable[float | None], unit: str) -> Self:
        """Choose the unit by the median magnitude of `values`, and the decimals by the smallest of `spreads`.

        Values and spreads are in `unit`. Without any spread, 4 significant digits of the smallest value are
        kept. Decimals below 0 stand for digits before the point that are rounded away; however large the
        spread, two digits of the smallest value stay, if they are before the point.
        """
        sizes = sorted(abs(v) for v in values if v is not None and math.isfinite(v) and v != 0)
        known = [abs(s) for s in spreads if s is not None and math.isfinite(s) and s != 0]
        middle = sizes[len(sizes) // 2] if sizes else max(known, default=0.0)
        name, factor = _prefix(middle, unit)
        if known:
            decimals = _decimals(min(known) / factor, SIGNIFICANT)
            if sizes:
                decimals = max(decimals, min(0, _decimals(sizes[0] / factor, SIGNIFICANT)))
            if unit == INSTRUCTIONS:
                decimals = min(decimals, _exact_decimals(sizes))
        elif unit == INSTRUCTIONS:
            most = _exact_decimals(sizes)
            decimals = next((n for n in range(most) if all(_whole(s * 10**n) for s in sizes)), most)
        elif any(size / factor % 1 for size in sizes):
            decimals = _decimals(sizes[0] / factor, 4)
        else:
            decimals = 0
        return cls(name, factor, decimals, unit)

    @classmethod
    def of(cls, value: float, spread: float | None, unit: str) -> Self:
        """Choose unit and decimals for one value with its interval, in a text or in a table's row."""
        scale = cls.choose([value], [spread], unit)
        if unit == INSTRUCTIONS or not spread or not math.isfinite(value) or not value:
            return scale
        size = abs(value) / scale.factor
        most = max(_decimals(size, MOST_DIGITS), 0)
        # However wide the interval is, 0.51 is not 1.
        kept = _decimals(size, SIGNIFICANT)
        return replace(scale, decimals=max(min(scale.decimals, most), kept if kept <= SIGNIFICANT else 0))

    def row(self, value: float, spread: float | None) -> Self:
        """Return this unit with the decimals of one value: the digits that `of` gives it in its own unit."""
        own = Scale.of(value, spread, self.base)
        shift = round(math.log10(self.factor / own.factor))
        return replace(self, decimals=min(own.decimals + shift, MOST_DECIMALS))

    def text(self, value: float | None) -> str:
        """Return the figure alone, rounded to the shared decimals; `MISSING` for None and NaN."""
        if value is None or not math.isfinite(value):
            return MISSING
        rounded = f"{round(value / self.factor, self.decimals):.{max(self.decimals, 0)}f}"
        if float(rounded) == 0:
            rounded = rounded.removeprefix("-")
        return _grouped(rounded)

    def span(self, interval: tuple[float, float] | None) -> str:
        """Return the ends of an interval, `97.9 to 98.4`; `MISSING` where there is none.

        An end of ten digits that is not known to its last one is written as a power, `0 to 4.0e9`: two
        processes of one sample each may give such an interval. A low end that would round to 0 keeps a digit,
        unless the high one is more than `BEYOND` times larger. Two blocks that differ by a factor have ends
        so far apart (`UNBOUNDED`) that the high one says nothing: `0 or more`.
        """
        if interval is None:
            return MISSING
        if self.decimals < 0 < UNBOUNDED * interval[0] < interval[1]:
            return f"{self.text(interval[0])} or more"
        return " to ".join(
            f"{end / self.factor:.1e}".replace("e+0", "e").replace("e+", "e")
            if self.decimals < 0 and abs(end / self.factor) >= FAR
            else self._digit(end, interval[1]).text(end)
            for end in interval
        )

    def _digit(self, end: float, high: float) -> Self:
        """Return this unit with decimals that leave a digit of an end that the shared ones round to 0."""
        is_lost = 0 < end < high < BEYOND * end and not float(f"{round(end / self.factor, self.decimals):f}")
        return replace(self, decimals=_decimals(end / self.factor, 1)) if is_lost else self

    def with_unit(self, value: float | None) -> str:
        """Return the figure with its unit."""
        text = self.text(value)
        if self.unit == INSTRUCTIONS and text.removeprefix("-") == "1":
            return f"{text} instruction"
        return f"{text} {self.unit}" if self.unit and text != MISSING else text


@dataclass(frozen=True)
class PlainScale(Scale):
    """The unit in which values are given, for programs: it does not follow the size of the figures."""

    @classmethod
    def of_unit(cls, unit: str) -> Self:
        """Return the scale of values in `unit`."""
        return cls("" if unit == "1" else unit, 1.0, 0, unit)

    def span(self, interval: tuple[float, float] | None) -> str:
        """Return the ends of an interval as `Scale.span` does, but never as a power, nor without an end."""
        if interval is None:
            return MISSING
        return " to ".join(self._digit(end, interval[1]).text(end) for end in interval)


def format_value(value: float | None, spread: float | None, unit: str) -> str:
    """Return `value` with its unit and the digits that `spread` (half-width or deviation) allows."""
    return Scale.choose([value], [spread], unit).with_unit(value)


def format_interval(value: float | None, low: float | None, high: float | None, unit: str) -> str:
    """Return `98.1 ns (97.9 to 98.4)`; only the value where there is no interval."""
    if value is None:
        return MISSING
    if low is None or high is None:
        return Scale.of(value, None, unit).with_unit(value)
    scale = Scale.of(value, (high - low) / 2, unit)
    return f"{scale.with_unit(value)} ({scale.span((low, high))})"


def column(
    values: Sequence[float | None], spreads: Sequence[float | None], unit: str
) -> tuple[str, list[str]]:
    """Return the unit for the heading and one text a value, all with the same unit and decimals."""
    scale = Scale.choose(values, spreads, unit)
    return scale.unit, [scale.text(value) for value in values]


def format_count(count: float) -> str:
    """Return a whole number with its digits in groups of three."""
    return _grouped(f"{round(count)}")


def format_share(share: float | None, spread: float | None = None) -> str:
    """Return a share (0.034) as per cent (`3.4 %`): two significant digits, or as many as `spread` allows."""
    if share is None or not math.isfinite(share):
        return MISSING
    percent = 100 * share
    uncertainty = 100 * spread if spread else abs(percent)
    decimals = max(_decimals(uncertainty, SIGNIFICANT), min(_decimals(abs(percent), SIGNIFICANT), 0))
    return f"{Scale('', 1.0, min(decimals, 4)).text(percent)} %"


def bounded_text(value: float, low: float, high: float) -> str:
    """Return the ratio `1.52 (1.40 to 1.66)`; without bounds the value alone, to three digits."""
    if not math.isfinite(value):
        return MISSING
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:.3g}"
    if high > UNBOUNDED > value:
        return f"{value:.3g} ({low:.2g} or more)"
    scale = Scale.of(value, max((high - low) / 2, FINEST * abs(value)), "")
    return f"{scale.text(value)} ({scale.span((low, high))})"


def _exact_decimals(sizes: Sequence[float]) -> int:
    """Return the most decimals of counts, given in ascending order: more where a count would become 0."""
    least = next((size for size in sizes if size > NOISE), 1.0)
    return EXACT_DECIMALS if round(least, EXACT_DECIMALS) else _decimals(least, SIGNIFICANT)


def _whole(value: float) -> bool:
    """Say whether `value` is a whole number but for the rounding of a division."""
    return abs(value - round(value)) <= 1e-9 * max(abs(value), 1.0)


def _decimals(spread: float, significant: int) -> int:
    """Return the decimals that keep `significant` digits of `spread` when rounded (0.0996 becomes 0.10)."""
    if spread <= 0:
        return 0
    exponent = int(f"{spread:.{significant - 1}e}".split("e")[1])
    return min(significant - 1 - exponent, MOST_DECIMALS)


def _prefix(size: float, unit: str) -> tuple[str, float]:
    """Return the unit with the prefix that suits `size` (in `unit`), and its value in `unit`."""
    if unit == "1":
        return "", 1.0
    base, slash, per = unit.partition("/")
    times = dict(_TIMES)
    if base in times and not slash:
        steps = [(name, value / times[base]) for name, value in _TIMES]
    elif base == "B":
        steps = [(f"{prefix}B{slash}{per}", value) for prefix, value in _BINARY]
    elif base in _BINARY_UNITS:
        # A unit that has its prefix already, such as MiB/s: a second one would be none that exists.
        return unit, 1.0
    else:
        return unit, 1.0
    suited = [step for step in steps if step[1] <= size * (1 + 1e-12)]
    if size == 0:
        return unit, 1.0
    return suited[-1] if suited else steps[0]


def _grouped(digits: str) -> str:
    sign = "-" if digits.startswith("-") else ""
    whole, point, rest = digits.removeprefix("-").partition(".")
    if len(whole) > 4:
        whole = f"{int(whole):,}".replace(",", GROUP)
    return f"{sign}{whole}{point}{rest}"
