"""Hits and misses of caches and TLBs: simulated, and by the CPU's counters where it has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oscope.figures import plots
from oscope.figures.words import share
from oscope.labs.engine.drawing import bars
from oscope.labs.engine.quantity import Quantity, figure, metric
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run, shown
from oscope.labs.engine.table import TableOf, text
from oscope.labs.engine.words import reasons
from oscope.labs.memory import FOOTPRINTS, reference
from oscope.labs.memory.access import cite, each_set, walked
from oscope.model.document import Figure, Table
from oscope.model.formatting import MISSING, bounded_text, format_share
from oscope.model.samples import Floats, PointSamples
from oscope.statistics import Summary

ENDS = ("seq", "random")
WORDS = {"seq": "sequential", "random": "random"}
SIMULATED = frozenset({"simulated", "both"})
HARDWARE = frozenset({"hardware", "both"})
NOT_MEASURED = "Simulated figures are computed by a model, not measured"


def _rate(misses: str, accesses: str) -> Quantity:
    def of(point: PointSamples) -> Floats:
        return metric(point, misses) / metric(point, accesses)

    return Quantity("L1D read miss rate", "", of, "rate")


@dataclass(frozen=True)
class Event:
    """One event, simulated and counted."""

    simulated: Quantity
    hardware: Quantity | None
    """None: the CPU has no such counter here."""


def _event(name: str, simulated: str, hardware: str = "") -> Event:
    counter = each_set(name, hardware) if hardware else None
    return Event(replace(each_set(name, simulated), key=hardware), counter)


EVENTS = (
    _event("L1D reads", "simulated_l1d_read_access", "l1d_read_access"),
    _event("L1D writes", "simulated_l1d_write_access", "l1d_write_access"),
    _event("L1D read misses", "simulated_l1d_read_miss", "l1d_read_miss"),
    Event(
        _rate("simulated_l1d_read_miss", "simulated_l1d_read_access"),
        _rate("l1d_read_miss", "l1d_read_access"),
    ),
    _event("L1D write misses", "simulated_l1d_write_miss"),
    _event("L2 misses", "simulated_l2_miss"),
    _event("dTLB read misses", "simulated_dtlb_read_miss", "dtlb_read_miss"),
    _event("dTLB write misses", "simulated_dtlb_write_miss", "dtlb_write_miss"),
    _event("second-level TLB misses", "simulated_stlb_miss"),
)
RATE = EVENTS[3]


@dataclass(frozen=True)
class Where:
    """The points of one pattern over one footprint."""

    footprint: str
    pattern: str
    simulated: PointSamples | None
    hardware: PointSamples | None
    run: Run

    def of(self, event: Event, kind: str) -> Summary | None:
        """Return an event of a set, `simulated` or by the `hardware`."""
        quantity = getattr(event, kind)
        return None if quantity is None else self.run.summary(getattr(self, kind), quantity)


DRAWN = tuple(EVENTS[index] for index in (2, 4, 5, 6, 7, 8))


def _found(run: Run) -> list[Where]:
    kinds = ((SIMULATED, "simulated_l1d_read_access"), (HARDWARE, "l1d_read_access"))
    found = []
    for footprint in run.levels("footprint", FOOTPRINTS):
        for pattern in ENDS:
            points = shown(run.experiment, footprint=footprint, pattern=pattern)
            simulated, hardware = (
                next((p for p in points if p.factors.get("counters") in levels and _has(p, name)), None)
                for levels, name in kinds
            )
            if simulated or hardware:
                found.append(Where(footprint, pattern, simulated, hardware, run))
    return found


def _has(point: PointSamples, name: str) -> bool:
    return bool(np.isfinite(metric(point, name)).any())


def _missing(run: Run) -> str:
    return " ".join(
        f"counters={level}: {why}"
        for level in run.levels("counters")
        if (why := reasons(run.experiment, counters=level))
    )


def _cell(summary: Summary | None, event: Event) -> str:
    """Return the median with its interval; what is the same in every sample stands alone."""
    if summary is None:
        return MISSING
    alone = summary.minimum == summary.maximum
    if event is RATE:
        if summary.ci95 is None or alone:
            return format_share(summary.median)
        return share(summary.median, *summary.ci95)
    return f"{summary.median:.3g}" if alone and 0 < summary.median < 10 else figure(summary, "")


def _headline(_: Run, found: Sequence[Where]) -> str:
    """Give the miss rates over the largest footprint, counted where they were."""
    last = [each for each in found if each.footprint == found[-1].footprint]
    for kind, word in (("hardware", "Counted by the CPU"), ("simulated", "Simulated")):
        rates = {each.pattern: rate for each in last if (rate := each.of(RATE, kind)) is not None}
        if len(rates) == len(ENDS):
            shares = [_cell(rates[end], RATE) for end in ENDS]
            place = f"{word}, with footprint={found[-1].footprint}"
            return f"{place}: {shares[0]} of the L1D reads miss in sequence and {shares[1]} at random."
    return "Sequential and random access were not both measured."


def _geometry(run: Run, _: Sequence[Where]) -> list[str]:
    """Return what the points say of the model's geometry, each note once."""
    points = [each for each in shown(run.experiment) if each.factors.get("counters") in SIMULATED]
    return list(dict.fromkeys(note for point in points for note in point.notes))


def _off(model: Summary | None, counted: Summary | None) -> str:
    if model is None or counted is None or not counted.median > 0:
        return MISSING
    low, high = counted.ci95 or (np.nan, np.nan)
    bounds = (model.median / high, model.median / low) if low > 0 else (np.nan, np.nan)
    return bounded_text(model.median / counted.median, *bounds)


def _cited(each: Where, event: Event) -> str:
    if each.footprint != "first64th":
        return MISSING
    if event is RATE:
        known = reference.PATTERN[each.pattern]
        return format_share(known["l1d_read_miss"].mean / known["l1d_read_access"].mean)
    return cite(reference.PATTERN, event.simulated, each.pattern)


TABLE: TableOf[tuple[Where, Event]] = TableOf(
    "Events of a working set, simulated and counted",
    (
        text("footprint", lambda row: row[0].footprint),
        text("pattern", lambda row: WORDS[row[0].pattern]),
        text("event, for a set", lambda row: row[1].simulated.name),
        text("simulated", lambda row: _cell(row[0].of(row[1], "simulated"), row[1])),
        text("hardware", lambda row: _cell(row[0].of(row[1], "hardware"), row[1])),
        text(
            "simulated / hardware",
            lambda row: _off(*(row[0].of(row[1], k) for k in ("simulated", "hardware"))),
        ),
        text("original report (hardware)", lambda row: _cited(*row)),
    ),
    f"{NOT_MEASURED}. {MISSING}: not counted here, or not in the original report. {{walked}} "
    f"{reference.WHERE}",
)


def _table(run: Run, found: Sequence[Where]) -> Table:
    rows = [
        (each, event)
        for each in found
        for event in EVENTS
        if any(each.of(event, kind) is not None for kind in ("simulated", "hardware"))
    ]
    return TABLE.of(rows, walked=walked(shown(run.experiment)))


def _figures(run: Run, found: Sequence[Where]) -> list[Figure]:
    """Draw the misses of a set, random beside sequential, for each footprint."""
    figures = []
    note = f"{NOT_MEASURED}. A bar that is missing is 0, or not known. {walked(shown(run.experiment))}"
    for footprint in dict.fromkeys(each.footprint for each in found):
        series: dict[str, list[Summary | float | None]] = {}
        for each in (each for each in found if each.footprint == footprint):
            for kind in ("simulated", "hardware"):
                values = [each.of(event, kind) for event in DRAWN]
                # A logarithmic axis has no place for 0.
                row = [one.median if one is not None and one.median > 0 else None for one in values]
                series[f"{WORDS[each.pattern]} ({kind})"] = list(row)
        names = [event.simulated.name for event in DRAWN]
        title = f"Misses of a working set over {footprint}"
        figures.append(bars(title, plots.axis("misses a set", scale="log"), names, series, note))
    return figures


section = Question(
    title="Hits and misses of caches and TLBs",
    experiment="memory.counters",
    rows=_found,
    headline=_headline,
    text=(
        (
            f"{NOT_MEASURED}: sets of true LRU, fed with the very addresses that the loop touches, without "
            "prefetcher, other processes or kernel, which a real CPU has."
        ),
        _geometry,
    ),
    tables=(_table),
    figures=(_figures),
    missing=_missing,
)
