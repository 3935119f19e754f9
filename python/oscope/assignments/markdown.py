"""Sections as Markdown: tables by pipes, figures as links to their files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oscope.model.document import Figure, Section, Table


@dataclass(frozen=True)
class Page:
    """What stands on a page of Markdown."""

    title: str
    lead: Sequence[str]
    """Paragraphs under the title."""
    sections: Sequence[Section]


def encode(page: Page, files: Mapping[int, Path], folder: Path | None) -> bytes:
    """Return the page as Markdown.

    `files` gives the file of a figure by the identity of its value; `folder` is where the page will lie, so
    that links are relative to it. A figure without a file is named in a line.
    """
    parts = [f"# {page.title}", *page.lead]
    for section in page.sections:
        parts += _section(section, files, folder)
    return ("\n\n".join(parts) + "\n").encode()


def _section(section: Section, files: Mapping[int, Path], folder: Path | None) -> Iterable[str]:
    yield f"## {section.title}"
    if section.answer:
        yield section.answer
    if section.missing:
        yield f"> Not measured here. {section.missing}"
    yield from section.text
    for figure in section.figures:
        yield from _figure(figure, files.get(id(figure)), folder)
    for table in section.tables:
        yield from table_lines(table)


def _figure(figure: Figure, file: Path | None, folder: Path | None) -> Iterable[str]:
    if file is None:
        yield f"Figure: {figure.title}. `--figures DIR` draws it."
        return
    target = os.path.relpath(file, folder) if folder is not None else str(file)
    # Angle brackets let a name have spaces.
    yield f"![{figure.title}](<{target}>)"
    if figure.note:
        yield f"*{figure.note}*"


def table_lines(table: Table) -> Iterable[str]:
    """Return a table with its title and note; a short row's last cell stands before empty ones."""
    if table.title:
        yield f"**{table.title}**"
    rule = ["---:" if index in table.numeric else "---" for index in range(len(table.columns))]
    rows = [[*row, *[""] * (len(table.columns) - len(row))] for row in table.rows]
    yield "\n".join([_row(table.columns), _row(rule), *map(_row, rows)])
    if table.note:
        yield f"*{table.note}*"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Return a cell on one line; a pipe would end it, in code too."""
    # Not \s, which would take the space between groups of three digits as well.
    return re.sub(r"[ \t\r\n]+", " ", text).strip().replace("|", "\\|")
