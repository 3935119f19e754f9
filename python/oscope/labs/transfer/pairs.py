"""Every pair of methods, what the digest costs, and that every file arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import counted, listed
from oscope.labs.engine.contrast import Contrast, contrasts
from oscope.labs.engine.curves import At, best, several
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import Column, TableOf, count, level, ratio, text
from oscope.labs.engine.words import value
from oscope.labs.transfer import DIGESTS, LAB, PLAIN, RECEIVERS, SENDERS, pair
from oscope.labs.transfer.points import ARROW, PLAIN_WAY, RATE, compared_ways, curves, named, way
from oscope.model.document import Figure, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes

# ---- pairs

OWN = ("sender", "receiver", "size", "digest", "tracer")
"""Factors that the PAIRS names; of any other the first level is shown."""


def _narrow(run: Run) -> Run:
    return run.narrowed(*OWN)


def _found(run: Run) -> dict[str, list[At]]:
    """Return the throughput of each pair over the size, with one digest."""
    own = _narrow(run)
    return curves(own, RATE, digest=_digest(own))


def _digest(run: Run) -> str:
    """Return the digest that the pairs are compared with: the default, or the first measured."""
    return run.levels("digest", DIGESTS)[0]


def _fastest(run: Run, _: Sequence[Point]) -> str:
    """Name the fastest pair at the largest size, and those that are not distinguished from it."""
    every = [each for row in _found(run).values() for each in row]
    most = max(each.size for each in every)
    top, alike = best([each for each in every if each.size == most], run.experiment, RATE)
    names = [way(each.point.factors) for each in alike]
    others = f" (not distinguished from {listed(names) if len(names) < 3 else f'{len(names)} others'})"
    found = f"{way(top.point.factors)} is the fastest at {top.name}: {value(top.summary, 'B/s')}"
    return f"{found}{others if alike else ''}."


def _digests(run: Run) -> list[Contrast]:
    """Return for each digest and size the throughput over that without, at the plain pair."""
    own = _narrow(run).only(sender=PLAIN[0], receiver=PLAIN[1])
    found = [each for name in DIGESTS[:-1] for each in contrasts(own, RATE, "digest", (DIGESTS[-1], name))]
    return sorted(found, key=lambda each: (DIGESTS.index(str(each.ends[1])), each.size))


def _matrices(run: Run, found: Sequence[Point]) -> list[Table]:
    own = _narrow(run)
    sizes = sorted({each.size for each in found}, reverse=True)
    return [_matrix(own, size, {"digest": _digest(own)}) for size in sizes]


def _matrix(run: Run, size: int, levels: dict[str, Level]) -> Table:
    """Return the throughput of each sender (rows) with each receiver, beside the plain pair."""
    by_pair = {pair(each.samples.factors): each for each in run.points(RATE, size=size, **levels)}
    senders = [name for name in ("auto", *SENDERS) if any(name == each for each, _ in by_pair)]
    receivers = [name for name in ("auto", *RECEIVERS) if any(name == each for _, each in by_pair)]
    scale = shared_scale([each.summary for each in by_pair.values()], "B/s")
    ratios = {each.ends[1]: each.row for each in compared_ways(run, RATE, PLAIN_WAY, size=size, **levels)}

    def cell(sender: str, receiver: str) -> str | None:
        one, row = by_pair.get((sender, receiver)), ratios.get(named((sender, receiver)))
        if one is None:
            return None
        beside = "" if row is None else f" · {row.ratio:.2f}×{'' if row.different == 'yes' else '?'}"
        return f"{row_scale(scale, one.summary).text(one.summary.median)}{beside}"

    def column(receiver: str) -> Column[str]:
        return text(f"→ {receiver}", lambda sender: cell(sender, receiver))

    note = (
        f"Rows: sender. Columns: receiver. ×: over {PLAIN_WAY}, paired by block; ?: not found different. "
        f"{MISSING}: not measured."
    )
    title = f"Throughput of every pair at {format_bytes(size)} [{scale.unit}]"
    table: TableOf[str] = TableOf(title, (text("sender", str), *map(column, receivers)), note)
    return table.of(senders)


DIGEST_COSTS: TableOf[Contrast] = TableOf(
    "What verification costs",
    (
        text("digest", lambda each: str(each.ends[1])),
        level("size"),
        ratio("throughput / that without", lambda each: each.row, "different", "matters"),
    ),
    f"{PLAIN_WAY}, paired by block, p corrected (Holm) for the sizes of a digest.",
)


def _figures(run: Run, _: Sequence[Point]) -> list[Figure]:
    found = _found(run)
    ends = (("Ways to send", 1), ("Ways to receive", 0))
    drawn = []
    for title, side in ends:
        rows = {name: row for name, row in found.items() if (name.split(ARROW) * 2)[side] == PLAIN[side]}
        drawn += several(f"{title}, throughput", rows, "B/s", "size of the file")
    return drawn


PAIRS = Question(
    title="Every way of sending and receiving",
    experiment="transfer.copy",
    rows=lambda run: _narrow(run).points(RATE),
    headline=_fastest,
    text=("Over loopback, from the page cache to a tmpfs, one file; any sender meets any receiver."),
    tables=(_matrices, lambda run, _: DIGEST_COSTS.of(_digests(run))),
    figures=_figures,
    factors=OWN,
    timed=True,
)


# ---- integrity

NAMES = tuple(each.name for each in LAB.experiments)


def _checked(run: Run) -> list[ExperimentResults]:
    """Return every experiment of the lab that was run."""
    return [each.experiment for each in run.all(*NAMES) if _transfers(each.experiment)]


def _transfers(experiment: ExperimentResults) -> int:
    return sum(len(point) for point in experiment.points)


def _failed(experiment: ExperimentResults) -> Counter[str]:
    """Return how many transfers failed, by reason."""
    return Counter(reason for point in experiment.points for _, reason in point.failed)


def _files(experiment: ExperimentResults) -> int:
    """Return how many files arrived equal to their sources."""
    return sum(
        (len(point) - len({index for index, _ in point.failed})) * int(point.factors.get("files", 1))
        for point in experiment.points
    )


def _arrived(_: Run, rows: Sequence[ExperimentResults]) -> str:
    files, transfers = sum(map(_files, rows)), sum(map(_transfers, rows))
    failed = sum(_failed(row).total() for row in rows)
    what = f"{counted(files, 'file')} of {counted(transfers - failed, 'transfer')} arrived equal to their"
    if not failed:
        return f"All {what} sources."
    return f"{what} sources; {counted(failed, 'transfer')} failed, and no time of theirs is used."


def _why(experiment: ExperimentResults) -> str:
    return "; ".join(f"{why} ({n})" for why, n in _failed(experiment).most_common()) or "none"


INTEGRITY = Question(
    title="Every file is equal to its source",
    experiment=NAMES,
    rows=_checked,
    headline=_arrived,
    text=(
        "Each received file is read again after the clock has stopped. A transfer that fails this is a "
        "failed sample and never a time."
    ),
    tables=TableOf(
        "Files compared with their sources",
        (
            text("experiment", lambda row: row.experiment),
            text("compared", lambda row: "sha512" if row.workload == "transfer.device" else "byte by byte"),
            count("transfers", _transfers),
            count("files equal", _files),
            count("failed", lambda row: _failed(row).total()),
            text("why", _why),
        ),
    ),
    missing=lambda _: "",
)
