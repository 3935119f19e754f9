"""Why one file system is faster: the bytes and packets that each moved, and the round trips it waited for.

The model of a time over the delay is `time = start + trips · round trip`: `start` is what the work takes on a
line without delay, bytes over the line's rate included, and `trips` how many round trips are waited for, each
after the last. Packets that are under way together cost one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from oscope import questions as q
from oscope.labs.fs.fs_points import NAMES, Shown, delay_of, delay_text, notes
from oscope.statistics.line import fit_line

TITLE = "Why: bytes, packets and round trips"
NS = 1e9
FITS = 0.15
"""A time that lies further from the model than this share, at any delay, does not follow it."""
FEWEST_DELAYS = 3
"""Two delays have a line through them whatever the times are."""
WHOLE = 10.0
"""An uncertainty by which a number of packets is shown without decimals."""
ENOUGH_FOR_A_RATE = 1 << 16
"""Bytes from which on bytes a second say something of the line."""


class Trips(NamedTuple):
    """How the time of an operation on one file system grows with the delay."""

    start: q.Summary
    """Nanoseconds, or instructions, without delay, from a line in each block."""
    trips: q.Summary
    """Round trips, from the same."""
    furthest: float
    """How far from the model the median lies at the worst delay, as a share of it."""
    delays: int

    @property
    def fits(self) -> bool:
        """Whether the model is borne out: by more delays than it has unknowns, all near to it."""
        return self.delays >= FEWEST_DELAYS and self.furthest <= FITS


Model = Mapping[tuple[str, str], Trips]
"""What was fitted, by operation and file system."""


class Case(NamedTuple):
    """An operation on a file system at the longest delay, and what was fitted over all."""

    shown: Shown
    operation: str
    system: str
    found: Trips | None

    @property
    def delay(self) -> float:
        """The longest delay, in seconds one way."""
        return self.shown.delays[-1]

    @property
    def point(self) -> q.PointSamples | None:
        """The point, if it has times."""
        return self.shown.point(self.system, self.operation, self.delay)

    @property
    def verdict(self) -> str:
        """Whether the model fits."""
        if self.found is None or self.found.delays < FEWEST_DELAYS:
            return "cannot tell"
        return "yes" if self.found.fits else "no"

    def of(self, what: q.Quantity) -> q.Summary | None:
        """Return what was moved."""
        return self.shown.run.summary(self.point, what)

    def waiting(self) -> float | None:
        """Return the share of the time that is waiting for round trips, where the model holds."""
        found = self.found
        if found is None or not found.fits or not self.delay:
            return None
        trips_ns = found.trips.median * 2 * self.delay * NS if q.excludes_zero(found.trips) else 0.0
        return max(trips_ns, 0.0) / (trips_ns + max(found.start.median, 0.0)) if trips_ns else 0.0

    def packets(self) -> str | None:
        """Return packets a round trip, where the model fits and finds some."""
        packets = self.of(PACKETS)
        if packets is None or self.found is None or not self.found.fits or self.found.trips.median < 1:
            return None
        return q.rough(packets.median / self.found.trips.median)

    def rate(self) -> str | None:
        """Return MiB a second of the start, where there are enough bytes to say."""
        moved, start = self.of(BYTES), self.found.start.median if self.found else 0.0
        if moved is None or moved.median < ENOUGH_FOR_A_RATE or start <= 0:
            return None
        return q.rough(moved.median / q.MEBIBYTE / (start / NS))


def fitted(shown: Shown, system: str, operation: str) -> Trips | None:
    """Fit the model in each block that has all delays; None with fewer than two delays, or no such block."""
    points = q.known(shown.experiment, shown.time, system=system, operation=operation)
    by_delay = {delay_of(point.factors): q.block_medians(point, shown.time) for point in points}
    round_trips = [2 * delay * NS for delay in by_delay]
    line = fit_line(round_trips, list(by_delay.values()), relative=True, seed=shown.experiment.seed)
    return Trips(line.start, line.slope, line.furthest, len(by_delay)) if line else None


def _model(run: q.Run) -> Model:
    shown = Shown.of(run)
    made = ((place, fitted(shown, place[1], place[0])) for place in product(shown.operations, shown.far))
    return run.once("model", lambda: {place: found for place, found in made if found is not None})


def _sum(unit: str, *names: str) -> q.Quantity:
    return q.Quantity("", unit, lambda point: np.sum([q.metric(point, name) for name in names], axis=0))


RECEIVED, SENT = _sum("B", "received_bytes"), _sum("B", "sent_bytes")
BYTES, PACKETS = _sum("B", "received_bytes", "sent_bytes"), _sum("", "received_packets", "sent_packets")


def _rounded(what: q.Quantity) -> Callable[[Case], str | None]:
    """Return a median with three digits or so: what is moved repeats, but for when acknowledgements come."""

    def rounded(case: Case) -> str | None:
        if (found := case.of(what)) is None:
            return None
        spread = found.median / 20
        return q.format_value(found.median, spread if what.unit else max(spread, WHOLE), what.unit)

    return rounded


def _headline(run: q.Run, _: object) -> str:
    model = _model(run)
    fits = [(one.trips.median, key, one) for key, one in model.items() if one.fits]
    if waits := [each for each in fits if each[0] > 0 and q.excludes_zero(each[2].trips)]:
        _, (operation, system), one = max(waits, key=lambda each: each[0])
        most = f"{NAMES[system]} waits for most round trips: {q.bracketed(one.trips, '')} at {operation}."
        return f"Of times that follow the model, {most}"
    if fits:
        return "No round trip was found in the times that follow the model."
    known = [one for one in model.values() if one.delays >= FEWEST_DELAYS]
    return "No time is one of round trips alone." if known else ""


def _moved(run: q.Run) -> list[Case]:
    """Return what was measured at the longest delay; nothing where no point has traffic."""
    shown, model = Shown.of(run), _model(run)
    if not any(shown.run.summary(point, PACKETS) for point in shown.experiment.points):
        return []
    cases = [Case(shown, *place, model.get(place)) for place in product(shown.operations, shown.far)]
    return [case for case in cases if case.point is not None]


PLACE: tuple[q.Column[Case], ...] = (
    q.text("operation", lambda case: case.operation),
    q.text("file system", lambda case: NAMES[case.system]),
)


TRAFFIC = q.TableOf(
    "What was moved",
    *PLACE,
    q.text("received", _rounded(RECEIVED)),
    q.text("sent", _rounded(SENT)),
    q.text("packets, both ways", _rounded(PACKETS), numeric=True),
    note="Medians with {delay}, of the client's device while the clock ran.",
)


def _fits(run: q.Run, cases: Sequence[Case]) -> q.Table:
    shown, delay = cases[0].shown, delay_text(cases[0].delay)
    return q.TableOf[Case](
        "Time = start + round trips",
        *PLACE,
        q.value("start (95 %)", lambda case: case.found and case.found.start, shown.unit),
        q.value("round trips (95 %)", lambda case: case.found and case.found.trips, ""),
        q.share("furthest off", lambda case: case.found and case.found.furthest),
        q.text("fits", lambda case: case.verdict),
        q.share(f"of the time with {delay}", Case.waiting),
        q.text("packets a round trip", Case.packets, numeric=True),
        q.text("bytes / start [MiB/s]", Case.rate, numeric=True),
        note=f"Fitted in each block; medians over blocks. Fits: at every delay within "
        f"{q.format_share(FITS)}, by {FEWEST_DELAYS} delays or more. Packets are those with {delay}; bytes "
        f"are given from {ENOUGH_FOR_A_RATE >> 10} KiB on.",
    ).of(Case(shown, *place, found) for place, found in _model(run).items())


def _figure(run: q.Run, _: object) -> q.Figure:
    rows = [
        (NAMES[system], operation, found.trips)
        for each in Shown.of(run).far
        for (operation, system), found in _model(run).items()
        if system == each and found.fits and q.excludes_zero(found.trips) and found.trips.median > 0
    ]
    note = "Where the model holds and a round trip was found; medians with their 95 % intervals."
    return q.dots("Round trips waited for one after another", "round trips", rows, note=note)


section = q.Question(
    title=TITLE,
    experiment="fs.compare",
    rows=_moved,
    headline=_headline,
    text=(
        "Start: the time without delay. Trips: round trips in sequence. Bytes and packets: the client's.",
        "oscope-fs fetches whole files, and sends what changed; the others move what is asked for.",
        "NFS is not encrypted.",
        notes,
    ),
    tables=(lambda _, cases: TRAFFIC.of(cases, delay=delay_text(cases[0].delay)), _fits),
    figures=_figure,
    missing=lambda _: "",
)
