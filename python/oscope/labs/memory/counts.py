"""How many accesses there are, by the loop's formula and counted, and which miss caches and TLBs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from oscope import questions as q
from oscope.figures.answer_text import share
from oscope.labs.memory import FOOTPRINTS, SET_LINES, WALKS, WRITTEN
from oscope.labs.memory.access import cite, each_set, sets, walked
from oscope.originals import memory as reference

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

    def same(each: q.Point) -> tuple[object, ...]:
        levels = (each.factors.get(name) for name in ("pattern", "footprint"))
        return (each.run.experiment.experiment, *levels, sets(each.samples), _fed(each))

    return [own[0] for own in q.grouped(found, same).values()]


def _fed(point: q.Point) -> bool:
    """Say whether a model was fed with the accesses of this point, and so counted them."""
    return all(len(q.measured(point.samples, name)[0]) for name in FED.values())


def _equal(point: q.Point) -> str:
    if not _fed(point):
        return "not counted"
    fed = _own(point)
    found = ((q.measured(point.samples, name)[0], fed[kind]) for kind, name in FED.items())
    return "yes" if all(bool(np.all(values == one)) for values, one in found) else "no"


def _beyond(kind: str) -> float:
    """Return what the original report's counters have more than the formula."""
    return reference.PATTERN["seq"][HARDWARE[kind]].mean - formula(reference.SETS)[kind]


EXPERIMENT: q.Column[q.Point] = q.text("experiment", lambda point: point.run.experiment.experiment)


ORIGINAL: q.TableOf[str] = q.TableOf(
    "The original report's counters beside the formula",
    q.text("", lambda kind: kind),
    q.count("by the formula", lambda kind: formula(reference.SETS)[kind]),
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


COUNTED: q.TableOf[tuple[str, ...]] = q.TableOf(
    "The counters of the CPU beside the formula",
    *q.items("experiment", "pattern", "footprint", ""),
    q.Column(("counter", "formula", "more, a set"), lambda row, _: row[4:], numeric=True),
)


def _counted(found: Sequence[q.Point]) -> Iterator[tuple[str, ...]]:
    """Yield where the CPU counted reads or writes, the counter's median, the formula's, and more a set."""
    for point, kind in product(found, HARDWARE):
        if counter := point.of(HARDWARE[kind]):
            where = (point.run.experiment.experiment, point.level("pattern"), point.level("footprint"), kind)
            own = _own(point)[kind]
            more = (counter.median - own) / sets(point.samples)
            yield (*where, *map(q.plain_number, (counter.median, own)), f"{more:.3f}")


COUNTS = q.Question(
    title="How many accesses there are",
    experiment=EXPERIMENTS,
    rows=lambda run: [point for own in run.all(*EXPERIMENTS) for point in own.points("accesses")],
    headline="A set makes {reads} reads and {writes} writes".format(**formula(1)),
    text="A counter sees all of the process: 9 more a set fit a random generator with 4 words of state.",
    tables=(
        lambda _, found: ACCESSES.of(_different(found)),
        lambda *_: ORIGINAL.of(HARDWARE),
        lambda _, found: COUNTED.of(_counted(found)),
    ),
)

# ---- hits and misses of caches and TLBs: simulated, and by the CPU's counters where it has them

WORDS = {"seq": "sequential", "random": "random"}
NOT_MEASURED = "Simulated figures are computed by a model, not measured"
KINDS = {"simulated": "simulated_", "hardware": ""}
"""Both kinds of figures, and how the names of their metrics begin."""
READS, RATE = "L1D reads", "L1D read miss rate"
MISSES = {
    "L1D read misses": "l1d_read_miss",
    "L1D write misses": "l1d_write_miss",
    "L2 misses": "l2_miss",
    "dTLB read misses": "dtlb_read_miss",
    "dTLB write misses": "dtlb_write_miss",
    "second-level TLB misses": "stlb_miss",
}
EVENTS = {
    **{READS: "l1d_read_access", "L1D writes": "l1d_write_access", "L1D read misses": "l1d_read_miss"},
    **{RATE: "", **MISSES},
}
"""Events with their metrics, but for the rate, which is made of two."""


def _quantity(event: str, prefix: str) -> q.Quantity:
    def rate(point: q.PointSamples) -> q.Floats:
        return q.metric(point, f"{prefix}l1d_read_miss") / q.metric(point, f"{prefix}l1d_read_access")

    return q.Quantity(RATE, "", rate) if event == RATE else each_set(event, f"{prefix}{EVENTS[event]}")


FOR_A_SET = {(event, kind): _quantity(event, KINDS[kind]) for event in EVENTS for kind in KINDS}


class Where(NamedTuple):
    """One pattern over one footprint."""

    run: q.Run
    footprint: str
    pattern: str

    def of(self, event: str, kind: str) -> q.Summary | None:
        """Return an event of a set, `simulated` or by the `hardware`; None where it has no such counter."""
        known = FOR_A_SET[READS, kind].key
        point = self.run.point(known, footprint=self.footprint, pattern=self.pattern)
        return None if point is None else point.of(FOR_A_SET[event, kind])


def _places(run: q.Run) -> list[Where]:
    found = (Where(run, *place) for place in product(run.levels("footprint", FOOTPRINTS), WORDS))
    return [each for each in found if any(each.of(READS, kind) for kind in KINDS)]


def _cell(summary: q.Summary | None, event: str) -> str:
    """Return the median with its interval; what is the same in every sample stands alone."""
    if summary is None:
        return q.MISSING
    alone = summary.minimum == summary.maximum
    if event == RATE:
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
    simulated = run.points(FOR_A_SET[READS, "simulated"].key)
    return list(dict.fromkeys(note for point in simulated for note in point.samples.notes))


def _cited(each: Where, event: str) -> str | None:
    if each.footprint != "first64th":
        return None
    if event == RATE:
        known = reference.PATTERN[each.pattern]
        return q.format_share(known["l1d_read_miss"].mean / known["l1d_read_access"].mean)
    return cite(reference.PATTERN, FOR_A_SET[event, "hardware"], each.pattern)


EVENTS_TABLE: q.TableOf[tuple[Where, str]] = q.TableOf(
    "Events of a working set, simulated and counted",
    q.text("footprint", lambda row: row[0].footprint),
    q.text("pattern", lambda row: WORDS[row[0].pattern]),
    q.text("event, for a set", lambda row: row[1]),
    q.text("simulated", lambda row: _cell(row[0].of(row[1], "simulated"), row[1])),
    q.text("hardware", lambda row: _cell(row[0].of(row[1], "hardware"), row[1])),
    q.text("simulated / hardware", lambda row: q.quotient_text(*(row[0].of(row[1], kind) for kind in KINDS))),
    q.text("original report (hardware)", lambda row: _cited(*row)),
    note=f"{NOT_MEASURED}. {q.MISSING}: not counted, or not in the report. {{walked}} {reference.WHERE}",
)


def _misses_figures(run: q.Run, found: Sequence[Where]) -> Iterator[q.Figure]:
    note = f"{NOT_MEASURED}. A bar that is missing is 0, or not known. {walked(q.shown(run.experiment))}"
    for footprint, own in q.grouped(found, lambda each: each.footprint).items():
        rows = (
            (each, kind, event, each.of(event, kind)) for each, kind, event in product(own, KINDS, MISSES)
        )
        bars = (
            # A logarithmic axis has no place for 0.
            (f"{WORDS[each.pattern]} ({kind})", event, n.median if n and n.median > 0 else None)
            for each, kind, event, n in rows
        )
        title = f"Misses of a working set over {footprint}"
        yield q.bars(title, q.plots.axis("misses a set", scale="log"), bars, note)


COUNTERS = q.Question(
    title="Hits and misses of caches and TLBs",
    experiment="memory.counters",
    rows=_places,
    headline=_miss_rates,
    text=(
        f"{NOT_MEASURED}: sets of true LRU, without prefetcher, other processes or kernel.",
        _geometry,
    ),
    tables=lambda run, found: EVENTS_TABLE.of(
        (row for row in product(found, EVENTS) if any(row[0].of(row[1], kind) for kind in KINDS)),
        walked=walked(q.shown(run.experiment)),
    ),
    figures=_misses_figures,
    missing=lambda run: " ".join(
        f"counters={level}: {why}"
        for level in run.levels("counters")
        if (why := q.reasons(run.experiment, counters=level))
    ),
)
