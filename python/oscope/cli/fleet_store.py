"""What of a fleet's measurement is not in the store yet."""

from __future__ import annotations

from oscope.cli.errors import note


def note_waiting(named: str | None, fleet: str) -> None:
    """Say so where the store has not all of a fleet."""
    from oscope.runner.fleet import measuring, spool  # noqa: PLC0415 - start-up

    path = spool.waiting_in(measuring.place_of(named), fleet)
    if path is not None:
        note(f"{fleet} is not delivered whole: {path} has the rest. See oscope fleet run --resume {fleet}")
