"""Several factors as one, and all of its levels against one of them: ways of doing the same thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from oscope.figures.tables import row_scale, shared_scale
from oscope.model.document import Table
from oscope.model.factors import Level
from oscope.model.samples import PointSamples
from oscope.questions.contrast import Asked, Contrast, contrasts
from oscope.questions.run import Point, Run, known, untraced
from oscope.questions.table import Column, TableOf, ratio, text
from oscope.statistics import ComparedMetric, Summary


def combined(run: Run, name: str, of: Callable[[Mapping[str, Level]], str], *without: str) -> Run:
    """Return the untraced points with a factor `name`, which is made of all others, in place of some."""

    def renamed(point: PointSamples) -> PointSamples:
        rest = {each: level for each, level in point.factors.items() if each not in (*without, "tracer")}
        return replace(point, factors={**rest, name: of(point.factors)})

    def make() -> Run:
        points = tuple(map(renamed, untraced(run.experiment)))
        return Run(run.results, replace(run.experiment, points=points))

    return run.once(("combined", name), make)


def against(
    run: Run, asked: Asked | Sequence[Asked], metric: str, factor: str, base: str, **levels: Level
) -> list[Contrast]:
    """Return how each other level of a factor compares with `base`: one family of tests (Holm).

    Levels without values of `metric` are left out.
    """

    def make() -> list[Contrast]:
        others = dict.fromkeys(str(point.factors[factor]) for point in known(run.experiment, metric))
        ends = [(base, name) for name in others if name != base]
        return contrasts(run, asked, factor, *ends, **levels)

    return run.once(("against", asked, factor, base, *levels.items()), make)


def level_dots(
    points: Sequence[Point], of: Callable[[Point], str], row: Callable[[Point], str]
) -> list[tuple[str, str, Summary]]:
    """Return what `dots` draws of these points: a colour for each way `of` them, rows named by `row`."""
    order = list(dict.fromkeys(map(of, points)))
    rows = [(of(each), row(each), each.summary) for each in points]
    return sorted(rows, key=lambda each: order.index(each[0]))


def verdict_table(
    title: str, heading: str, base: str, rows: Sequence[Contrast], *places: Column[Contrast]
) -> Table:
    """Return each other level's time over that of `base`, with both answers; `places` say where."""
    columns = (
        *places,
        text(heading, lambda each: str(each.ends[1])),
        ratio(f"time / {base}'s", lambda each: each.row, "different", "matters"),
    )
    note = "Paired by block, p corrected (Holm) for all rows."
    return TableOf(title, *columns, note=note).of(rows)


def matrix(
    title: str,
    heading: str,
    found: Mapping[tuple[str, str], tuple[Summary, ComparedMetric | None]],
    orders: tuple[Sequence[str], Sequence[str]],
    unit: str,
    note: str,
) -> Table:
    """Return the medians of pairs of levels, the first as rows, each beside its ratio over one of them.

    The title names the `{unit}`. A ratio that is not found different has a question mark.
    """
    scale = shared_scale([summary for summary, _ in found.values()], unit)
    rows, columns = (
        [name for name in order if name in set(names)]
        for order, names in zip(orders, zip(*found, strict=True), strict=True)
    )

    def column(name: str) -> Column[str]:
        def cell(row: str) -> str | None:
            summary, over = found.get((row, name), (None, None))
            if summary is None:
                return None
            beside = "" if over is None else f" · {over.ratio:.2f}×{'' if over.different == 'yes' else '?'}"
            return f"{row_scale(scale, summary).text(summary.median)}{beside}"

        return text(f"→ {name}", cell)

    named = title.format(unit=scale.unit)
    return TableOf[str](named, text(heading, str), *map(column, columns), note=note).of(rows)
