"""What a shell completes beside options: names of experiments and labs, ids of runs. Nothing raises here."""

from __future__ import annotations

import os

from oscope import labs


def part_names(incomplete: str) -> list[tuple[str, str]]:
    """Return the experiments, inspections and labs that begin so, each with its title."""
    found = {lab.name: lab.title for lab in labs.LABS}
    found |= {part.name: part.title for lab in labs.LABS for part in lab.parts}
    return [(name, title) for name, title in found.items() if name.startswith(incomplete)]


def run_ids(incomplete: str) -> list[tuple[str, str]]:
    """Return `last` and the runs of the store that begin so, the newest first, each with its experiments."""
    from oscope.model.errors import OscopeError  # noqa: PLC0415 - start-up
    from oscope.storage.store import Store  # noqa: PLC0415 - start-up: the database

    try:
        with Store.read(os.environ.get("OSCOPE_STORE") or None) as store:
            entries = store.runs()
    except OscopeError:
        entries = ()
    found = [("last", "the newest run"), *((e.id, ", ".join(e.experiments[:3])) for e in reversed(entries))]
    return [each for each in found if each[0].startswith(incomplete)]
