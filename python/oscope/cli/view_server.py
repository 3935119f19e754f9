"""Serves the stored runs to a browser, for `oscope view`."""

from __future__ import annotations

import contextlib
import html
import os
import secrets
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path

from oscope.analysis.run_history import Line, Series
from oscope.cli.errors import DONE
from oscope.cli.views.history import remarks, series_columns, series_name
from oscope.labs import LABS
from oscope.model.document import Table
from oscope.report.view import server
from oscope.report.view.guard import ADDRESS
from oscope.report.view.page_text import Wording
from oscope.report.view.pages import Pages
from oscope.storage.store import Store


def serve(place: str | None, run: str | None, port: int, *, open_browser: bool) -> int:
    """Serve the store at `place` until Ctrl-C, beginning with `run`, and return the exit code."""
    page = "/"
    with Store.read(place, read_only=True) as store:
        if run is not None:
            page = f"/runs/{store.resolve(run)}"
    listening = server.bind(port)
    token = secrets.token_urlsafe(32)
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}{page}?token={token}"

    def ready() -> None:
        print(address, flush=True)
        print("Ctrl-C ends it.", file=sys.stderr, flush=True)

    with _browser(address) if open_browser else contextlib.nullcontext():
        server.serve(listening, Pages(place, LABS, _WORDING), token, ready)
    _leave_if_busy()
    return DONE


@contextlib.contextmanager
def _browser(address: str) -> Iterator[None]:
    """Open the address in the user's browser, where there is a screen.

    Every user of the machine sees the words of a command, so the browser is given a file that only its owner
    can read, and that leads to the address.
    """
    if not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="oscope-view-", dir=os.environ.get("XDG_RUNTIME_DIR")) as folder:
        page = Path(folder, "open.html")
        escaped = html.escape(address, quote=True)
        page.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={escaped}">')
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        yield


def _leave_if_busy() -> None:
    """End the process at once where an answer is still being computed, for which its end would wait."""
    others = [each for each in threading.enumerate() if each is not threading.main_thread()]
    if any(not each.daemon for each in others):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(DONE)


def _series(line: Line, series: Series) -> Table:
    """Return the table that `oscope history` prints of a series, with all of its runs."""
    return _table(series_columns(line, series, len(line.runs)))


def _table(columns: Sequence[Sequence[str]]) -> Table:
    """Return columns as a terminal has them, the heading first, as a table of the report."""
    stripped = [[cell.strip() for cell in column] for column in columns]
    numeric = frozenset(index for index, column in enumerate(columns) if _is_aligned(column))
    rows = [list(row) for row in zip(*(column[1:] for column in stripped), strict=True)]
    return Table("", [column[0] for column in stripped], rows, numeric)


def _is_aligned(column: Sequence[str]) -> bool:
    """Say whether a column was aligned as numbers are: `aligned` pads all of its texts to one width."""
    return len({len(cell) for cell in column}) == 1 and any(cell != cell.strip() for cell in column)


_WORDING = Wording(series_name, _series, remarks)
"""The words of the commands for what the browser shows as well."""
