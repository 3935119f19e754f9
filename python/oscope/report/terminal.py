"""Tables for a terminal, as wide as it is; plain text where standard output is none. No statistics here."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oscope.model import formatting

if TYPE_CHECKING:
    from oscope.model import document
    from oscope.model.finding import Finding
    from oscope.storage.store import RunEntry

LEAST_WIDTH = 40
LEAST_PROSE = 30
"""Columns that sentences have to have, to be broken into them."""
MOST_ROWS = 24
"""Rows of a report's table that a terminal shows."""
_UNIT_SPACE = re.compile(
    r"(?<=\d) (?=%|(?:[nµm]?s|min|h|[KMGT]?i?B|[kM]?Hz|GHz|cycles|ticks|instructions?|[kMG]?calls/s)\b)"
)

STATUS_STYLES = {"ok": "green", "limited": "yellow", "missing": "red"}


def console(*, to_standard_error: bool = False) -> Console:
    """Return a console that takes every text literally: names hold brackets, and colours are ours alone."""
    return Console(stderr=to_standard_error, highlight=False, markup=False, emoji=False)


def prose(text: str, width: int, *, indent: str = "") -> Text:
    """Return a paragraph broken between words, but not within a number or between it and its unit."""
    glued = _UNIT_SPACE.sub("\u00a0", text)
    # textwrap breaks at ASCII spaces only; Rich would break at the narrow spaces within a number too.
    broken = textwrap.fill(
        glued,
        max(width, LEAST_WIDTH),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return Text(broken.replace("\u00a0", " "))


def print_prose(text: str, out: Console, *, indent: str = "", style: str = "") -> None:
    """Print a paragraph as `prose` breaks it."""
    broken = prose(text, out.width, indent=indent)
    broken.stylize(style)
    out.print(broken, soft_wrap=True)


def print_remedy(remedy: str, out: Console) -> None:
    """Print what mends what was just told: unbroken, since it is often a command to be copied."""
    out.print(Text(f"  → {remedy}"), soft_wrap=True)


def print_stored(run_id: str, out: Console) -> None:
    """Print under which id a run is kept: before anything that may still fail."""
    out.print()
    out.print(Text(f"run {run_id} is stored: oscope show {run_id}"), soft_wrap=True)


def print_written(what: object, out: Console) -> None:
    """Print what was written."""
    out.print(Text(f"wrote {what}"), soft_wrap=True)


def print_runs(runs: Sequence[RunEntry], out: Console) -> None:
    """Print a row for each run of a store."""
    if not runs:
        out.print("no runs yet: oscope run makes one")
        return
    columns = [
        ["run", *(entry.id for entry in runs)],
        ["started", *(f"{entry.started.astimezone():%Y-%m-%d %H:%M}" for entry in runs)],
        ["status", *(entry.status for entry in runs)],
        aligned(["samples", *(formatting.format_count(entry.samples) for entry in runs)]),
        ["experiments", *(", ".join(entry.experiments) for entry in runs)],
    ]
    out.print(grid(columns, wrap_last=True))


def print_findings(findings: Sequence[Finding], out: Console) -> None:
    """Print what each check found; what is not well has its use beside it and its remedy under it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        told = Text(finding.found)
        if finding.status != "ok":
            told.append(f" (for {finding.needed_for})", style="dim")
        if finding.remedy:
            told.append(f"\n→ {finding.remedy}")
        table.add_row(Text(finding.status, style=STATUS_STYLES[finding.status]), Text(finding.name), told)
    out.print(table)
    counts = {status: sum(finding.status == status for finding in findings) for status in STATUS_STYLES}
    out.print(Text(", ".join(f"{count} {status}" for status, count in counts.items() if count), style="bold"))


def grid(columns: Sequence[Sequence[str]], *, wrap_last: bool = False) -> Table:
    """Return columns of finished text, the heading first, as a table; the last one wraps if asked to."""
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    for index, (heading, *_) in enumerate(columns):
        table.add_column(Text(heading), no_wrap=not wrap_last or index < len(columns) - 1)
    for row in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    return table


def print_table(table: document.Table, out: Console) -> None:
    """Print a table of a report."""
    out.print()
    out.print(Text(table.title, style="bold"))
    rows = table.rows[:MOST_ROWS]
    columns = [[heading, *cells] for heading, *cells in zip(table.columns, *rows, strict=True)]
    for index in table.numeric:
        columns[index] = aligned(columns[index])
    shown = len(columns)
    while shown > 1 and table_width(columns[:shown]) > max(out.width, LEAST_WIDTH):
        shown -= 1
    # A column of sentences is broken, where there is room; one of names or figures is left out.
    room = max(out.width, LEAST_WIDTH) - table_width(columns[:shown]) - 2
    is_broken = room >= LEAST_PROSE and shown < len(columns) and max(map(len, columns[shown])) > LEAST_PROSE
    shown += is_broken
    out.print(grid(columns[:shown], wrap_last=is_broken))
    hidden = ", ".join(table.columns[shown:])
    left = len(table.rows) - len(rows)
    for note in (
        f"{left} more rows: the report and the record have them all" if left else "",
        table.note,
        f"wider terminals also show: {hidden}" if hidden else "",
    ):
        if note:
            print_prose(note, out, style="dim")


def aligned(texts: Sequence[str]) -> list[str]:
    """Return a heading and the numbers under it, padded so that the points stand under each other."""
    heading, *numbers = texts
    tails = [len(number) - len(number.partition(".")[0]) for number in numbers]
    deepest = max(tails, default=0)
    padded = [number + " " * (deepest - tail) for number, tail in zip(numbers, tails, strict=True)]
    widest = max((len(text) for text in (heading, *padded)), default=0)
    return [text.rjust(widest) for text in (heading, *padded)]


def table_width(columns: Sequence[Sequence[str]]) -> int:
    """Return how wide `grid` draws these columns: two spaces part them."""
    return sum(max(map(len, column)) + 2 for column in columns) - 2
