"""How many calls fit into a second, beside the document's figures and what the cost of one call predicts."""

from __future__ import annotations

from itertools import pairwise

from oscope.figures import plots
from oscope.figures.analysed import Analysed, levels
from oscope.figures.tables import doubt, row_scale, shared_scale
from oscope.figures.words import listed, median, with_samples
from oscope.labs.syscalls import reference
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, Scale, format_count
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import Summary

METRIC = "calls_per_s"

Found = list[tuple[PointSamples, Summary]]


def section(results: Analysed) -> Section | None:
    """Answer C7."""
    experiment = results.get("syscall.throughput")
    if experiment is None:
        return None
    found = with_samples(results, experiment, METRIC)
    if not found:
        return None
    return Section(
        title="How many calls fit into a second",
        answer=_answer(found),
        text=[
            (
                "The original report counts each call as one byte moved, so that its bytes a second and "
                "calls a second are the same number; so does bytes_per_s here. Its figures are of another "
                "machine."
            )
        ],
        tables=[_table(results, experiment, found)],
        figures=[_figure(found)],
    )


def _call(point: PointSamples) -> str:
    return str(point.factors["call"])


def _answer(found: Found) -> str:
    fastest = max(found, key=lambda pair: pair[1].median)
    slowest = min(found, key=lambda pair: pair[1].median)
    if slowest is fastest:
        return f"{_call(fastest[0])} is called at {median(fastest[1], 'calls/s')}."
    text = (
        f"Of {listed([_call(point) for point, _ in found])}, {_call(fastest[0])} is called most often, at "
        f"{median(fastest[1], 'calls/s')}, and {_call(slowest[0])} least, at {median(slowest[1], 'calls/s')}"
    )
    return f"{text}. {_order(found)}".strip()


def _order(found: Found) -> str:
    """Compare the order of the calls with the original report's, as far as the intervals allow."""
    known = sorted(
        (pair for pair in found if _call(pair[0]) in reference.CALLS_PER_SECOND),
        key=lambda pair: -pair[1].median,
    )
    ours = [_call(point) for point, _ in known]
    theirs = sorted(ours, key=lambda call: -reference.CALLS_PER_SECOND[call])
    if len(ours) < 2:
        return ""
    text = (
        "The order is the original report's"
        if ours == theirs
        else f"The original report's order was {', '.join(theirs)}; here it is {', '.join(ours)}"
    )
    close = [
        f"{_call(fast[0])} and {_call(slow[0])}"
        for fast, slow in pairwise(known)
        if fast[1].ci95 is None or slow[1].ci95 is None or fast[1].ci95[0] <= slow[1].ci95[1]
    ]
    return f"{text}, though the intervals of {listed(close)} overlap." if close else f"{text}."


def _table(results: Analysed, experiment: ExperimentResults, found: Found) -> Table:
    scale = shared_scale([summary for _, summary in found], "calls/s")
    byte_rates = {id(point): results.summary(experiment, point, "bytes_per_s") for point, _ in found}
    bytes_scale = shared_scale([each for each in byte_rates.values() if each is not None], "B/s")
    rows = []
    for point, summary in found:
        own = row_scale(scale, summary)
        text = own.text
        moved = byte_rates[id(point)]
        document = reference.CALLS_PER_SECOND.get(_call(point))
        rows.append(
            [
                _call(point),
                levels(experiment, point.factors).get("duration", MISSING),
                format_count(summary.n),
                text(summary.median),
                own.span(summary.ci95),
                text(summary.std),
                MISSING if moved is None else row_scale(bytes_scale, moved).text(moved.median),
                MISSING if document is None else scale.text(document),
                MISSING if document is None else f"{summary.median / document:.2f}",
                _predicted(results, _call(point), scale),
            ]
        )
    unit = f"[{scale.unit}]"
    columns = [
        "call",
        "for",
        "n",
        f"median {unit}",
        f"95 % interval {unit}",
        f"std. dev. {unit}",
        f"bytes [{bytes_scale.unit}]",
        f"original {unit}",
        "here / original",
        f"1 / cost in a loop {unit}",
    ]
    note = (
        "The last column is the reciprocal of the median of `syscall.cost`, whose read is from "
        "/dev/zero; this one is from a file in memory."
    )
    return Table("Calls a second", columns, rows, frozenset(range(2, len(columns))), note)


def _predicted(results: Analysed, call: str, scale: Scale) -> str:
    cost = results.get("syscall.cost")
    point = cost.point(call=call, style="loop") if cost else None
    summary = results.summary(cost, point, "time_ns") if cost and point else None
    if summary is None or summary.median <= 0:
        return MISSING
    rate = 1e9 / summary.median
    return scale.row(rate, rate * (doubt(summary) or 0.0) / summary.median).text(rate)


def _figure(found: Found) -> Figure:
    scale = shared_scale([summary for _, summary in found], "calls/s")
    names = [_call(point) for point, _ in found]
    intervals = [
        summary.ci95 and (summary.ci95[0] / scale.factor, summary.ci95[1] / scale.factor)
        for _, summary in found
    ]
    here = plots.Bars("here", [summary.median / scale.factor for _, summary in found], intervals)
    cited = [reference.CALLS_PER_SECOND.get(name) for name in names]
    document = plots.Bars(
        "original", [None if each is None else each / scale.factor for each in cited], role="reference"
    )
    title = "Calls a second, here and in the original report"
    return plots.bars(
        title,
        plots.axis(scale.unit),
        names,
        [here, document],
        note="Bars: medians; whiskers: 95 % intervals.",
    )
