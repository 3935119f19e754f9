"""Hits and misses of caches and TLBs: simulated, and by the CPU's counters where it has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.words import share
from oscope.labs.curve import metric, unmeasured
from oscope.labs.memory import reference
from oscope.labs.memory.patterns import ENDS, WORDS, footprints
from oscope.labs.memory.sides import Quantity, cite, each_set, figure, shown, walked
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, bounded_text, format_share
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.statistics import Summary

TITLE = "Hits and misses of caches and TLBs"
EXPERIMENT = "memory.counters"
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
L1_MISSES, RATE, TLB_MISSES = EVENTS[2], EVENTS[3], EVENTS[6]
MISSES = tuple(EVENTS[index].simulated for index in (2, 5, 6, 8))


@dataclass(frozen=True)
class Where:
    """The points of one pattern over one footprint."""

    footprint: str
    pattern: str
    simulated: PointSamples | None
    hardware: PointSamples | None


def section(results: Analysed) -> Section | None:
    """Answer A10."""
    experiment = results.get(EXPERIMENT)
    if experiment is None:
        return None
    found = _found(experiment)
    missing = _missing(experiment)
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=" ".join([*_answer(experiment, found), *_error(experiment, found)]),
        text=[
            (
                f"{NOT_MEASURED}: sets of true LRU, fed with the very addresses that the loop touches, "
                "after the same 16 MiB that flush the L1 (those are not counted). The model has no "
                "prefetcher, no other process and no kernel; a real CPU has all three, and its replacement "
                "is not quite LRU."
            ),
            *_geometry(experiment),
        ],
        tables=[_table(experiment, found)],
        figures=_figures(experiment, found),
        missing=missing,
    )


def _found(experiment: ExperimentResults) -> list[Where]:
    found = []
    for footprint in footprints(experiment):
        for pattern in ENDS:
            points = shown(experiment, footprint=footprint, pattern=pattern)
            pair = [
                next(
                    (each for each in points if each.factors.get("counters") in levels and _has(each, name)),
                    None,
                )
                for levels, name in ((SIMULATED, "simulated_l1d_read_access"), (HARDWARE, "l1d_read_access"))
            ]
            if any(pair):
                found.append(Where(footprint, pattern, *pair))
    return found


def _has(point: PointSamples, name: str) -> bool:
    return bool(np.isfinite(metric(point, name)).any())


def _missing(experiment: ExperimentResults) -> str:
    return " ".join(
        f"counters={level}: {why}"
        for level in dict.fromkeys(str(point.factors.get("counters")) for point in experiment.points)
        if (why := unmeasured(experiment, counters=level))
    )


def _value(
    experiment: ExperimentResults, quantity: Quantity | None, point: PointSamples | None
) -> Summary | None:
    return None if quantity is None or point is None else quantity.summary(experiment, point)


def _cell(summary: Summary | None, quantity: Quantity) -> str:
    """Return the median with its interval; what is the same in every sample stands alone."""
    if summary is None:
        return MISSING
    if quantity.key == "rate":
        if summary.ci95 is None or summary.minimum == summary.maximum:
            return format_share(summary.median)
        return share(summary.median, *summary.ci95)
    alone = summary.minimum == summary.maximum
    return f"{summary.median:.3g}" if alone and 0 < summary.median < 10 else figure(summary, "")


def _answer(experiment: ExperimentResults, found: Sequence[Where]) -> list[str]:
    """Hold random against sequential, by the model and by the counters."""
    told = []
    for footprint in dict.fromkeys(each.footprint for each in found):
        pair = {each.pattern: each for each in found if each.footprint == footprint}
        if set(pair) != set(ENDS):
            continue
        for kind, word in (("simulated", "Simulated"), ("hardware", "Counted by the CPU")):
            rates, tlbs = (
                [_value(experiment, getattr(event, kind), getattr(pair[pattern], kind)) for pattern in ENDS]
                for event in (RATE, TLB_MISSES)
            )
            if None in rates or None in tlbs:
                continue
            shares = [_cell(each, RATE.simulated) for each in rates]
            tlb = [_cell(each, TLB_MISSES.simulated) for each in tlbs]
            told.append(
                f"{word}, over {footprint}: {shares[0]} of the L1D reads miss in sequence and {shares[1]} at "
                f"random; the dTLB misses {tlb[0]} and {tlb[1]} reads a set."
            )
    return told


def _error(experiment: ExperimentResults, found: Sequence[Where]) -> list[str]:
    """Say how far the model is from the counters; nothing where there are none."""
    errors = []
    for each in found:
        for event in EVENTS:
            model, counted = (
                _value(experiment, getattr(event, kind), getattr(each, kind))
                for kind in ("simulated", "hardware")
            )
            if model is not None and counted is not None and counted.median > 0:
                errors.append(
                    (
                        model.median / counted.median - 1,
                        f"{_off(model, counted)}, {event.simulated.name}, {each.pattern}, {each.footprint}",
                    )
                )
    if not errors:
        return ["There are no counters of the CPU here to hold the model against."]
    low, high = (end(errors) for end in (min, max))
    return [
        f"Simulated over counted, the model is off by {low[0]:+.1%} ({low[1]}) to {high[0]:+.1%} ({high[1]})."
    ]


def _geometry(experiment: ExperimentResults) -> list[str]:
    """Return what the points say of the model's geometry, each note once."""
    notes = dict.fromkeys(
        note
        for point in shown(experiment)
        if point.factors.get("counters") in SIMULATED
        for note in point.notes
    )
    return list(notes)


def _table(experiment: ExperimentResults, found: Sequence[Where]) -> Table:
    rows = []
    for each in found:
        for event in EVENTS:
            model = _value(experiment, event.simulated, each.simulated)
            counted = _value(experiment, event.hardware, each.hardware)
            if model is None and counted is None:
                continue
            rows.append(
                [
                    each.footprint,
                    WORDS[ENDS.index(each.pattern)],
                    event.simulated.name,
                    _cell(model, event.simulated),
                    _cell(counted, event.simulated),
                    _off(model, counted),
                    _cited(event, each),
                ]
            )
    columns = [
        "footprint",
        "pattern",
        "event, for a set",
        "simulated",
        "hardware",
        "simulated / hardware",
        "document (hardware)",
    ]
    note = (
        f"{NOT_MEASURED}. {MISSING}: not counted here, or not in the document. "
        f"{walked(shown(experiment))} {reference.WHERE}"
    )
    return Table("Events of a working set, simulated and counted", columns, rows, frozenset(), note)


def _off(model: Summary | None, counted: Summary | None) -> str:
    if model is None or counted is None or not counted.median > 0:
        return MISSING
    low, high = counted.ci95 or (np.nan, np.nan)
    bounds = (model.median / high, model.median / low) if low > 0 else (np.nan, np.nan)
    return bounded_text(model.median / counted.median, *bounds)


def _cited(event: Event, each: Where) -> str:
    if each.footprint != "first64th":
        return MISSING
    if event is RATE:
        known = reference.PATTERN[each.pattern]
        return format_share(known["l1d_read_miss"].mean / known["l1d_read_access"].mean)
    return cite(reference.PATTERN, event.simulated, each.pattern)


def _figures(experiment: ExperimentResults, found: Sequence[Where]) -> list[Figure]:
    """Draw the misses of a set, random beside sequential, for each footprint."""
    figures = []
    for footprint in dict.fromkeys(each.footprint for each in found):
        series = []
        for each in found:
            if each.footprint != footprint:
                continue
            for kind in ("simulated", "hardware"):
                values = [_value(experiment, getattr(event, kind), getattr(each, kind)) for event in DRAWN]
                if any(value is not None and value.median > 0 for value in values):
                    # A logarithmic axis has no place for 0.
                    bars = [None if one is None or one.median <= 0 else one.median for one in values]
                    series.append(plots.Bars(f"{WORDS[ENDS.index(each.pattern)]} ({kind})", bars))
        if series:
            names = [event.simulated.name for event in DRAWN]
            note = f"{NOT_MEASURED}. A bar that is missing is 0, or not known. {walked(shown(experiment))}"
            title = f"Misses of a working set over {footprint}"
            figures.append(plots.bars(title, plots.axis("misses a set", scale="log"), names, series, note))
    return figures


DRAWN = tuple(EVENTS[index] for index in (2, 4, 5, 6, 7, 8))
