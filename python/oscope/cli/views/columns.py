"""Columns of medians in a table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oscope.figures.answer_text import with_unit
from oscope.figures.tables import row_scale, shared_scale
from oscope.model import formatting
from oscope.report.terminal import aligned
from oscope.statistics import injected

if TYPE_CHECKING:
    from oscope.model.samples import ExperimentResults
    from oscope.statistics import Summary


def measurement_columns(
    name: str, summaries: Sequence[Summary], unit: str, *, plain: bool = False
) -> list[list[str]]:
    """Return the columns of the median and of its 95 % interval; a row has the same decimals in both.

    `plain`: in `unit` itself, for a program, and not with the prefix that suits the figures.
    """
    scale = _scale(summaries, unit, plain=plain)
    rows = [row_scale(scale, s) for s in summaries]
    medians = [row.text(s.median) for row, s in zip(rows, summaries, strict=True)]
    intervals = [row.span(s.ci95) for row, s in zip(rows, summaries, strict=True)]
    return [aligned([with_unit(name, scale.unit), *medians]), ["95 % interval", *intervals]]


def injected_columns(experiment: ExperimentResults, rows: int) -> list[list[str]]:
    """Return the column that marks each row of an injected run with its causes; none of a clean run."""
    causes = injected.causes_of(experiment)
    return [["injected", *[", ".join(causes)] * rows]] if causes else []


def median_column(
    name: str, summaries: Sequence[Summary | None], unit: str, *, plain: bool = False
) -> list[str]:
    """Return the column of a further metric's medians, with the digits that their intervals allow."""
    present = [s for s in summaries if s]
    scale = _scale(present, unit, plain=plain)
    texts = [row_scale(scale, s).text(s.median) if s else formatting.MISSING for s in summaries]
    return aligned([with_unit(name, scale.unit), *texts])


def _scale(summaries: Sequence[Summary], unit: str, *, plain: bool) -> formatting.Scale:
    return formatting.PlainScale.of_unit(unit) if plain else shared_scale(summaries, unit)
