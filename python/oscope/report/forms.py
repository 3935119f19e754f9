"""Tables in the forms that documents and other programs read: Markdown, CSV, JSON. One mechanism for all."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import orjson

from oscope.model.formatting import GROUP, MISSING

if TYPE_CHECKING:
    from oscope.model.document import Table
    from oscope.model.table_form import Form

STYLE = "text-align: right; font-variant-numeric: tabular-nums"
_BETWEEN = " to "
_INTERVAL = "95 % interval"


def encode(tables: Sequence[Table], form: Form) -> str:
    """Return tables in a form other than text, with all columns and rows.

    csv: several tables are parted by an empty line. json: an array of objects with title, note and rows. In
    both, numbers have no groups, a missing one is empty or null, an interval is two columns, and a level with
    a unit, such as `4 KiB`, is a number in a further column, such as `size [B]`.
    """
    match form:
        case "md":
            return "\n".join(_markdown(table) for table in tables)
        case "csv":
            return "\n".join(_csv(table) for table in tables)
        case _:
            return (
                orjson.dumps([_object(table) for table in tables], option=orjson.OPT_INDENT_2).decode() + "\n"
            )


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.strip().replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    rule = ["--:" if index in table.numeric else "---" for index in range(len(table.columns))]
    title = [f"### {table.title}", ""] if table.title else []
    note = ["", *(f"{text}\n" for text in table.note.splitlines() if text)] if table.note else []
    return "\n".join([*title, *(line(row) for row in (table.columns, rule, *table.rows)), *note]) + "\n"


def html(tables: Sequence[Table]) -> str:
    """Return tables as a fragment of HTML, for a notebook."""
    return "".join(_html(table) for table in tables)


def _html(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        made = []
        for index, cell in enumerate(cells):
            style = f' style="{STYLE}"' if index in table.numeric else ""
            # A row that is shorter than the heading ends in a cell that runs over the rest.
            more = len(table.columns) - len(cells)
            span = f' colspan="{more + 1}"' if more and index == len(cells) - 1 else ""
            made.append(f"<{tag}{style}{span}>{escape(cell.strip())}</{tag}>")
        return f"<tr>{''.join(made)}</tr>"

    rows = "".join(row(cells, "td") for cells in table.rows)
    notes = "".join(f"<p>{escape(text)}</p>" for text in table.note.splitlines() if text)
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return f"<table>{title}<thead>{row(table.columns, 'th')}</thead><tbody>{rows}</tbody></table>{notes}"


def _csv(table: Table) -> str:
    columns, rows = _parted(table)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue()


def _object(table: Table) -> dict[str, object]:
    columns, rows = _parted(table)
    return {
        "title": table.title,
        "note": table.note,
        "rows": [dict(zip(columns, row, strict=True)) for row in rows],
    }


def _parted(table: Table) -> tuple[list[str], list[list[str | float | None]]]:
    """Return headings and rows, with a column for each end of an interval."""
    columns: list[str] = []
    rows: list[list[str | float | None]] = [[] for _ in table.rows]
    for index, heading in enumerate(table.columns):
        is_interval = heading.startswith(_INTERVAL)
        rest = heading.removeprefix(_INTERVAL)
        columns += [f"95 % low{rest}", f"95 % high{rest}"] if is_interval else [heading.strip()]
        for row, cells in zip(rows, table.rows, strict=True):
            cell = cells[index] if index < len(cells) else ""
            if is_interval:
                low, _, high = cell.partition(_BETWEEN)
                row += [_number(low), _number(high)]
            else:
                row.append(_number(cell) if index in table.numeric else cell.strip())
    for heading, values in table.plain.items():
        columns.append(heading)
        for row, value in zip(rows, values, strict=True):
            row.append(value)
    return columns, rows


def _number(cell: str) -> str | float | None:
    """Return a cell as a number, None for a missing one, or its text where it is none."""
    text = cell.replace(GROUP, "").strip()
    if text in ("", MISSING):
        return None
    try:
        return float(text) if any(sign in text for sign in ".e") else int(text)
    except ValueError:
        return text
