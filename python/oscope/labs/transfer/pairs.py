"""Every pair of methods, what the digest costs, and that every file arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from oscope import questions as q
from oscope.labs.transfer import DIGESTS, LAB, PLAIN, RECEIVERS, SENDERS, pair
from oscope.labs.transfer.ways import ARROW, PLAIN_WAY, RATE, compared_ways, curves, way
from oscope.questions.combined_factors import matrix

# ---- pairs

OWN = ("sender", "receiver", "size", "digest", "tracer")
"""Factors that the PAIRS names; of any other the first level is shown."""


def _narrow(run: q.Run) -> q.Run:
    return run.narrowed(*OWN)


def _found(run: q.Run) -> dict[str, list[q.At]]:
    own = _narrow(run)
    return curves(own, RATE, digest=_digest(own))


def _digest(run: q.Run) -> str:
    """Return the digest that the pairs are compared with: the default, or the first measured."""
    return run.levels("digest", DIGESTS)[0]


def _fastest(run: q.Run, _: Sequence[q.Point]) -> str:
    found = _narrow(run).points(RATE, digest=_digest(_narrow(run)))
    top, alike = q.best_of([each for each in found if each.size == max(one.size for one in found)])
    names = [way(each.factors) for each in alike]
    others = f" (not distinguished from {q.listed(names) if len(names) < 3 else f'{len(names)} others'})"
    return f"{way(top.factors)} is the fastest at {top['size']}: {top.value}{others if alike else ''}."


def _digests(run: q.Run) -> list[q.Contrast]:
    """Return for each digest and size the throughput over that without, at the plain pair."""
    own = _narrow(run).only(sender=PLAIN[0], receiver=PLAIN[1])
    found = q.contrasts(own, RATE, "digest", *((DIGESTS[-1], name) for name in DIGESTS[:-1]))
    return sorted(found, key=lambda each: (DIGESTS.index(str(each.ends[1])), each.size))


def _matrix(run: q.Run, size: int) -> q.Table:
    """Return the throughput of each sender (rows) with each receiver, beside the plain pair."""
    levels: dict[str, q.Level] = {"size": size, "digest": _digest(run)}
    ratios = {each.ends[1]: each.row for each in compared_ways(run, RATE, PLAIN_WAY, **levels)}
    points = run.points(RATE, **levels)
    cells = {pair(each.factors): (each.summary, ratios.get(way(each.factors))) for each in points}
    title = f"Throughput of every pair at {q.format_bytes(size)} [{{unit}}]"
    note = f"×: over {PLAIN_WAY}, paired by block; ?: not found different. {q.MISSING}: not measured."
    return matrix(title, "sender", cells, (("auto", *SENDERS), ("auto", *RECEIVERS)), "B/s", note)


DIGEST_COSTS: q.TableOf[q.Contrast] = q.TableOf(
    "What verification costs",
    q.text("digest", lambda each: str(each.ends[1])),
    q.level("size"),
    q.ratio("throughput / that without", lambda each: each.row, "different", "matters"),
    note=f"{PLAIN_WAY}, paired by block, p corrected (Holm) for all rows.",
)


def _figures(run: q.Run, _: Sequence[q.Point]) -> Iterator[q.Figure]:
    for title, side in (("Ways to send", 1), ("Ways to receive", 0)):
        known = _found(run).items()
        rows = {name: row for name, row in known if (name.split(ARROW) * 2)[side] == PLAIN[side]}
        yield from q.several(f"{title}, throughput", rows, "B/s", "size of the file")


PAIRS = q.Question(
    title="Every way of sending and receiving",
    experiment="transfer.copy",
    rows=lambda run: _narrow(run).points(RATE),
    headline=_fastest,
    text=("Over loopback, from the page cache to a tmpfs, one file; any sender meets any receiver."),
    tables=(
        lambda run, found: (
            _matrix(_narrow(run), size) for size in sorted({each.size for each in found})[::-1]
        ),
        lambda run, _: DIGEST_COSTS.of(_digests(run)),
    ),
    figures=_figures,
    factors=OWN,
    timed=True,
)


# ---- integrity

NAMES = tuple(each.name for each in LAB.experiments)


def _transfers(experiment: q.ExperimentResults) -> int:
    return sum(len(point) for point in experiment.points)


def _failed(experiment: q.ExperimentResults) -> Counter[str]:
    return Counter(reason for point in experiment.points for _, reason in point.failed)


def _files(experiment: q.ExperimentResults) -> int:
    return sum(
        (len(point) - len({index for index, _ in point.failed})) * int(point.factors.get("files", 1))
        for point in experiment.points
    )


def _arrived(_: q.Run, rows: Sequence[q.ExperimentResults]) -> str:
    files, transfers = sum(map(_files, rows)), sum(map(_transfers, rows))
    failed = sum(_failed(row).total() for row in rows)
    what = f"{q.counted(files, 'file')} of {q.counted(transfers - failed, 'transfer')} arrived equal to their"
    if not failed:
        return f"All {what} sources."
    return f"{what} sources; {q.counted(failed, 'transfer')} failed, and no time of theirs is used."


INTEGRITY = q.Question(
    title="Every file is equal to its source",
    experiment=NAMES,
    rows=lambda run: [each.experiment for each in run.all(*NAMES) if _transfers(each.experiment)],
    headline=_arrived,
    text="Received files are read again after the clock has stopped; one that differs is a failed sample.",
    tables=q.TableOf(
        "Files compared with their sources",
        q.text("experiment", lambda row: row.experiment),
        q.text("compared", lambda row: "sha512" if row.workload == "transfer.device" else "byte by byte"),
        q.count("transfers", _transfers),
        q.count("files equal", _files),
        q.count("failed", lambda row: _failed(row).total()),
        q.text("why", lambda row: "; ".join(f"{w} ({n})" for w, n in _failed(row).most_common()) or "none"),
    ),
    missing=lambda _: "",
)
