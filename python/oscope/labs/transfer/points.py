"""The points of a transfer experiment by the way in which files are moved, and how two ways compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from oscope import questions as q
from oscope.labs.transfer import PLAIN, pair

TIME, RECEIVER_TIME, SENDER_TIME, RATE = "time_ns", "receiver_time_ns", "sender_time_ns", "bytes_per_s"
WAY = "way"
ARROW = " → "
CALLS = "readwrite"
MAPPED = "mmap"


@dataclass(frozen=True)
class Sides:
    """Which metrics hold the times of both sides."""

    sender: str
    receiver: str


COPIED = Sides(TIME, RECEIVER_TIME)
DEVICE = Sides(SENDER_TIME, TIME)
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
    own = ("sender", "receiver", "method", "tracer")

    def renamed(point: q.PointSamples) -> q.PointSamples:
        rest = {name: level for name, level in point.factors.items() if name not in own}
        return replace(point, factors={**rest, WAY: way(point.factors)})

    def make() -> q.Run:
        points = tuple(map(renamed, q.untraced(run.experiment)))
        return q.Run(run.results, replace(run.experiment, points=points))

    return run.once(WAY, make)


def curves(run: q.Run, metric: str, **levels: q.Level) -> dict[str, list[q.At]]:
    """Return for each way its points by rising size."""
    return q.curves_by(by_way(run), metric, WAY, (), **levels)


def compared_ways(run: q.Run, metric: str | Sequence[str], base: str, **levels: q.Level) -> list[q.Contrast]:
    """Return how each other way compares with `base`, p corrected (Holm) for all rows."""
    first = metric if isinstance(metric, str) else metric[0]
    others = dict.fromkeys(way(point.factors) for point in q.known(run.experiment, first))
    ends = [(base, name) for name in others if name != base]
    key = ("ways", metric, base, *levels.items())
    return run.once(key, lambda: q.contrasts(by_way(run), metric, WAY, *ends, **levels))


def way_dots(points: Sequence[q.Point], row: Callable[[q.Point], str]) -> list[tuple[str, str, q.Summary]]:
    """Return what a figure draws of these points: a colour for each way, rows named by `row`."""
    order = list(dict.fromkeys(way(each.factors) for each in points))
    rows = [(way(each.factors), row(each), each.summary) for each in points]
    return sorted(rows, key=lambda each: order.index(each[0]))


METHOD: q.Column[q.Point] = q.text("method", lambda point: way(point.factors))
CONTENT = q.level("content")
SPREAD = ("mean", "std. dev.", "median", "95 %")


def times_of(sides: Sides, heading: str, *parts: str) -> list[q.Column[q.Point]]:
    """Return columns of both sides' times; the heading names `{side}` and `{part}`."""
    both = (("sender", sides.sender), ("receiver", sides.receiver))
    return [q.stat(heading.format(side=side, part="{}"), metric, "ns", *parts) for side, metric in both]


def verdict_table(
    title: str, base: str, rows: Sequence[q.Contrast], *places: q.Column[q.Contrast]
) -> q.Table:
    """Return each other way's time over that of `base`, with both answers; `places` say where."""
    columns = (
        *places,
        q.text("method", lambda each: str(each.ends[1])),
        q.ratio(f"time / {base}'s", lambda each: each.row, "different", "matters"),
    )
    note = "Paired by block, p corrected (Holm) for all rows."
    return q.TableOf(title, *columns, note=note).of(rows)
