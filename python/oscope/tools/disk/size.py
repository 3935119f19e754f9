"""The search for a file size that takes a given time to read. Pure: measuring is a function passed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oscope.model.errors import OscopeError
from oscope.model.units import format_bytes, format_duration

FIRST = 8 * 2**20
"""Bytes of the first file tried: a disk reads it in milliseconds."""
MOST_REFINEMENTS = 8
"""Sizes tried between the last two doublings, should none of the doublings have been right."""
_REMEDY = "widen --between, or end what else uses the disk"


@dataclass(frozen=True)
class Range:
    """From how many to how many seconds a reading shall take, both included."""

    low: float
    high: float

    def __contains__(self, seconds: float) -> bool:
        """Whether a reading of that many seconds is within the range."""
        return self.low <= seconds <= self.high

    def __str__(self) -> str:
        """Write it as `5 s to 15 s`."""
        return f"{format_duration(self.low)} to {format_duration(self.high)}"


@dataclass(frozen=True)
class Attempt:
    """A size in bytes, and the seconds that reading it took."""

    size: int
    seconds: float

    def __str__(self) -> str:
        """Write it as `64 MiB (1.2 s)`."""
        return f"{format_bytes(self.size)} ({self.seconds:.3g} s)"


def find_size(measure: Callable[[int], float], target: Range, *, block_size: int, largest: int) -> Attempt:
    """Return the first size tried whose reading takes a time in `target`: doubled until it does.

    `measure` returns the seconds that reading so many bytes takes. Sizes are multiples of `block_size` and at
    most `largest`. Where a doubling is too much, sizes between the last two are tried, by the speed measured
    and by halves in turn, `MOST_REFINEMENTS` at most. Raises OscopeError where none is right.
    """
    most = largest // block_size
    if most == 0:
        raise OscopeError(
            f"there is no room for a block of {format_bytes(block_size)}", remedy="free some space"
        )
    below = Attempt(0, 0.0)
    blocks = min(-(-FIRST // block_size), most)
    while (tried := _try(measure, blocks * block_size)).seconds < target.low:
        if blocks == most:
            raise OscopeError(
                f"the largest file that there is room for, {tried}, is read in less than {target.low:g} s",
                remedy="free some space, or lower --between",
            )
        below = tried
        blocks = min(2 * blocks, most)
    return tried if tried.seconds in target else _refine(measure, target, block_size, (below, tried))


def _refine(
    measure: Callable[[int], float], target: Range, block_size: int, bracket: tuple[Attempt, Attempt]
) -> Attempt:
    """Return a size within the bracket, whose lower end is read too soon and whose upper end too late."""
    below, above = bracket
    for number in range(MOST_REFINEMENTS):
        blocks = _between(below, above, target, block_size, halve=number % 2 == 1)
        if blocks is None:
            raise OscopeError(f"no size between {below} and {above} is left to try", remedy=_REMEDY)
        tried = _try(measure, blocks * block_size)
        if tried.seconds in target:
            return tried
        if tried.seconds < target.low:
            below = tried
        else:
            above = tried
    raise OscopeError(
        f"no size between {below} and {above} took {target} in {MOST_REFINEMENTS} attempts", remedy=_REMEDY
    )


def _between(below: Attempt, above: Attempt, target: Range, block_size: int, *, halve: bool) -> int | None:
    """Return a number of blocks strictly between, or None where there is none.

    A straight line between the two finds it at once where the speed is constant; halves end the search where
    it is not.
    """
    low, high = below.size // block_size, above.size // block_size
    if high - low < 2:
        return None
    middle = (target.low + target.high) / 2
    share = 0.5 if halve else (middle - below.seconds) / (above.seconds - below.seconds)
    return min(max(low + round(share * (high - low)), low + 1), high - 1)


def _try(measure: Callable[[int], float], size: int) -> Attempt:
    return Attempt(size, measure(size))
