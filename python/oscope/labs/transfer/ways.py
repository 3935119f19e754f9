"""The points of a transfer experiment by the way in which files are moved, and how two ways compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from oscope import questions as q
from oscope.labs.transfer import PLAIN, pair
from oscope.originals import transfer as reference
from oscope.questions.combined_factors import against, combined, level_dots

TIME, RECEIVER_TIME, SENDER_TIME, RATE = "time_ns", "receiver_time_ns", "sender_time_ns", "bytes_per_s"
WAY = "way"
ARROW = " → "
CALLS = "readwrite"
MAPPED = "mmap"


class Sides(NamedTuple):
    """What files go through, the metrics of both sides' times, and the original report's methods there."""

    name: str
    sender: str
    receiver: str
    methods: tuple[str, str]


COPIED = Sides("user space", TIME, RECEIVER_TIME, (CALLS, MAPPED))
DEVICE = Sides("the devices", SENDER_TIME, TIME, ("fcntl", "mmap"))
"""The device's time is the receiver's, as in the original report."""


def way(factors: Mapping[str, q.Level]) -> str:
    """Return how a point moves files: the device's method, or those of sender and receiver."""
    return str(factors.get(WAY) or factors.get("method") or named(pair(factors)))


def named(methods: tuple[str, str]) -> str:
    """Return `mmap` where both sides have the method, else `sendfile → readwrite`."""
    return ARROW.join(dict.fromkeys(methods))


PLAIN_WAY = named(PLAIN)


def by_way(run: q.Run) -> q.Run:
    """Return the untraced points with the way as a factor, in place of the methods of both sides."""
    return combined(run, WAY, way, "sender", "receiver", "method")


def curves(run: q.Run, metric: str, **levels: q.Level) -> dict[str, list[q.At]]:
    """Return for each way its points by rising size."""
    return q.curves_by(by_way(run), metric, WAY, (), **levels)


def compared_ways(run: q.Run, metric: str | Sequence[str], base: str, **levels: q.Level) -> list[q.Contrast]:
    """Return how each other way compares with `base`, p corrected (Holm) for all rows."""
    first = metric if isinstance(metric, str) else metric[0]
    return against(by_way(run), metric, first, WAY, base, **levels)


def way_dots(points: Sequence[q.Point], row: Callable[[q.Point], str]) -> list[tuple[str, str, q.Summary]]:
    """Return what a figure draws of these points: a colour for each way, rows named by `row`."""
    return level_dots(points, lambda each: way(each.factors), row)


def cited(heading: str, of: Callable[[str, q.Point], float | None], form: str = ".4f") -> q.Column[q.Point]:
    """Return a column of figures of the original report, by its own name of a point's method."""
    return q.number(heading, lambda each: of(reference.own_name(way(each.factors)) or "", each), form)


METHOD: q.Column[q.Point] = q.text("method", lambda point: way(point.factors))
CONTENT = q.level("content")
SPREAD = ("mean", "std. dev.", "median", "95 %")


def times_of(sides: Sides, heading: str, *parts: str) -> list[q.Column[q.Point]]:
    """Return columns of both sides' times; the heading names `{side}` and `{part}`."""
    both = (("sender", sides.sender), ("receiver", sides.receiver))
    return [q.stat(heading.format(side=side, part="{}"), metric, "ns", *parts) for side, metric in both]
