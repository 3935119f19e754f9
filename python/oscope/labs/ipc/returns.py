"""What calls return: bytes asked and got, short transfers, errors, and what the channel holds."""

from __future__ import annotations

from collections.abc import Sequence

from oscope import questions as q
from oscope.labs.ipc import COMPARED
from oscope.labs.ipc import throughput as ipc
from oscope.questions.traced_calls import Call, calls_of, moved, returned


def _transfers(run: q.Run) -> list[Call]:
    every = (each for point in ipc.traces(run, "calls") for each in calls_of(point, None))
    return [each for each in every if each.data.get("asked")]


def _commonest(each: Call) -> str | None:
    """Return the commonest size returned where calls were short, with its share of the calls."""
    found = each.commonest if each.short else None
    return found and f"{q.bytes_text(found[0])} ({q.format_share(found[1])})"


def _most_short(_: q.Run, found: Sequence[Call]) -> str:
    share, alike = q.greatest(found, lambda each: each.short)
    if alike:
        names = q.first_named([f"`{each.name}` at {each.where.name}" for each in alike])
        return f"Short calls are most frequent of {names}: {share}."
    refused, calls = sum(each.failed for each in found), sum(each.data["count"] for each in found)
    of = f"{q.format_count(refused)} of {q.format_count(calls)} calls returned an error"
    return f"No successful call was short; {of}." if refused else "Every call moves what it was asked to."


def _bytes_written(mean: float) -> str:
    return q.format_value(mean, None, "B")


def _short_figure(_: q.Run, found: Sequence[Call]) -> q.Figure:
    rows = ((each.name, each.where.name, each.short) for each in found)
    note = q.effect_note(each.where for each in found)
    axis = q.plots.axis("short [% of the calls]", range=[0, 105])
    return q.bars("Share of short transfers", axis, rows, note, 0.01)


TRACED = q.Question(
    title="What read and write return",
    experiment=ipc.MOVED,
    rows=_transfers,
    headline=_most_short,
    text=(
        "Short: fewer bytes than asked. Capacity: what the channel takes before a writer blocks, measured.",
        lambda run, _: q.losses(ipc.traces(run, "calls")),
    ),
    tables=q.TableOf(
        "Bytes asked for and returned",
        q.text("point", lambda each: each.where.name),
        q.text("call", lambda each: each.name),
        q.count("calls", lambda each: each.data["count"]),
        q.written("asked, mean", lambda each: q.over(each.data["asked"], each.data["count"]), _bytes_written),
        q.written("returned, mean", lambda each: q.over(each.data["returned"], each.done), _bytes_written),
        q.text("short", lambda each: q.format_share(each.short) if each.data["short"] else "none"),
        q.text("errors", lambda each: q.errors_text(each.data["errors"])),
        q.count("different returns", lambda each: len(moved(each.data))),
        q.text("commonest return, where some are short", _commonest),
        q.written("capacity", lambda each: ipc.capacity(each.where.plain or each.where.point), q.bytes_text),
        q.effect_column(lambda each: each.where),
        note=f"Calls of all traced repetitions. Returned: mean of the calls without error. {q.EFFECT}",
    ),
    figures=(_short_figure, lambda run, _: returned(ipc.traces(run, "calls"), "channel", "mode")),
    missing=lambda run: ipc.gaps(run, "calls"),
)

SHORT_READS = q.Quantity(
    "short reads", "", lambda each: q.metric(each, "short_reads") / q.metric(each, "reads")
)


def _counts(run: q.Run) -> list[q.Point]:
    points = ipc.plain(run).points("writes")
    return [each for each in points if q.size_of(each.samples) in COMPARED] or points


def _counted(_: q.Run, points: Sequence[q.Point]) -> str:
    known = [(found, each) for each in points if (found := each.of(SHORT_READS)) is not None]
    if not known:
        return ""
    found, point = max(known, key=lambda pair: (pair[0].median, pair[0].maximum))
    most = found.median
    if not found.maximum:
        return "By the workload's own counts, no read is short."
    if not most:
        return (
            "By the workload's own counts, the median of short reads is 0 at every point; the maximum is "
            f"{q.format_share(found.maximum)} of the reads, at {point.label(ipc.NAMES)}."
        )
    return (
        f"By the workload's own counts, reads are short most often at {point.label(ipc.NAMES)}: "
        f"{q.format_share(most)} of them."
    )


sections = q.or_else(
    TRACED,
    rows=_counts,
    headline=_counted,
    tables=q.TableOf[q.Point](
        "Calls by the workload's own counts",
        q.text("point", lambda point: point.label(ipc.NAMES)),
        q.count("writes", "writes"),
        q.count("short writes", "short_writes"),
        q.count("reads", "reads"),
        q.count("short reads", "short_reads"),
        q.count("EAGAIN", "refusals"),
        q.written("capacity", "capacity", q.bytes_text),
        note="Medians.",
    ),
)
