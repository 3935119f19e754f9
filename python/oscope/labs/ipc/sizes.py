"""What read and write return: sizes asked and got, short transfers, refusals, and what the channel holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, label, measured
from oscope.figures.traced import Traced, traced
from oscope.figures.words import listed
from oscope.labs.curve import bytes_text, has, metric, size_of
from oscope.labs.ipc import COMPARED, returns
from oscope.labs.ipc.points import TIME, plain
from oscope.labs.ipc.traced import effect_note, losses, untold
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, format_count, format_share, format_value
from oscope.model.samples import ExperimentResults, PointSamples

TITLE = "What read and write return"


@dataclass(frozen=True)
class Transfers:
    """The calls of one name at one point that moved bytes."""

    where: Traced
    call: str
    count: int
    refused: Mapping[str, int]
    """By errno."""
    asked: int
    returned: int
    short: int
    sizes: Sequence[tuple[int, int]]
    """Sizes returned with their counts, the commonest first; where bytes were returned."""
    capacity: float | None
    """Median of what the channel holds, in bytes."""

    @property
    def short_share(self) -> float:
        """Share of the calls that returned less than was asked; errors are no short transfers."""
        done = self.count - sum(self.refused.values())
        return self.short / done if done else 0.0


def section(results: Analysed) -> Section | None:
    """Answer E3, from traces where there are any, else from the workload's own counts."""
    experiment = results.get("ipc.trace")
    points = traced(experiment, TIME, "calls") if experiment is not None else []
    found = [each for point in points for each in _transfers(point)]
    counted = results.get("ipc.throughput") or experiment
    if counted is None:
        return None
    if not found:
        return _untraced(plain(counted), untold(experiment, "ipc.trace", points))
    return Section(
        title=TITLE,
        answer=" ".join([*_most_short(found), *_refusals(found), _capacities(found)]),
        text=[
            (
                "A call is short when it returns fewer bytes than it was asked for. Whoever writes to a full "
                "channel waits, or gets EAGAIN where the descriptor does not block; whoever reads gets what "
                "is there. The capacity is what the channel takes before a writer blocks, measured."
            ),
            *losses(points),
        ],
        tables=[_table(found)],
        figures=[_figure(found), *returns.figures(points)],
        missing=untold(experiment, "ipc.trace", points),
    )


def _transfers(point: Traced) -> list[Transfers]:
    capacity = measured(point.plain or point.point, "capacity")[0]
    found = []
    for name, call in point.reading["calls"].items():
        if not call.get("asked"):
            continue
        sizes = sorted(
            ((size, count) for size, count in call.get("sizes", []) if size > 0),
            key=lambda pair: (-pair[1], pair[0]),
        )
        found.append(
            Transfers(
                point,
                name,
                call["count"],
                call.get("errors", {}),
                call["asked"],
                call["returned"],
                call["short"],
                sizes,
                float(np.median(capacity)) if len(capacity) else None,
            )
        )
    return found


def _most_short(found: Sequence[Transfers]) -> list[str]:
    """Say for each call where its transfers are short most often."""
    told = []
    for call in dict.fromkeys(each.call for each in found):
        most = max((each for each in found if each.call == call), key=lambda each: each.short_share)
        if not most.short_share:
            told.append(f"`{call}` always moves what it was asked to.")
            continue
        text = f"`{call}` is short most often at {most.where.name}: {format_share(most.short_share)} of "
        text += f"{format_count(most.count)} calls"
        if most.sizes:
            size, count = most.sizes[0]
            text += f", the commonest return being {bytes_text(size)} ({format_share(count / most.count)})"
        told.append(f"{text}.")
    return told


def _refusals(found: Sequence[Transfers]) -> list[str]:
    most = max(found, key=lambda each: sum(each.refused.values()) / each.count)
    refused = sum(most.refused.values())
    if not refused:
        return []
    return [
        (
            f"{listed(sorted(most.refused))} ends {format_share(refused / most.count)} of the `{most.call}` "
            f"calls at {most.where.name}."
        )
    ]


def _capacities(found: Sequence[Transfers]) -> str:
    """Say whether short transfers return what the channel holds."""
    short = [each for each in found if each.short and each.sizes and each.capacity]
    if not short:
        return "No transfer was short, so nothing shows the capacity."
    at = [each for each in short if each.sizes[0][0] == each.capacity]
    parts = sum(each.sizes[0][0] < (each.capacity or 0.0) for each in short)
    whole = f"Of {len(short)} kinds of calls with short transfers, {len(at)} mostly return the whole capacity"
    names = list(dict.fromkeys(f"{each.where.point.factors.get('channel')}" for each in at))
    return f"{whole}{f' ({listed(names)})' if names else ''}, and {parts} mostly less than it."


def _table(found: Sequence[Transfers]) -> Table:
    rows = []
    for each in found:
        done = each.count - sum(each.refused.values())
        rows.append(
            [
                each.where.name,
                each.call,
                format_count(each.count),
                format_value(each.asked / each.count, None, "B"),
                format_value(each.returned / done, None, "B") if done else MISSING,
                format_share(each.short_share) if each.short else "none",
                ", ".join(f"{name}: {format_count(count)}" for name, count in each.refused.items()) or "none",
                format_count(len(each.sizes)),
                MISSING if each.capacity is None else bytes_text(each.capacity),
                each.where.effect_text,
            ]
        )
    columns = [
        "point",
        "call",
        "calls",
        "asked, mean",
        "returned, mean",
        "short",
        "errors",
        "different returns",
        "capacity",
        "probe effect (95 %)",
    ]
    note = (
        "Calls of all traced repetitions. Returned: mean of the calls without error. Probe effect: time "
        "traced over untraced, paired by block."
    )
    return Table("Bytes asked for and returned", columns, rows, frozenset({2, 7}), note)


def _figure(found: Sequence[Transfers]) -> Figure:
    names = list(dict.fromkeys(each.where.name for each in found))
    calls = list(dict.fromkeys(each.call for each in found))
    by_place = {(each.where.name, each.call): each for each in found}
    series = []
    for call in calls:
        row = [by_place.get((name, call)) for name in names]
        series.append(plots.Bars(call, [None if each is None else 100 * each.short_share for each in row]))
    note = effect_note({each.where.name: each.where for each in found}.values())
    axis = plots.axis("short [% of the calls]", range=[0, 105])
    return plots.bars("Share of short transfers", axis, names, series, note)


def _untraced(experiment: ExperimentResults, missing: str) -> Section | None:
    """Tell what the workload counts itself."""
    points = [
        point
        for point in experiment.points
        if len(measured(point, "writes")[0]) and (size_of(point) in COMPARED or not _compared(experiment))
    ]
    if not points:
        return Section(TITLE, "", missing=missing) if missing else None
    most = max(points, key=lambda point: _share(point, "short_reads", "reads"))
    share = _share(most, "short_reads", "reads")
    names = ("channel", "mode", "buffer")
    answer = (
        f"By the workload's own counts, reads are short most often at "
        f"{label(experiment, most.factors, names)}: {format_share(share)} of them."
        if share
        else "By the workload's own counts, no read is short."
    )
    columns = ["point", "writes", "short writes", "reads", "short reads", "EAGAIN", "capacity"]
    rows = [[label(experiment, point.factors, names), *_counts(point)] for point in points]
    table = Table("Calls by the workload's own counts", columns, rows, frozenset(range(1, 6)), "Medians.")
    return Section(TITLE, answer, tables=[table], missing=missing)


def _compared(experiment: ExperimentResults) -> bool:
    return any(has(point, {"buffer": size}) for point in experiment.points for size in COMPARED)


def _share(point: PointSamples, part: str, whole: str) -> float:
    shares = metric(point, part) / metric(point, whole)
    kept = shares[np.isfinite(shares)]
    return float(np.median(kept)) if len(kept) else 0.0


def _counts(point: PointSamples) -> list[str]:
    found: list[str] = []
    for name in ("writes", "short_writes", "reads", "short_reads", "refusals", "capacity"):
        values: Any = measured(point, name)[0]
        middle = float(np.median(values)) if len(values) else None
        if middle is None:
            found.append(MISSING)
        else:
            found.append(bytes_text(middle) if name == "capacity" else format_count(middle))
    return found
