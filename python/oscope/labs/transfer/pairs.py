"""Every pair of methods, which is fastest, and what the digest of each file costs."""

from __future__ import annotations

from dataclasses import replace

from oscope.figures.analysed import Analysed
from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import At, best, narrowing, over_sizes, ratio_text
from oscope.labs.transfer import DIGESTS, PLAIN, RECEIVERS, SENDERS, pair
from oscope.labs.transfer.points import (
    PLAIN_WAY,
    RATE,
    against,
    curves,
    known,
    levels_compared,
    missing,
    narrowed,
    sizes,
    untraced,
    way,
)
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, format_share
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric, Summary

TITLE = "Every way of sending and receiving"
DEFAULT, NONE = DIGESTS[0], DIGESTS[-1]
OWN = ("sender", "receiver", "size", "digest", "tracer")
"""Factors that the section tells apart; of any other the first level is shown."""


def section(results: Analysed) -> Section | None:
    """Name the fastest pair at each size, and tell what verification costs."""
    experiment = results.get("transfer.copy")
    if experiment is None:
        return None
    told = narrowing(experiment, OWN)
    experiment = narrowed(experiment, *OWN)
    points = known(experiment, RATE)
    if not points:
        gaps = missing(experiment)
        return Section(TITLE, "", missing=gaps) if gaps else None
    levels: dict[str, Level] = {"digest": _digest(experiment)}
    found = curves(results, experiment, RATE, **levels)
    digests = {name: _digests(experiment, name) for name in DIGESTS if name != NONE}
    return Section(
        title=TITLE,
        answer=" ".join([*_fastest(experiment, found), *_cost(digests)]),
        text=[
            (
                "Over loopback, from the page cache to a tmpfs, one file. The wire is the same for all "
                "methods, so that any sender meets any receiver. What the digest costs is the throughput "
                "with it over that without, at the same pair of methods."
            ),
            *told,
        ],
        tables=[
            *(_matrix(results, experiment, size, levels) for size in reversed(sizes(points))),
            *_digest_table(digests),
        ],
        figures=_figures(found, experiment),
        missing=missing(experiment),
    )


def _digest(experiment: ExperimentResults) -> str:
    """Return the digest that the pairs are compared with: the default, or the first measured."""
    names = list(dict.fromkeys(str(point.factors.get("digest", DEFAULT)) for point in experiment.points))
    return DEFAULT if DEFAULT in names else names[0]


def _fastest(experiment: ExperimentResults, found: dict[str, list[At]]) -> list[str]:
    """Name the fastest pair at the smallest and the largest size, and those that cannot be told from it."""
    every = sorted({each.size for row in found.values() for each in row})
    said = []
    for size in dict.fromkeys((every[0], every[-1])) if every else ():
        here = [each for row in found.values() for each in row if each.size == size]
        top, alike = best(here, experiment, RATE)
        text = f"{way(top.point.factors)} at {format_bytes(size)}, {_rate(experiment, top.summary)}"
        if alike:
            text += f" (not to be told from {listed([way(each.point.factors) for each in alike])})"
        said.append(text + _over_plain(experiment, top))
    return [f"Fastest is {listed(said)}."] if said else []


def _over_plain(experiment: ExperimentResults, top: At) -> str:
    name = way(top.point.factors)
    if name == PLAIN_WAY:
        return ""
    rows = against(experiment, (RATE,), PLAIN_WAY, name, size=top.size)
    return f", {ratio_text(rows[0])} times {PLAIN_WAY}" if rows else ""


def _rate(experiment: ExperimentResults, summary: Summary) -> str:
    return median(summary, experiment.metrics[RATE].unit)


def _digests(experiment: ExperimentResults, name: str) -> dict[int, ComparedMetric]:
    """Return for each size the throughput with a digest over that without, at the plain pair."""
    points = tuple(point for point in untraced(experiment) if pair(point.factors) == PLAIN)
    rows = levels_compared(replace(experiment, points=points), (RATE,), "digest", (NONE, name))
    return {int(row.factors["size"]): row for row in rows}


def _cost(digests: dict[str, dict[int, ComparedMetric]]) -> list[str]:
    """Tell what each digest takes of the throughput at the largest size."""
    parts = []
    for name, rows in digests.items():
        if rows:
            size = max(rows)
            row = rows[size]
            if row.different == "yes" and row.ratio > 1:
                more = f"{ratio_text(row)} times that without"
                parts.append(f"{name} has a throughput of {more} at {format_bytes(size)}")
            elif row.different == "yes":
                share, ends = 1 - row.ratio, [1 - end for end in reversed(row.ci95)]
                half = (ends[1] - ends[0]) / 2
                low, high = (format_share(end, half) for end in ends)
                text = f"{format_share(share, half)} ({low.removesuffix(' %')} to {high})"
                parts.append(f"{name} takes {text} of the throughput at {format_bytes(size)}")
            else:
                parts.append(f"{name} was not found to cost throughput at {format_bytes(size)}")
    return [f"Of the digests, {listed(parts)}."] if parts else []


def _matrix(results: Analysed, experiment: ExperimentResults, size: int, levels: dict[str, Level]) -> Table:
    """Return the throughput of each sender (rows) with each receiver, beside the plain pair."""
    points = known(experiment, RATE, size=size, **levels)
    by_pair = {pair(point.factors): point for point in points}
    senders = [name for name in ("auto", *SENDERS) if any(name == each for each, _ in by_pair)]
    receivers = [name for name in ("auto", *RECEIVERS) if any(name == each for _, each in by_pair)]
    summaries = {key: results.summary(experiment, point, RATE) for key, point in by_pair.items()}
    scale = shared_scale([one for one in summaries.values() if one], experiment.metrics[RATE].unit)
    ratios = {
        key: row
        for key, point in by_pair.items()
        if key != PLAIN
        for row in against(experiment, (RATE,), PLAIN_WAY, way(point.factors), size=size, **levels)
    }
    rows = []
    for sender in senders:
        line = [sender]
        for receiver in receivers:
            one = summaries.get((sender, receiver))
            row = ratios.get((sender, receiver))
            beside = "" if row is None else f" · {row.ratio:.2f}×{'' if row.different == 'yes' else '?'}"
            line.append(MISSING if one is None else f"{row_scale(scale, one).text(one.median)}{beside}")
        rows.append(line)
    note = (
        f"Rows: sender. Columns: receiver. ×: over {PLAIN_WAY}, paired by block; ?: not found different. "
        f"{MISSING}: not measured."
    )
    title = f"Throughput of every pair at {format_bytes(size)} [{scale.unit}]"
    return Table(title, ["sender", *(f"→ {name}" for name in receivers)], rows, frozenset(), note)


def _digest_table(digests: dict[str, dict[int, ComparedMetric]]) -> list[Table]:
    lines = [
        [name, format_bytes(size), ratio_text(row), row.different, row.matters]
        for name, rows in digests.items()
        for size, row in sorted(rows.items())
    ]
    columns = ["digest", "size", "throughput / that without (95 %)", "different", "matters"]
    note = f"{PLAIN_WAY}, paired by block, p corrected (Holm) for the sizes of a digest."
    return [Table("What verification costs", columns, lines, frozenset(), note)] if lines else []


def _figures(found: dict[str, list[At]], experiment: ExperimentResults) -> list[Figure]:
    senders = {name: row for name, row in found.items() if pair(row[0].point.factors)[1] == PLAIN[1]}
    receivers = {name: row for name, row in found.items() if pair(row[0].point.factors)[0] == PLAIN[0]}
    unit = experiment.metrics[RATE].unit
    drawn = []
    for title, rows in (("Ways to send", senders), ("Ways to receive", receivers)):
        if rows and max(len(each) for each in rows.values()) > 1:
            drawn.append(over_sizes(f"{title}, throughput", rows, unit, name="size of the file"))
    return drawn
