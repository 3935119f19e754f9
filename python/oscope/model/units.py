"""Reads and writes sizes, durations and shares as people type them: `128K`, `1.5s`, `2%`."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from oscope.model.errors import UsageError

_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_BYTES = (
    {"": 1, "B": 1}
    | _BINARY
    | {f"{prefix}iB": size for prefix, size in _BINARY.items()}
    | {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
)
_SECONDS = {
    "": Fraction(1),
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
_NUMBER = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))\s*(\S*)")
_MOST_DIGITS = 100
KIBIBYTE, MEBIBYTE, GIBIBYTE = 1 << 10, 1 << 20, 1 << 30
PAGE = 4096
MOST_BYTES = 2**63 - 1
"""As many as a file of Linux may have."""
MOST_SECONDS = 10**9
"""About 30 years."""
MOST_SHARE = 10**6


def _split(text: str, what: str, example: str) -> tuple[Fraction, str]:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a {what}", remedy=f"write it like {example}")
    if len(found[1]) > _MOST_DIGITS:
        raise UsageError(
            f"a {what} of {len(found[1])} digits is out of range", remedy=f"write it like {example}"
        )
    return Fraction(found[1]), found[2]


def parse_bytes(text: str) -> int:
    """Return the number of bytes that `text` stands for.

    `K`, `M`, `G`, `T` and `KiB`, `MiB`, … are powers of 1024; `kB`, `MB`, … are powers of 1000; a bare number
    is bytes. Raises UsageError naming the text, also where it is negative or not a whole number of bytes.
    """
    number, unit = _split(text, "size", "4096, 128K, 64MiB or 1GB")
    # A lower-case k, m, g, t alone is what people type for the binary one; `kB` is the only SI unit with a
    # small letter.
    factor = _BYTES.get(unit, _BINARY.get(unit.upper()))
    if factor is None:
        raise UsageError(
            f"{text!r} has an unknown unit {unit!r}", remedy="use K, M, G, KiB, MiB, GiB, kB, MB or GB"
        )
    size = number * factor
    if size < 0 or size.denominator != 1:
        raise UsageError(f"{text!r} is not a whole number of bytes, zero or more")
    if size > MOST_BYTES:
        raise UsageError(f"{text!r} is out of range", remedy="give less than 8388608T")
    return int(size)


def parse_duration(text: str) -> float:
    """Return the seconds that `text` (`500ms`, `10s`, `2m`, `90d`; a bare number is seconds) stands for.

    Raises UsageError naming the text, also where it is negative.
    """
    number, unit = _split(text, "duration", "500ms, 10s, 2m or 1h")
    factor = _SECONDS.get(unit)
    if factor is None:
        raise UsageError(f"{text!r} has an unknown unit {unit!r}", remedy="use ns, us, ms, s, m, h or d")
    if number < 0:
        raise UsageError(f"{text!r} is less than no time", remedy="give a duration like 10s")
    if number * factor > MOST_SECONDS:
        raise UsageError(f"{text!r} is out of range", remedy=f"give {MOST_SECONDS}s or less")
    return float(number * factor)


def parse_share(text: str) -> float:
    """Return the share that `text` (`2%` or `0.02`) stands for. Raises UsageError naming the text.

    A share of 1 or more is written with `%`: who types `5` mostly means 5 %, not 500 %.
    """
    number, unit = _split(text, "share", "2% or 0.02")
    if unit not in ("", "%"):
        raise UsageError(f"{text!r} has an unknown unit {unit!r}", remedy="write it like 2% or 0.02")
    if number < 0:
        raise UsageError(f"{text!r} is below zero", remedy="write it like 2% or 0.02")
    if number / (100 if unit else 1) > MOST_SHARE:
        raise UsageError(f"{text!r} is out of range", remedy="write it like 2% or 0.02")
    if not unit and number >= 1:
        raise UsageError(
            f"{text!r} would be {format_share(float(number))}",
            remedy=f"write {text.strip()}%, or {float(100 * number):.12g}% if that is meant",
        )
    return float(number / 100 if unit == "%" else number)


def _shortest(number: Fraction) -> str:
    """Write a number that has a finite decimal form, exactly and without an exponent."""
    return f"{(Decimal(number.numerator) / Decimal(number.denominator)).normalize():f}"


def format_bytes(size: int) -> str:
    """Write a size exactly, in the largest binary unit that divides it, or as `12.5 MB`, or as `1500 B`."""
    for prefix in reversed(_BINARY):
        if size and size % _BINARY[prefix] == 0:
            return f"{size // _BINARY[prefix]} {prefix}iB"
    # The rate of a line is a round number of another kind.
    tenth = _BYTES["MB"] // 10
    return f"{_shortest(Fraction(size, 10 * tenth))} MB" if size and size % tenth == 0 else f"{size} B"


def format_duration(seconds: float) -> str:
    """Write a duration that somebody chose, not a measured one, exactly: `500 ms`, `10 s`, `1.5 h`."""
    exact = Fraction(str(seconds))
    for unit, size in (("h", 3600), ("min", 60)):
        if exact and (exact / size * 10).denominator == 1 and exact >= size:
            return f"{_shortest(exact / size)} {unit}"
    for unit, scale in (("s", 1), ("ms", 10**3), ("µs", 10**6)):
        if exact == 0 or abs(exact * scale) >= 1:
            return f"{_shortest(exact * scale)} {unit}"
    return f"{_shortest(exact * 10**9)} ns"


def format_share(share: float) -> str:
    """Write a share as a percentage, exactly: `2 %`."""
    return f"{_shortest(Fraction(str(share)) * 100)} %"
