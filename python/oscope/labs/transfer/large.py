"""Time against size, zeros and random: the document's large inputs, and from which size on mmap is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median as middle

import numpy as np

from oscope.figures.analysed import Analysed, measured
from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import listed
from oscope.labs.curve import At, cells, over_sizes, ratio_text
from oscope.labs.transfer import SIZES, reference
from oscope.labs.transfer.points import (
    CALLS,
    COPIED,
    MAPPED,
    RATE,
    Sides,
    against,
    curves,
    known,
    lasting,
    missing,
    sizes,
    spread_cells,
    summary,
    times,
    verdict,
    ways,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, bounded_text, format_count, format_value
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, summarise

WORDS = {"zeros": "zeros", "random": "random bytes"}
TITLE = "Large inputs: mmap against read and write"
WHAT = (
    "Source and destination lie on a tmpfs. The sender's clock runs from before its connect until it has the "
    "receiver's receipt, which comes when the file is verified and has its name, the receiver's from accept "
    "until then. Both ends are ready before a clock starts: nothing is started by hand, and no "
    "execution is left out."
)


def section(results: Analysed) -> Section | None:
    """Answer D5 and D7 for the transfer through user space."""
    experiment = results.get("transfer.large")
    if experiment is None:
        return None
    if not known(experiment, COPIED.sender):
        gaps = missing(experiment)
        return Section(TITLE, "", missing=gaps) if gaps else None
    compared = compared_ways(experiment, COPIED.sender, CALLS)
    receiver = against(experiment, (COPIED.receiver,), CALLS, MAPPED)
    return Section(
        title=TITLE,
        answer=" ".join(answer(experiment, compared.get(MAPPED, []), (CALLS, MAPPED), COPIED.sender)),
        text=[
            f"{WHAT}{firsts(experiment, COPIED.sender)}",
            eighths(),
            document_says(receiver, COPIED.receiver),
        ],
        tables=[
            table_of_times(results, experiment, COPIED, "Large inputs"),
            verdicts(compared, CALLS, "Against read and write, the sender's time"),
            document(),
        ],
        figures=figures(results, experiment, COPIED.sender, "Time of the sender"),
        missing=missing(experiment),
    )


def firsts(experiment: ExperimentResults, metric: str) -> str:
    """Say how the first execution of each process compares with those after it."""
    ratios, blocks = [], []
    for point in known(experiment, metric):
        values, kept = measured(point, metric)
        for block in np.unique(point.block[kept]):
            here = np.flatnonzero(point.block[kept] == block)
            if len(here) > 1:
                ratios.append(float(values[here[0]] / np.median(values[here[1:]])))
                blocks.append(int(block))
    if not ratios:
        return ""
    found = summarise(ratios, blocks, seed=experiment.seed)
    if found.ci95 is None:
        return ""
    return (
        f" The first execution of a process takes {bounded_text(found.median, *found.ci95)} times what those "
        f"after it take (median of {format_count(found.n)}, 95 %)."
    )


def contents(experiment: ExperimentResults) -> list[str]:
    """Return the contents measured, in the order of the experiment."""
    return list(dict.fromkeys(str(point.factors["content"]) for point in experiment.points))


def answer(
    experiment: ExperimentResults, rows: Sequence[ComparedMetric], names: tuple[str, str], metric: str
) -> list[str]:
    """Say for each content from which size on mmap is faster, and by how much at the largest."""
    found = []
    for content in contents(experiment):
        here = [row for row in rows if row.metric == metric and row.factors.get("content") == content]
        here = [row for row in here if row.factors.get("sizes", "equal") == "equal"]
        if here:
            found.append(f"With {WORDS.get(content, content)}, {_from_on(here, names)}")
    return found or [f"{listed(names)} were not both measured, so that nothing is said of mmap."]


def _from_on(rows: Sequence[ComparedMetric], names: tuple[str, str]) -> str:
    by_size = {int(row.factors["size"]): row for row in rows}
    calls, mapped = names
    own = f"{calls}'s time"

    def faster(size: int) -> bool:
        return by_size[size].different == "yes" and by_size[size].ratio < 1

    largest = max(by_size)
    start = lasting(list(by_size), faster)
    at_end = f"at {format_bytes(largest)} it takes {times(by_size[largest], own)}"
    if start is not None:
        return f"{mapped} is faster than {calls} from {format_bytes(start)} on; {at_end}."
    some = [format_bytes(size) for size in sorted(by_size) if faster(size)]
    where = f"only at {listed(some)}" if some else "at no size"
    return f"{mapped} is found faster than {calls} {where}; {at_end}."


def table_of_times(results: Analysed, experiment: ExperimentResults, sides: Sides, title: str) -> Table:
    """Return the averages and medians of both sides, a row for each size, content and way."""
    points = [
        point for point in known(experiment, sides.receiver) if point.factors.get("sizes", "equal") == "equal"
    ]
    unit = experiment.metrics[sides.receiver].unit
    summaries = [
        one
        for point in points
        for name in (sides.sender, sides.receiver)
        if (one := summary(results, experiment, point, name)) is not None
    ]
    scale = shared_scale(summaries, unit)
    rows = []
    for size in sizes(points):
        for point in (each for each in points if each.factors["size"] == size):
            sender, receiver = (
                summary(results, experiment, point, name) for name in (sides.sender, sides.receiver)
            )
            rate = summary(results, experiment, point, RATE)
            here = [
                *(cell for one in (sender, receiver) if one for cell in [row_scale(scale, one).text]),
            ]
            text = here[-1] if here else scale.text
            rows.append(
                [
                    format_bytes(size),
                    str(point.factors.get("content", "")),
                    ways([point])[0],
                    str(receiver.n if receiver else 0),
                    *spread_cells(sender, text),
                    *cells(sender, scale),
                    *spread_cells(receiver, text),
                    *cells(receiver, scale),
                    MISSING if rate is None else format_value(rate.median, rate.std, "B/s"),
                ]
            )
    columns = ["size", "content", "method", "n"]
    for side in ("sender", "receiver"):
        columns += [f"{side}, {name} [{scale.unit}]" for name in ("mean", "std. dev.", "median", "95 %")]
    note = "The average of all executions with their standard deviation, and the median with its interval."
    return Table(
        f"{title}, time on both sides",
        [*columns, "throughput"],
        rows,
        frozenset({3, 4, 5, 6, 8, 9, 10}),
        note,
    )


def compared_ways(experiment: ExperimentResults, metric: str, base: str) -> dict[str, list[ComparedMetric]]:
    """Return for each other way how it compares with `base`, p corrected (Holm) for its rows."""
    others = [name for name in ways(known(experiment, metric)) if name != base]
    return {name: against(experiment, (metric,), base, name) for name in others}


def verdicts(compared: Mapping[str, Sequence[ComparedMetric]], base: str, title: str) -> Table:
    """Return each other way's time over that of `base`, with both answers."""
    lines = []
    for name, found in compared.items():
        for row in found:
            if row.factors.get("sizes", "equal") == "equal":
                size = int(row.factors["size"])
                lines.append((size, [str(row.factors.get("content", "")), name, *verdict(row)]))
    lines.sort(key=lambda each: each[0])
    columns = ["size", "content", "method", f"time / {base}'s (95 %)", "different", "matters"]
    note = (
        "Paired by block, p corrected (Holm) for all sizes and contents of a method. It matters where the "
        "whole interval is beyond 1 %."
    )
    return Table(title, columns, [[format_bytes(size), *row] for size, row in lines], frozenset(), note)


def figures(results: Analysed, experiment: ExperimentResults, metric: str, title: str) -> list[Figure]:
    """Draw time over size for each content that was measured at several sizes."""
    drawn = []
    for content in contents(experiment):
        levels = {"content": content}
        if any("sizes" in point.factors for point in experiment.points):
            levels["sizes"] = "equal"
        found = curves(results, experiment, metric, **levels)
        if found and max(len(each) for each in found.values()) > 1:
            unit = experiment.metrics[metric].unit
            drawn.append(over_sizes(f"{title}, {content}", _drawn(found), unit, name="size of the file"))
    return drawn


def _drawn(found: dict[str, list[At]]) -> dict[str, list[At]]:
    return {name: each for name, each in found.items() if each}


def eighths() -> str:
    """Tell that the document's bytes are an eighth of what its five inputs sum to."""
    total = sum(SIZES)
    ratio = total / reference.PRINTED_BYTES
    return (
        f"The document prints {format_count(reference.PRINTED_BYTES)} bytes for its five inputs, which sum "
        f"to {format_count(total)}: {ratio:g} times as many to the last byte. Either its programs divide "
        "what they print, or an eighth was moved; it does not show them, so that its times are cited here, "
        "and no throughput is made of them."
    )


def document_says(rows: Sequence[ComparedMetric], metric: str) -> str:
    """Hold the document's conclusion against the largest size measured."""
    here = [row for row in rows if row.metric == metric]
    text = "The document concludes that mmap is the better the larger the file, since its other method makes "
    text += "many system calls."
    if not here:
        return text
    largest = max(int(row.factors["size"]) for row in here)
    found = [
        f"{ratio_text(row)} times with {WORDS.get(str(row.factors['content']), '')}"
        for row in here
        if int(row.factors["size"]) == largest and "content" in row.factors
    ]
    return (
        f"{text} Here the receiver's time at {format_bytes(largest)} is by mmap, over that by read and "
        f"write, {listed(found)}."
    )


def document() -> Table:
    """Return the document's times of its five large inputs, with the groups into which they fall."""
    rows = []
    for side, inputs in (("receiver", reference.RECEIVER), ("sender", reference.SENDER)):
        for (method, content), values in inputs.items():
            parts = reference.groups(values)
            rows.append(
                [
                    side,
                    method,
                    content,
                    str(len(values)),
                    f"{sum(values) / len(values):.1f}",
                    f"{middle(values):.1f}",
                    ", ".join(f"{middle(part):.1f} ({len(part)})" for part in parts),
                ]
            )
    columns = ["side", "method", "content", "n", "mean [ms]", "median [ms]", "groups: median [ms] (n)"]
    note = (
        "1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB in one execution. A group ends where the next value is more "
        f"than {reference.GAP_MS:g} ms away. {reference.WHERE}"
    )
    return Table("The document's large inputs", columns, rows, frozenset({3, 4, 5}), note)
