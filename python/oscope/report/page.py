"""The report as one HTML file that needs no network: style, script, Plotly and the samples are inside it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from oscope.model.document import Figure, Table
from oscope.model.formatting import GROUP
from oscope.report import theme
from oscope.report.build import Report
from oscope.report.build import slug as slug

_TEMPLATES = Path(__file__).parent / "templates"
_NUMBER = re.compile(rf"-?[\d{GROUP}]+(?:\.(\d+))?$")
FIGURE_SPACE, PUNCTUATION_SPACE = "\u2007", "\u2008"


def render(report: Report) -> str:
    """Return the HTML of `report`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn: list[Figure] = []
    environment.filters |= {"prose": prose, "rows": aligned_rows, "slug": slug}
    environment.filters["data"] = partial(_kept, drawn)
    script = _part("report.js")
    plotly, plotly_hash = _plotly()
    return environment.get_template("report.html.j2").render(
        report=report,
        style=_trusted(_part("report.css")),
        light=_trusted(theme.variables("light")),
        dark=_trusted(theme.variables("dark")),
        script=_trusted(script),
        plotly=plotly,
        figures=lambda: _packed(drawn),
        policy=_policy(_source_hash(script.encode()), plotly_hash),
    )


def _kept(drawn: list[Figure], value: Figure | Mapping[str, Any]) -> Markup:
    """Return a value as `data` does, but of a figure its place among those to be packed."""
    if not isinstance(value, Figure):
        return data(value)
    drawn.append(value)
    return _trusted(str(len(drawn) - 1))


def _packed(figures: Sequence[Figure]) -> str:
    """Return the figures as JSON, gzip and base64: a seventh of the bytes of plain JSON."""
    text = _json([_plain(each) for each in figures])
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _part(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _trusted(text: str) -> Markup:
    """Mark text as markup: only for files of this package, and for JSON whose `<` are escaped."""
    return Markup(text)  # noqa: S704


def _policy(*script_hashes: str) -> str:
    """Return a content security policy: nothing is fetched, and only the scripts of these hashes run.

    Plotly writes style elements and attributes as it draws, so inline style is allowed.
    """
    scripts = " ".join(f"'{each}'" for each in script_hashes)
    sources = f"script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def _source_hash(source: bytes) -> str:
    """Return the hash of an inline script as Content Security Policy Level 3 has it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source).digest()).decode()


@lru_cache(maxsize=1)
def _plotly() -> tuple[str, str]:
    """Return the JavaScript that the plotly package ships, compressed as text, and its hash."""
    # The file itself: importing plotly's Python would take longer than reading it.
    source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(source, 9, mtime=0)).decode(), _source_hash(source)


def _plain(figure: Figure) -> dict[str, Any]:
    return {"traces": figure.traces, "layout": figure.layout}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def data(value: Figure | Mapping[str, Any]) -> Markup:
    """Return a value as JSON that may stand in a script element."""
    text = _json(_plain(value) if isinstance(value, Figure) else value)
    return _trusted(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def prose(text: str) -> Markup:
    """Return text with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    pieces = (
        Markup("<code>{}</code>").format(part) if odd % 2 else escape(part) for odd, part in enumerate(parts)
    )
    return Markup("").join(pieces)


def aligned_rows(table: Table) -> list[list[tuple[str, bool, int]]]:
    """Return the cells as (text, is a number, columns covered), numbers padded to align their points."""
    decimals = {
        index: max((_decimals(row[index]) or 0 for row in table.rows if index < len(row)), default=0)
        for index in table.numeric
    }
    rows = []
    for row in table.rows:
        cells = []
        for index, cell in enumerate(row):
            covered = len(table.columns) - index if index == len(row) - 1 else 1
            number = (index in table.numeric and covered == 1) or (
                index in table.numeric and index == len(table.columns) - 1
            )
            cells.append((_padded(cell, decimals[index]) if number else cell, number, covered))
        rows.append(cells)
    return rows


def _decimals(cell: str) -> int | None:
    found = _NUMBER.search(cell)
    return None if found is None else len(found[1] or "")


def _padded(cell: str, decimals: int) -> str:
    """Pad a number on the right to `decimals` places, with spaces as wide as a digit and a point."""
    own = _decimals(cell)
    if own is None or own >= decimals:
        return cell
    return cell + (PUNCTUATION_SPACE if own == 0 else "") + FIGURE_SPACE * (decimals - own)
