"""Why one file system is faster: the bytes and packets that each moved, and the round trips it waited for.

The model of a time over the delay is `time = start + trips · round trip`: `start` is what the work takes on a
line without delay, bytes over the line's rate included, and `trips` how many round trips are waited for, each
after the last. Packets that are under way together cost one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from oscope.labs import engine as q
from oscope.labs.fs.points import NAMES, Shown, delay_of, delay_text, notes

TITLE = "Why: bytes, packets and round trips"
NS = 1e9
MEBIBYTE = 1 << 20
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
    """An operation on a file system at one delay, and what was fitted over all."""

    operation: str
    system: str
    experiment: q.ExperimentResults
    point: q.PointSamples | None
    found: Trips | None

    @property
    def unit(self) -> str:
        """Unit of the time."""
        return self.experiment.metrics[self.experiment.headline].unit

    @property
    def verdict(self) -> str:
        """Whether the model fits."""
        if self.found is None or self.found.delays < FEWEST_DELAYS:
            return "cannot tell"
        return "yes" if self.found.fits else "no"

    def of(self, what: q.Values) -> q.Summary | None:
        """Return what was moved."""
        return None if self.point is None else q.derived(self.experiment, self.point, what)


def fitted(shown: Shown, system: str, operation: str) -> Trips | None:
    """Fit the model in each block that has all delays; None with fewer than two delays, or no such block."""
    points = q.known(shown.experiment, shown.time, system=system, operation=operation)
    by_delay = {delay_of(point.factors): q.block_medians(point, shown.time) for point in points}
    shared = sorted(set.intersection(*map(set, by_delay.values()))) if len(by_delay) > 1 else []
    if not shared:
        return None
    round_trips = np.array([2 * delay * NS for delay in by_delay])
    times: q.Floats = np.array([[medians[block] for medians in by_delay.values()] for block in shared])
    lines = np.array([_line(round_trips, row) for row in times])
    seed = shown.experiment.seed
    start, trips = (q.summarise(lines[:, column], shared, seed=seed) for column in (0, 1))
    centre: q.Floats = np.median(times, axis=0)
    off = np.abs(start.median + trips.median * round_trips - centre) / centre
    return Trips(start, trips, float(off.max()), len(by_delay))


def _line(round_trips: q.Floats, times: q.Floats) -> q.Floats:
    """Return start and slope of the line with the least squares of *relative* residuals.

    Times grow by orders of magnitude: absolute ones would leave what happens without delay to the noise of
    the longest.
    """
    design = np.column_stack([1 / times, round_trips / times])
    return np.asarray(np.linalg.lstsq(design, np.ones(len(times)), rcond=None)[0], dtype=np.float64)


def _model(run: q.Run) -> Model:
    shown = Shown.of(run)
    places = [(operation, system) for operation in shown.operations for system in shown.far]
    made = ((place, fitted(shown, place[1], place[0])) for place in places)
    return run.once("model", lambda: {place: found for place, found in made if found is not None})


def _waiting(case: Case, delay: float) -> float | None:
    """Return the share of the time at a delay that is waiting for round trips, where the model holds."""
    found = case.found
    if found is None or not found.fits or not delay:
        return None
    trips_ns = found.trips.median * 2 * delay * NS
    return (
        max(trips_ns, 0.0) / (trips_ns + max(found.start.median, 0.0))
        if q.excludes_zero(found.trips)
        else 0.0
    )


def _received(point: q.PointSamples) -> q.Floats:
    return q.metric(point, "received_bytes")


def _sent(point: q.PointSamples) -> q.Floats:
    return q.metric(point, "sent_bytes")


def _packets(point: q.PointSamples) -> q.Floats:
    return q.metric(point, "received_packets") + q.metric(point, "sent_packets")


def _has_traffic(point: q.PointSamples) -> bool:
    return bool(len(point)) and bool(np.isfinite(_packets(point)).any())


def _rounded(summary: q.Summary | None, unit: str) -> str:
    """Return a median with three digits or so: what is moved repeats, but for when acknowledgements come."""
    if summary is None:
        return q.MISSING
    spread = summary.median / 20
    return q.format_value(summary.median, spread if unit else max(spread, WHOLE), unit)


def _headline(run: q.Run, _: object) -> str:
    model = _model(run)
    fits = [(one.trips.median, key, one) for key, one in model.items() if one.fits]
    if fits:
        _, (operation, system), one = max(fits, key=lambda each: each[0])
        return f"{NAMES[system]} waits for most round trips: {q.bracketed(one.trips, '')} at {operation}."
    known = [one for one in model.values() if one.delays >= FEWEST_DELAYS]
    return "No time is one of round trips alone." if known else ""


def _cases(run: q.Run, found: Iterable[tuple[str, str]]) -> list[Case]:
    shown, model = Shown.of(run), _model(run)
    delay = shown.delays[-1]
    return [
        Case(*place, shown.experiment, shown.point(place[1], place[0], delay), model.get(place))
        for place in found
    ]


def _moved(run: q.Run) -> list[Case]:
    """Return what was measured at the longest delay; nothing where no point has traffic."""
    shown = Shown.of(run)
    if not any(_has_traffic(point) for point in shown.experiment.points):
        return []
    found = _cases(run, [(operation, system) for operation in shown.operations for system in shown.far])
    return [each for each in found if each.point is not None]


def _traffic(delay: float) -> q.TableOf[Case]:
    return q.TableOf(
        "What was moved",
        (
            q.text("operation", lambda case: case.operation),
            q.text("file system", lambda case: NAMES[case.system]),
            q.text("received", lambda case: _rounded(case.of(_received), "B")),
            q.text("sent", lambda case: _rounded(case.of(_sent), "B")),
            q.text("packets, both ways", lambda case: _rounded(case.of(_packets), ""), numeric=True),
        ),
        f"Medians with {delay_text(delay)}, of the client's device while the clock ran.",
    )


def _fits(delay: float) -> q.TableOf[Case]:
    return q.TableOf(
        "Time = start + round trips",
        (
            q.text("operation", lambda case: case.operation),
            q.text("file system", lambda case: NAMES[case.system]),
            q.text(
                "start (95 %)", lambda case: q.median(case.found.start, case.unit) if case.found else None
            ),
            q.value("round trips (95 %)", lambda case: case.found.trips if case.found else None, ""),
            q.share("furthest off", lambda case: case.found.furthest if case.found else None),
            q.text("fits", lambda case: case.verdict),
            q.share(f"of the time with {delay_text(delay)}", lambda case: _waiting(case, delay)),
            q.text("packets a round trip", lambda case: _rates(case)[0], numeric=True),
            q.text("bytes / start [MiB/s]", lambda case: _rates(case)[1], numeric=True),
        ),
        f"Fitted in each block; medians over blocks. Fits: at every delay within {q.format_share(FITS)}, by "
        f"{FEWEST_DELAYS} delays or more. Packets are those with {delay_text(delay)}; bytes are given from "
        f"{ENOUGH_FOR_A_RATE >> 10} KiB on.",
    )


def _rates(case: Case) -> list[str]:
    """Return packets a round trip, where the model fits and finds some, and bytes a second of the start."""
    found = case.found
    if found is None or case.point is None or not _has_traffic(case.point):
        return [q.MISSING, q.MISSING]
    packets, moved = case.of(_packets), case.of(lambda each: _received(each) + _sent(each))
    trips, start = found.trips.median, found.start.median
    each = packets.median / trips if packets and found.fits and trips >= 1 else None
    rate = (
        moved.median / MEBIBYTE / (start / NS)
        if moved and moved.median >= ENOUGH_FOR_A_RATE and start > 0
        else None
    )
    return [q.format_value(one, None if one is None else one / 50, "") for one in (each, rate)]


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
        "oscope-fs moves whole files at open and close; sshfs and NFS what is asked for, NFS unencrypted.",
        notes,
    ),
    tables=(
        lambda run, cases: _traffic(Shown.of(run).delays[-1]).of(cases),
        lambda run, _: _fits(Shown.of(run).delays[-1]).of(_cases(run, _model(run))),
    ),
    figures=_figure,
    missing=lambda _: "",
)
