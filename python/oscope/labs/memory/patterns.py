"""Sequential against random access, over each footprint: the document's Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.experiments import dot
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import narrowing, unmeasured
from oscope.labs.memory import FOOTPRINTS, reference
from oscope.labs.memory.mappings import FAULTS_EACH_PAGE, NEAR
from oscope.labs.memory.sides import (
    RESOURCES,
    TIME,
    Sides,
    cite,
    compared,
    first,
    number,
    row_of,
    sets,
    shown,
    table,
    told,
    walked,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric

TITLE = "Sequential and random access"
ENDS = ("seq", "random")
WORDS = ("sequential", "random")
KNOWN = ("pattern", "footprint", "sets", "tracer")
QUANTITIES = (TIME, *RESOURCES)
FOOTPRINT_WORDS = {"first64th": "the first 1/64 of the buffer", "full": "the whole buffer"}


def section(results: Analysed) -> Section | None:
    """Tell what the pattern costs."""
    experiment = results.get("memory.access")
    if experiment is None:
        return None
    missing = unmeasured(experiment)
    points = shown(experiment)
    if not any(TIME.summary(experiment, point) for point in points):
        return Section(TITLE, "", missing=missing) if missing else None
    rows = compared(experiment, QUANTITIES, "pattern", ENDS)
    tables = [
        found
        for footprint in footprints(experiment)
        if (found := _table(experiment, rows, footprint)) is not None
    ]
    return Section(
        title=TITLE,
        answer=_answer(experiment, rows),
        text=[
            (
                "A working set is 512 lines of 64 B, walked 16 times, every 8th line written. Sequential "
                "sets lie one after the other; random ones begin anywhere, and the random number is drawn "
                "in both cases. Each repetition has a process of its own, which walks 16 MiB of other "
                "memory first."
            ),
            *_cold(points),
            *_twice(experiment, points),
            *narrowing(experiment, KNOWN),
        ],
        tables=tables,
        figures=[_figure(results, experiment, points)],
        missing=missing,
    )


def footprints(experiment: ExperimentResults) -> list[str]:
    """Return the footprints measured, in the order of the lab."""
    found = {str(point.factors.get("footprint", "full")) for point in shown(experiment)}
    return sorted(found, key=FOOTPRINTS.index)


def _answer(experiment: ExperimentResults, rows: Sequence[ComparedMetric]) -> str:
    """Give the ratio over each footprint, and the document's beside it."""
    parts = []
    for footprint in footprints(experiment):
        row = row_of(rows, TIME, footprint=footprint)
        ends = [first(experiment, footprint=footprint, pattern=end) for end in ENDS]
        summaries = [None if point is None else TIME.summary(experiment, point) for point in ends]
        here = f"Over {FOOTPRINT_WORDS[footprint]} ({footprint})"
        known = [
            f"a {word} set takes {median(each, 'ns')}"
            for word, each in zip(WORDS, summaries, strict=True)
            if each is not None
        ]
        ratio = f": random / sequential is {told(row)}" if row is not None else ""
        parts.append(f"{here}, {listed(known)}{ratio}.")
    random, seq = (reference.PATTERN[end]["utime_s"].mean for end in reversed(ENDS))
    return " ".join([*parts, f"The document has {random / seq:.2f} times (user time, first64th)."])


def _cold(points: Sequence[PointSamples]) -> list[str]:
    """Say how many first touches fall into a set: fewer sets have more of them each."""
    counts = {sets(point) for point in points}
    told_sets = listed([number(count) for count in sorted(counts)])
    text = f"Here a repetition walks {told_sets} sets"
    if counts == {reference.SETS}:
        return [f"{text}, as the document's do."]
    most = max(points, key=_faults)
    return [
        (
            f"{text}; the document's walk {number(reference.SETS)}, so figures are given for a set. A set's "
            f"time holds its share of first touches, up to {_faults(most):.2g} faults a set here: with more "
            "sets that share shrinks. User time has less of it, since the kernel's work in a fault is "
            "system time."
        )
    ]


def _twice(experiment: ExperimentResults, points: Sequence[PointSamples]) -> list[str]:
    """Explain more faults than pages, where there are."""
    told_points = [
        (point, faults.median)
        for point in points
        if (faults := FAULTS_EACH_PAGE.summary(experiment, point)) is not None
    ]
    if not told_points:
        return []
    parts = [
        f"{faults:.2f} ({point.factors.get('pattern')}, {point.factors.get('footprint')})"
        for point, faults in told_points
    ]
    text = f"Minor faults for each page touched: {listed(parts)}."
    if any(_fresh(point) and faults > 1 + NEAR for point, faults in told_points):
        text += (
            " A page that is written first faults once. One that is read first is given the page of zeros, "
            "and its first write faults again: sequential sets enter a page at a line that is written, "
            "random ones mostly at one that is read."
        )
    return [text]


def _fresh(point: PointSamples) -> bool:
    """Say whether the walk itself faults in anonymous pages of 4 KiB: others know no page of zeros."""
    factors = point.factors
    return (
        factors.get("mapping", "anonymous") == "anonymous"
        and not factors.get("populate", False)
        and factors.get("initialise", "none") == "none"
        and factors.get("pages", "4K") == "4K"
    )


def _faults(point: PointSamples) -> float:
    values = point.metrics.get("minflt", np.zeros(0))
    values = values[np.isfinite(values)]
    return float(np.median(values)) / sets(point) if len(values) else 0.0


def _table(experiment: ExperimentResults, rows: Sequence[ComparedMetric], footprint: str) -> Table | None:
    cited = partial(cite, reference.PATTERN) if footprint == "first64th" else None
    sides = Sides("pattern", ENDS, WORDS, QUANTITIES, cited)
    title = f"Sequential and random access over {FOOTPRINT_WORDS[footprint]}"
    return table(title, experiment, rows, sides, footprint=footprint)


def _figure(results: Analysed, experiment: ExperimentResults, points: Sequence[PointSamples]) -> Figure:
    known = [(point, each) for point in points if (each := TIME.summary(experiment, point)) is not None]
    scale = shared_scale([each for _, each in known], "ns")
    dots = [
        dot(
            results,
            experiment,
            (point, TIME.key),
            scale,
            name=f"{point.factors.get('pattern')}, {point.factors.get('footprint')}",
            colour=ENDS.index(str(point.factors.get("pattern"))),
        )
        for point, _ in known
    ]
    note = f"Faint: single repetitions. Diamond: median with its 95 % interval. {walked(points)}"
    return plots.strips("Time of a working set", f"time [{scale.unit}]", dots, note)
