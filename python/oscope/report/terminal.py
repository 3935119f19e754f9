"""Tables for a terminal, as wide as it is; into a pipe they have all columns. No statistics here."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from oscope.model import document
    from oscope.model.finding import Finding

LEAST_WIDTH = 40
LEAST_PROSE = 30
"""Columns that sentences have to have, to be broken into them."""
LEAST_NAME = 10
"""Columns of characters that a broken column keeps, so that names are read at a glance."""
MOST_ROWS = 24
"""Rows of a report's table that a terminal shows."""
UNBOUNDED = 1 << 16
"""Columns and rows of what is no terminal."""
_FILLING = re.compile(r" +(?=\n)")
_UNIT_SPACE = re.compile(
    r"(?<=\d) (?=%|(?:[nµm]?s|min|h|[KMGT]?i?B|[kM]?Hz|GHz|cycles|ticks|instructions?|[kMG]?calls/s)\b)"
)
_COMMAND = re.compile(
    r"`[^`\n]*`"
    r"|(?<![\w/.-])(?:apt-get|echo|modprobe|oscope(?:-\w+)?|pip|sudo|sysctl|ulimit)"
    r"""(?: (?!\()(?:"[^"]*"|'[^']*'|[,;:)](?=\S)|[^\s"',;:)])+)+"""
)
"""A command within a sentence: in backquotes, or from a program's name to the end of the clause."""

STATUS_STYLES = {"ok": "green", "limited": "yellow", "missing": "red"}


class Piped(Console):
    """A console that is no terminal: whole tables, and no spaces at the end of a line."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as a console does, less the spaces with which tables fill their last column."""
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(_FILLING.sub("", captured.get()))


def console(*, to_standard_error: bool = False) -> Console:
    """Return a console that takes every text literally: names hold brackets, and colours are ours alone."""
    out = Console(stderr=to_standard_error, highlight=False, markup=False, emoji=False)
    if out.is_terminal or "COLUMNS" in os.environ:
        return out
    return Piped(stderr=to_standard_error, highlight=False, markup=False, emoji=False)


def table_room(out: Console) -> int:
    """Return how many columns of characters a table may take."""
    return UNBOUNDED if isinstance(out, Piped) else max(out.width, LEAST_WIDTH)


def row_room(out: Console) -> int:
    """Return how many rows of a table are shown."""
    return UNBOUNDED if isinstance(out, Piped) else MOST_ROWS


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
    """Print a paragraph as `prose` breaks it, but no command in it."""
    broken = prose(_glued(text), out.width, indent=indent)
    broken.stylize(style)
    out.print(broken, soft_wrap=True)


def print_remedy(remedy: str, out: Console) -> None:
    """Print how to fix what was just reported; in a pipe it is one line, to be copied.

    On a terminal the text wraps, but a command in it never does: pasted, its lines would be two commands.
    """
    print_indented(_glued(remedy), out, first="  → ", indent="    ")


def print_note(text: str, out: Console) -> None:
    """Print a note of a command; it wraps as a remedy does."""
    print_indented(_glued(text), out, first="", indent="")


def _glued(text: str) -> str:
    """Return `text` with commands that `prose` does not break."""
    return _COMMAND.sub(lambda found: found[0].replace(" ", "\u00a0"), text)


def print_indented(text: str, out: Console, *, first: str, indent: str) -> None:
    """Print a paragraph after `first`, its further lines after `indent`; in a pipe it is one line.

    A word is never broken: a path or an option can be copied.
    """
    if isinstance(out, Piped):
        out.print(Text(f"{first}{text}".replace("\u00a0", " ")), soft_wrap=True)
        return
    for index, line in enumerate(prose(text, out.width - len(indent)).plain.splitlines()):
        out.print(Text(f"{indent if index else first}{line}"), soft_wrap=True)


def print_stored(run_id: str, out: Console, option: str) -> None:
    """Print under which id a run is kept: before anything that may still fail.

    `option` names its store to a command (`Store.option`).
    """
    out.print()
    out.print(Text(f"run {run_id} is stored: oscope show {run_id}{option}"), soft_wrap=True)


def print_written(what: object, out: Console) -> None:
    """Print what was written."""
    out.print(Text(f"wrote {what}"), soft_wrap=True)


def print_findings(findings: Sequence[Finding], out: Console) -> None:
    """Print what each check found; what is not "ok" has its use beside it and its remedy under it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        text = Text(finding.found)
        if finding.status != "ok":
            text.append(f"; matters for {finding.needed_for}", style="dim")
        if finding.remedy:
            text.append(f"\n→ {finding.remedy}")
        table.add_row(Text(finding.status, style=STATUS_STYLES[finding.status]), Text(finding.name), text)
    # In a pipe each finding is a line, and each remedy one, to be searched and copied.
    whole = out.options.update(width=UNBOUNDED if isinstance(out, Piped) else out.width)
    out.print(Segments(out.render(table, whole)), soft_wrap=True, end="")
    counts = {status: sum(finding.status == status for finding in findings) for status in STATUS_STYLES}
    out.print(Text(", ".join(f"{count} {status}" for status, count in counts.items() if count), style="bold"))


def grid(columns: Sequence[Sequence[str]], *, wrapped: Collection[int] = ()) -> Table:
    """Return columns of finished text, the heading first, as a table; those of these indices may wrap."""
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    for index, (heading, *_) in enumerate(columns):
        table.add_column(Text(heading), no_wrap=index not in wrapped, overflow="fold")
    for row in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    return table


def print_columns(
    columns: Sequence[Sequence[str]], out: Console, *, wrap_last: bool = False, names: int = 0
) -> None:
    """Print columns as `grid` draws them: a line that is wider than the terminal is broken, never cut.

    Cells of the last column wrap if asked to, and those of the first `names` columns.
    """
    last = len(columns) - 1
    wrapped = {*range(names), *([last] if wrap_last else [])}
    if isinstance(out, Piped):
        least = table_width(columns)
    else:
        least = sum(_least(column, is_wrapped=i in wrapped) + 2 for i, column in enumerate(columns)) - 2
    whole = out.options.update(width=max(out.width, least))
    out.print(Segments(out.render(grid(columns, wrapped=wrapped), whole)), soft_wrap=True, end="")


def _least(column: Sequence[str], *, is_wrapped: bool) -> int:
    """Return how narrow a column may be drawn."""
    lines = [line for cell in column for line in cell.split("\n")]
    widest = max(map(len, lines))
    return min(widest, LEAST_NAME) if is_wrapped else widest


def columns_of(table: document.Table) -> list[list[str]]:
    """Return the columns of a table, the heading first, numbers with their points under each other."""
    columns = [[heading, *cells] for heading, *cells in zip(table.columns, *table.rows, strict=True)]
    return [aligned(column) if index in table.numeric else column for index, column in enumerate(columns)]


def print_table(table: document.Table, out: Console) -> None:
    """Print a table; where the terminal is too narrow, without the columns that its note does not cite."""
    out.print()
    out.print(Text(table.title, style="bold"))
    rows = table.rows[: row_room(out)]
    columns = columns_of(replace(table, rows=rows))
    kept, is_broken = _fitting(columns, table.note, table_room(out))
    print_columns([columns[index] for index in kept], out, wrap_last=is_broken)
    hidden = [heading for index, heading in enumerate(table.columns) if index not in kept]
    left = len(table.rows) - len(rows)
    for note in (
        f"{left} more rows: a pipe (| cat), the report and the record have all rows" if left else "",
        table.note,
        without(hidden),
    ):
        if note:
            print_prose(note, out, style="dim")


def without(hidden: Sequence[str]) -> str:
    """Say which columns a table is shown without; empty where it has all."""
    return f"wider terminals also show: {', '.join(each.strip() for each in hidden)}" if hidden else ""


def _fitting(columns: Sequence[Sequence[str]], note: str, room: int) -> tuple[list[int], bool]:
    """Return which columns fit into `room`, and whether the last of them is to be broken into lines.

    The first column always stays. Of the others the last one goes first, but those that the note cites only
    once no other is left.
    """
    kept = list(range(len(columns)))

    def width() -> int:
        return table_width([columns[index] for index in kept])

    cited = [index for index in kept if index and _is_cited(columns[index][0], note)]
    for index in [*(i for i in reversed(kept[1:]) if i not in cited), *reversed(cited)]:
        if width() <= room:
            break
        kept.remove(index)
        # A column of sentences is broken, where there is room; one of names or figures is left out.
        left = room - width() - 2
        is_last = all(other < index for other in kept)
        if is_last and left >= LEAST_PROSE and max(map(len, columns[index])) > LEAST_PROSE:
            return [*kept, index], True
    return kept, False


def _is_cited(heading: str, note: str) -> bool:
    name = heading.partition("[")[0].strip()
    return bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", note) is not None


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
