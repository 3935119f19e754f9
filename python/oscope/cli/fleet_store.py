"""Where a fleet's measurement is stored, and what is not there yet."""

from __future__ import annotations

import os

from oscope.cli.errors import note


def place_of(named: str | None) -> str:
    """Return where a worker finds the store."""
    from oscope.storage.database import locate  # noqa: PLC0415 - start-up

    url, file = locate(named or os.environ.get("OSCOPE_STORE") or None)
    return str(file) if file is not None else url.render_as_string(hide_password=False)


def note_waiting(named: str | None, fleet: str) -> None:
    """Say so where the store has not all of a fleet."""
    from oscope.runner.fleet import spool  # noqa: PLC0415 - start-up

    path = spool.waiting_in(place_of(named), fleet)
    if path is not None:
        note(f"{fleet} is not delivered whole: {path} has the rest. See oscope fleet run --resume {fleet}")
