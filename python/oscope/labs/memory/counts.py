"""How many accesses there are, by the loop's formula and counted, and which miss caches and TLBs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from oscope import questions as q
from oscope.figures.words import share
from oscope.labs.memory import FOOTPRINTS, SET_LINES, WALKS, WRITTEN, reference
from oscope.labs.memory.access import cite, each_set, sets, walked

# ---- how many accesses there are

EXPERIMENTS = ("memory.access", "memory.counters")
FED = {"reads": "simulated_l1d_read_access", "writes": "simulated_l1d_write_access"}
"""Accesses as the model of the caches counted them."""
HARDWARE = {"reads": "l1d_read_access", "writes": "l1d_write_access"}


def formula(count: int) -> dict[str, int]:
    """Return the accesses that `count` sets make: one in 8 is a write."""
    accesses = count * WALKS * SET_LINES
    return {"accesses": accesses, "reads": accesses - accesses // WRITTEN, "writes": accesses // WRITTEN}


def _own(point: q.Point) -> dict[str, int]:
    return formula(sets(point.samples))


def _different(found: Sequence[q.Point]) -> list[q.Point]:
    """Return the first of the points that make the same accesses."""
    seen: dict[tuple[object, ...], q.Point] = {}
    for each in found:
        place = (each.factors.get("pattern"), each.factors.get("footprint"), sets(each.samples), _fed(each))
        seen.setdefault((each.run.experiment.experiment, *place), each)
    return list(seen.values())


def _fed(point: q.Point) -> bool:
    """Say whether a model was fed with the accesses of this point, and so counted them."""
    return all(len(q.measured(point.samples, name)[0]) for name in FED.values())


def _equal(point: q.Point) -> str:
    if not _fed(point):
        return "not counted"
    wanted = _own(point)
    found = ((q.measured(point.samples, name)[0], wanted[kind]) for kind, name in FED.items())
    return "yes" if all(bool(np.all(values == one)) for values, one in found) else "no"


def _loop(*_: object) -> str:
    wanted = formula(reference.SETS)
    reads, writes = q.format_count(wanted["reads"]), q.format_count(wanted["writes"])
    return (
        f"The loop of {q.format_count(reference.SETS)} sets makes {reads} reads and {writes} writes, 7 to 1."
    )


def _beyond(kind: str) -> float:
    """Return what the original report's counters have more than the formula."""
    return reference.PATTERN["seq"][HARDWARE[kind]].mean - formula(reference.SETS)[kind]


EXPERIMENT: q.Column[q.Point] = q.text("experiment", lambda point: point.run.experiment.experiment)


ORIGINAL: q.TableOf[str] = q.TableOf(
    "The original report's counters beside the formula",
    q.text("", lambda kind: kind),
    q.count("more", _beyond),
    q.text("share", lambda kind: q.format_share(_beyond(kind) / formula(reference.SETS)[kind])),
    q.number("more, a set", lambda kind: _beyond(kind) / reference.SETS, ".4f"),
    note=f"Sequential. The formula: sets x {WALKS} walks x {SET_LINES} lines, one in {WRITTEN} written.",
)
ACCESSES: q.TableOf[q.Point] = q.TableOf(
    "Accesses by the formula and counted",
    *(EXPERIMENT, *q.levels("pattern", "footprint")),
    q.count("sets", lambda point: sets(point.samples)),
    q.count("accesses by the formula", lambda point: _own(point)["accesses"]),
    q.count("reads", lambda point: _own(point)["reads"]),
    q.count("writes", lambda point: _own(point)["writes"]),
    q.written("reads fed to the model", FED["reads"], q.plain_number, numeric=True),
    q.written("writes fed to it", FED["writes"], q.plain_number, numeric=True),
    q.text("equal in all samples", _equal),
    note=f"{q.MISSING}: by the formula alone. The original report has {q.format_count(reference.SETS)} sets.",
)


Counted = tuple[str, str, str, str, float, int, float]
"""Where the CPU counted reads or writes, which of them, the counter's median, the formula's, more a set."""


def _counted(point: q.Point, kind: str) -> Iterator[Counted]:
    if len(values := q.measured(point.samples, HARDWARE[kind])[0]):
        counter, own = float(np.median(values)), _own(point)[kind]
        place = (point.run.experiment.experiment, point.level("pattern"), point.level("footprint"), kind)
        yield (*place, counter, own, (counter - own) / sets(point.samples))


COUNTED: q.TableOf[Counted] = q.TableOf(
    "The counters of the CPU beside the formula",
    *q.items("experiment", "pattern", "footprint", ""),
    q.written("counter", lambda row: row[4], q.plain_number, numeric=True),
    q.written("formula", lambda row: row[5], q.plain_number, numeric=True),
    q.number("more, a set", lambda row: row[6], ".3f"),
)
COUNTS = q.Question(
    title="How many accesses there are",
    experiment=EXPERIMENTS,
    rows=lambda run: [point for own in run.all(*EXPERIMENTS) for point in own.points("accesses")],
    headline=_loop,
    text="A counter sees all of the process: 9 more a set fit a random generator with 4 words of state.",
    tables=(
        lambda _, found: ACCESSES.of(_different(found)),
        lambda *_: ORIGINAL.of(HARDWARE),
        lambda _, found: COUNTED.of(
            row for each in found for kind in HARDWARE for row in _counted(each, kind)
        ),
    ),
)

# ---- hits and misses of caches and TLBs: simulated, and by the CPU's counters where it has them

WORDS = {"seq": "sequential", "random": "random"}
NOT_MEASURED = "Simulated figures are computed by a model, not measured"
KINDS = {
    "simulated": (frozenset({"simulated", "both"}), "simulated_l1d_read_access"),
    "hardware": (frozenset({"hardware", "both"}), "l1d_read_access"),
}
"""Of both kinds of figures: the levels of `counters` that have them, and a metric that they have."""


class Event(NamedTuple):
    """One event, simulated and counted; where the CPU has no such counter, the latter has no values."""

    simulated: q.Quantity
    hardware: q.Quantity


def _event(name: str, metric: str) -> Event:
    return Event(replace(each_set(name, f"simulated_{metric}"), key=metric), each_set(name, metric))


def _rate(prefix: str) -> q.Quantity:
    def of(point: q.PointSamples) -> q.Floats:
        return q.metric(point, f"{prefix}l1d_read_miss") / q.metric(point, f"{prefix}l1d_read_access")

    return q.Quantity("L1D read miss rate", "", of, "rate")


RATE = Event(_rate("simulated_"), _rate(""))
MISSES = (
    _event("L1D read misses", "l1d_read_miss"),
    _event("L1D write misses", "l1d_write_miss"),
    _event("L2 misses", "l2_miss"),
    _event("dTLB read misses", "dtlb_read_miss"),
    _event("dTLB write misses", "dtlb_write_miss"),
    _event("second-level TLB misses", "stlb_miss"),
)
READS, WRITES = _event("L1D reads", "l1d_read_access"), _event("L1D writes", "l1d_write_access")
EVENTS = (READS, WRITES, MISSES[0], RATE, *MISSES[1:])


class Where(NamedTuple):
    """The points of one pattern over one footprint, by the kind of their figures."""

    footprint: str
    pattern: str
    points: dict[str, q.PointSamples | None]
    run: q.Run

    def of(self, event: Event, kind: str) -> q.Summary | None:
        """Return an event of a set, `simulated` or by the `hardware`."""
        return self.run.summary(self.points[kind], getattr(event, kind))


def _places(run: q.Run) -> list[Where]:
    found = []
    for footprint in run.levels("footprint", FOOTPRINTS):
        for pattern in WORDS:
            points: dict[str, q.PointSamples | None] = dict.fromkeys(KINDS)
            for kind, (levels, name) in KINDS.items():
                known = q.known(run.experiment, name, footprint=footprint, pattern=pattern)
                own = (point for point in known if point.factors.get("counters") in levels)
                points[kind] = next(own, None)
            if any(point is not None for point in points.values()):
                found.append(Where(footprint, pattern, points, run))
    return found


def _cell(summary: q.Summary | None, event: Event) -> str:
    """Return the median with its interval; what is the same in every sample stands alone."""
    if summary is None:
        return q.MISSING
    alone = summary.minimum == summary.maximum
    if event is RATE:
        if summary.ci95 is None or alone:
            return q.format_share(summary.median)
        return share(summary.median, *summary.ci95)
    return f"{summary.median:.3g}" if alone and 0 < summary.median < 10 else q.figure(summary, "")


def _miss_rates(_: q.Run, found: Sequence[Where]) -> str:
    last = [each for each in found if each.footprint == found[-1].footprint]
    for kind, word in (("hardware", "Counted by the CPU"), ("simulated", "Simulated")):
        rates = {each.pattern: rate for each in last if (rate := each.of(RATE, kind)) is not None}
        if len(rates) == len(WORDS):
            shares = [_cell(rates[end], RATE) for end in WORDS]
            place = f"{word}, with footprint={found[-1].footprint}"
            return f"{place}: {shares[0]} of the L1D reads miss in sequence and {shares[1]} at random."
    return "Sequential and random access were not both measured."


def _geometry(run: q.Run, _: Sequence[Where]) -> list[str]:
    simulated = (
        each for each in q.shown(run.experiment) if each.factors.get("counters") in KINDS["simulated"][0]
    )
    return list(dict.fromkeys(note for point in simulated for note in point.notes))


def _off(where: Where, event: Event) -> str | None:
    model, counted = (where.of(event, kind) for kind in KINDS)
    if model is None or counted is None or not counted.median > 0:
        return None
    low, high = counted.ci95 or (np.nan, np.nan)
    bounds = (model.median / high, model.median / low) if low > 0 else (np.nan, np.nan)
    return q.bounded_text(model.median / counted.median, *bounds)


def _cited(each: Where, event: Event) -> str | None:
    if each.footprint != "first64th":
        return None
    if event is RATE:
        known = reference.PATTERN[each.pattern]
        return q.format_share(known["l1d_read_miss"].mean / known["l1d_read_access"].mean)
    return cite(reference.PATTERN, event.simulated, each.pattern)


EVENTS_TABLE: q.TableOf[tuple[Where, Event]] = q.TableOf(
    "Events of a working set, simulated and counted",
    q.text("footprint", lambda row: row[0].footprint),
    q.text("pattern", lambda row: WORDS[row[0].pattern]),
    q.text("event, for a set", lambda row: row[1].simulated.name),
    q.text("simulated", lambda row: _cell(row[0].of(row[1], "simulated"), row[1])),
    q.text("hardware", lambda row: _cell(row[0].of(row[1], "hardware"), row[1])),
    q.text("simulated / hardware", lambda row: _off(*row)),
    q.text("original report (hardware)", lambda row: _cited(*row)),
    note=f"{NOT_MEASURED}. {q.MISSING}: not counted, or not in the report. {{walked}} {reference.WHERE}",
)


def _events_table(run: q.Run, found: Sequence[Where]) -> q.Table:
    rows = [
        (each, event) for each in found for event in EVENTS if any(each.of(event, kind) for kind in KINDS)
    ]
    return EVENTS_TABLE.of(rows, walked=walked(q.shown(run.experiment)))


def _misses_figures(run: q.Run, found: Sequence[Where]) -> Iterator[q.Figure]:
    note = f"{NOT_MEASURED}. A bar that is missing is 0, or not known. {walked(q.shown(run.experiment))}"

    def drawn(summary: q.Summary | None) -> float | None:
        # A logarithmic axis has no place for 0.
        return summary.median if summary is not None and summary.median > 0 else None

    for footprint, own in q.grouped(found, lambda each: each.footprint).items():
        rows = (
            (f"{WORDS[each.pattern]} ({kind})", event.simulated.name, drawn(each.of(event, kind)))
            for each in own
            for kind in KINDS
            for event in MISSES
        )
        title = f"Misses of a working set over {footprint}"
        yield q.bars(title, q.plots.axis("misses a set", scale="log"), rows, note)


COUNTERS = q.Question(
    title="Hits and misses of caches and TLBs",
    experiment="memory.counters",
    rows=_places,
    headline=_miss_rates,
    text=(
        f"{NOT_MEASURED}: sets of true LRU, without prefetcher, other processes or kernel.",
        _geometry,
    ),
    tables=_events_table,
    figures=_misses_figures,
    missing=lambda run: " ".join(
        f"counters={level}: {why}"
        for level in run.levels("counters")
        if (why := q.reasons(run.experiment, counters=level))
    ),
)
