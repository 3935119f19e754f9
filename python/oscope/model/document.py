"""What a report is made of, free of any medium: sections with paragraphs, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table a person can read: cells are finished text, numeric columns aligned on the decimal point."""

    title: str
    columns: Sequence[str]
    """Column headings with units, such as `median [ns]`."""
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    """Indices of the columns aligned on the decimal point."""
    note: str = ""
    plain: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    """Further columns for programs (csv, json): levels as numbers, with the unit in the heading."""


@dataclass(frozen=True)
class Figure:
    """A Plotly figure: traces and layout as plain dictionaries; the report's theme gives the colours."""

    title: str
    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    note: str = ""
    """One sentence: what to see in it."""


@dataclass(frozen=True)
class Section:
    """A question and its answer."""

    title: str
    answer: str
    """What was found, in a sentence or two, with figures and uncertainty; empty where there is nothing."""
    text: Sequence[str] = ()
    """Further paragraphs."""
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    """The first one is the headline: it answers the question, and is what `oscope run --figures` writes."""
    missing: str = ""
    """What could not be measured here, why, and how to get it."""
