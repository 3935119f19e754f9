"""Walking memory in sequence and at random, over both footprints, and beside a competitor: Figures 2, 5."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from oscope import questions as q
from oscope.labs.memory import FOOTPRINTS, LINE, SET_LINES, access
from oscope.labs.memory.access import (
    FAULTS_EACH_PAGE,
    RESIDENT,
    RESOURCES,
    TIME,
    cite,
    each_set,
    sets,
    walked,
)
from oscope.originals import memory as reference
from oscope.questions.original_figures import Known

# ---- in sequence and at random

ZEROS = "A page that is read first maps the page of zeros, and faults again when it is written."
FOOTPRINT_WORDS = {"first64th": "the first 1/64 of the buffer", "full": "the whole buffer"}
PATTERN = q.Sides(
    "pattern", ("seq", "random"), ("sequential", "random"), (TIME, *RESOURCES, FAULTS_EACH_PAGE), 1
)


def _slower(row: q.ComparedMetric, ratio: str, as_long: str) -> str:
    """Return a headline of a ratio of times, or that it is none."""
    return f"{as_long.format(q.times(row))}." if row.different == "yes" else f"{ratio} is {q.judged(row)}."


def _pattern_text(run: q.Run, found: Sequence[q.Point]) -> str:
    for footprint in reversed(run.levels("footprint", FOOTPRINTS)):
        if row := q.row_of(PATTERN.compared(run), TIME, footprint=footprint):
            where = f"Over {FOOTPRINT_WORDS[footprint]}, a random set"
            return _slower(
                row, f"{where} over a sequential one", f"{where} takes {{}} as long as a sequential one"
            )
    only, *others = dict.fromkeys(point.level("pattern") for point in found)
    if others:
        return "Sequential and random sets were never measured in the same case: nothing is compared."
    return f"Only {only} sets were measured: {found[0].value}."


def _zeros(_: q.Run, found: Sequence[q.Point]) -> list[str]:
    """Explain more faults than pages where the walk itself faults in anonymous pages of 4 KiB."""
    fresh = {"mapping": "anonymous", "populate": False, "initialise": "none", "pages": "4K"}
    faults = [
        each.median
        for point in found
        if all(point.factors.get(name, level) == level for name, level in fresh.items())
        and (each := point.of(FAULTS_EACH_PAGE)) is not None
    ]
    return [ZEROS] if any(each > 1 + access.NEAR for each in faults) else []


Figures = Mapping[str, Mapping[str, Known]]
Place = tuple[str, Mapping[str, q.Level], Figures | None]
"""Of a table: title, levels of the other factors, and the original report's figures there, if it has some."""


def _tables(sides: q.Sides, run: q.Run, places: Iterable[Place]) -> Iterator[q.Table | None]:
    """Yield the table of both sides at each place."""
    for title, levels, theirs in places:
        ends = (q.first(run.experiment, **{**levels, sides.factor: end}) for end in sides.ends)
        here = walked(point for point in ends if point is not None)
        note = " ".join([here, access.TICKS, *([reference.WHERE] if theirs else [])])
        yield sides.table(title, run, note, partial(cite, theirs) if theirs else None, **levels)


def _footprints(run: q.Run) -> Iterator[Place]:
    for each in run.levels("footprint", FOOTPRINTS):
        title = f"Sequential and random access over {FOOTPRINT_WORDS[each]}"
        yield title, {"footprint": each}, reference.PATTERN if each == "first64th" else None


PATTERNS = q.Question(
    title="Sequential and random access",
    experiment="memory.access",
    rows=q.points("set_ns"),
    headline=_pattern_text,
    text=(
        "A set is 512 lines of 64 B, walked 16 times, every 8th written. First touches count in its time.",
        _zeros,
    ),
    tables=lambda run, _: _tables(PATTERN, run, _footprints(run)),
    figures=lambda _, found: q.strips(
        "Time of a working set",
        "time",
        ((f"{each.level('pattern')}, {each.level('footprint')}", each) for each in found),
        q.by_level(found, "pattern"),
        f"{q.STRIPS} {walked(found)}",
    ),
    factors=("pattern", "footprint", "sets"),
)

# ---- what the original report's address arithmetic reaches: 1/64 of the buffer

TOUCHED = q.plain("pages touched", "touched_pages")
FOOTPRINT = q.Sides("footprint", FOOTPRINTS, FOOTPRINTS, (TOUCHED, RESIDENT, *RESOURCES[:5], TIME))


class Reach(NamedTuple):
    """What the loop's arithmetic says of a point, in pages."""

    last: int
    """Pages up to the last address that it can form."""
    touched: float
    """Pages that so many sets touch: counted for the sequential pattern, expected for the random one."""
    whole: int
    """Pages of the mapping."""


def reach(pattern: str, footprint: str, size: int, count: int) -> Reach:
    """Return what `count` sets reach in `size` bytes."""
    step = 1 if footprint == "first64th" else LINE
    bases = size // LINE - SET_LINES
    span = (SET_LINES - 1) * LINE + 1
    last = ((bases - 1) * step + span - 1) // q.PAGE + 1
    if pattern == "seq":
        distinct = -(-bases // SET_LINES)
        low = SET_LINES * step if count < distinct else 0
        high = min(count, distinct - 1) * SET_LINES * step + span - 1
        touched = float(high // q.PAGE - low // q.PAGE + 1)
    else:
        # A page is missed by a set unless its base is one of those from which the set reaches the page.
        near = (span - 1 + q.PAGE) / step
        touched = last * (1 - max(0.0, 1 - near / bases) ** count)
    return Reach(last, touched, size // q.PAGE)


def _reach(point: q.Point) -> Reach:
    return reach(point.level("pattern"), point.level("footprint"), point.size, sets(point.samples))


def _touched(_: q.Run, found: Sequence[q.Point]) -> str:
    point, whole = found[0], _reach(found[0]).whole
    share = f"{q.format_share(point.summary.median / whole)} of {q.format_count(whole)} pages"
    return f"{share} are touched with footprint={point['footprint']}, pattern={point['pattern']}."


FOOTPRINT_PAGES = q.Question(
    title="What the address arithmetic touches",
    experiment="memory.access",
    rows=q.points(TOUCHED.key),
    headline=_touched,
    text="The loop's `p + base + i * 64` has base in lines: it ends near size / 64, which `full` fixes.",
    tables=(
        q.TableOf(
            "Pages touched, counted and by arithmetic",
            *q.levels("footprint", "pattern"),
            q.count("sets", lambda point: sets(point.samples)),
            q.text("pages touched", lambda point: q.figure(point.summary, "")),
            q.count("by arithmetic", lambda point: _reach(point).touched),
            q.count("within reach", lambda point: _reach(point).last),
            q.count("pages of the mapping", lambda point: _reach(point).whole),
            q.text("resident memory", lambda point: RESIDENT.text(point.run.experiment, point.samples)),
            note="By arithmetic: what so many sets touch; at random, the expected number. Within reach: up "
            "to the last address that the loop can form. Pages of 4 KiB.",
        ),
        lambda run, _: _tables(
            FOOTPRINT,
            run,
            ((f"Both footprints, {each}", {"pattern": each}, None) for each in run.levels("pattern")),
        ),
    ),
)

# ---- with and without a process that competes for memory

COMPARED = (TIME, *RESOURCES, RESIDENT, q.plain("major faults of the initialisation", "init_majflt"))
COMPETITOR = q.Sides(
    "pressure",
    ("none", "compete"),
    ("alone", "with a competitor"),
    (
        *COMPARED,
        each_set("L1D reads of a set, counted", "l1d_read_access"),
        each_set("L1D writes of a set, counted", "l1d_write_access"),
        each_set("L1D read misses of a set, counted", "l1d_read_miss"),
        each_set("dTLB read misses of a set, counted", "dtlb_read_miss"),
        each_set("dTLB write misses of a set, counted", "dtlb_write_miss"),
        q.plain("competitor's resident memory", "pressure_resident_kib", "KiB"),
        q.plain("waited until it was stable", "pressure_wait_s", "s"),
    ),
    7,
)
GROUP = (
    "The competitor touches as much memory as its group of processes may have, at random. Group and swap are "
    "made for the run: the limit holds for both processes, and plays the machine's memory."
)
MACHINE = (
    "With scope=machine the competitor touches as much memory as the machine has, at random. No group limits "
    "it: all processes are short of memory with it. Swap is made for the run."
)
PRESENT = "Memory is present before the function begins (memset): what is pushed out costs major faults."
THEIRS: Mapping[str, q.Level] = {"footprint": "first64th", "pattern": "random", "mapping": "anonymous"}
"""Levels at which the original report has figures of a competitor."""

Where = Mapping[str, q.Level]
"""Levels of the factors beside the pressure that were varied."""


def _wheres(run: q.Run, found: Sequence[q.Point]) -> list[Where]:
    names = [name for name in run.experiment.varied() if name not in ("pressure", "tracer")]
    places = q.grouped(found, lambda point: tuple((n, point.factors[n]) for n in names if n in point.factors))
    return [dict(where) for where in places]


def _pressure_text(run: q.Run, found: Sequence[q.Point]) -> str:
    where = _wheres(run, found)[0]
    if row := q.row_of(COMPETITOR.compared(run), TIME, **where):
        ratio = "The time of a set with a competitor over that without"
        return _slower(row, ratio, "With a competitor for memory, the same work takes {} as long")
    alone, beside = (q.first(run.experiment, **where, pressure=end) for end in COMPETITOR.ends)
    text = TIME.text(run.experiment, beside if alone is None else alone)
    return f"Only one side was measured: a set takes {text} {COMPETITOR.words[alone is None]}."


def _conditions(_: q.Run, found: Sequence[q.Point]) -> Iterator[str]:
    pressed = [each for each in found if each.factors.get("pressure") != "none"]
    yield from dict.fromkeys(MACHINE if each.factors.get("scope") == "machine" else GROUP for each in pressed)
    if all(each.factors.get("initialise", "none") != "none" for each in found):
        yield PRESENT
    yield from dict.fromkeys(q.cause(note) for point in found for note in point.samples.notes)


def _places(run: q.Run, found: Sequence[q.Point]) -> Iterator[Place]:
    for where in _wheres(run, found):
        own = THEIRS.items() <= {"mapping": "anonymous", **run.experiment.points[0].factors, **where}.items()
        title = ["With and without a competitor", q.label(run.experiment, where, where)]
        yield ", ".join(filter(None, title)), where, reference.PRESSURE if own else None


PRESSURE = q.Question(
    title="Memory pressure",
    experiment="memory.pressure",
    rows=q.points("set_ns"),
    headline=_pressure_text,
    text=_conditions,
    tables=lambda run, found: _tables(COMPETITOR, run, _places(run, found)),
)
