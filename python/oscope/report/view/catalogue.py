"""The runs of a store as a list that can be filtered: by name, experiment, date, machine and host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from typing import Any

import orjson
import sqlalchemy as sa

from oscope.storage import schema
from oscope.storage.store import RunEntry, Store

_SHOWN_LETTERS = 8
"""Of a digest, enough to tell it from others."""


@dataclass(frozen=True)
class Run:
    """A run with where it was measured."""

    entry: RunEntry
    machine: str
    """Digest of the machine, or empty."""
    host: str
    """Digest of the host's name, or empty."""
    cpu: str
    kernel: str

    @property
    def machine_label(self) -> str:
        """The machine as a person reads it."""
        return " ".join(
            filter(None, [self.cpu, f"({self.machine[:_SHOWN_LETTERS]})" if self.machine else ""])
        )

    @property
    def is_unfinished(self) -> bool:
        """Whether it goes on, or was killed."""
        return self.entry.status == "unfinished"

    @property
    def text(self) -> str:
        """What the filter by name looks at."""
        parts = [self.entry.id, self.entry.profile, *self.entry.experiments, *self.entry.programs]
        return " ".join(parts).lower()

    def measured(self, most: int) -> str:
        """Return what it measured: `most` experiments at most, and the programs of its user."""
        names, programs = self.entry.experiments, self.entry.programs
        more = f" and {len(names) - most} more" if len(names) > most else ""
        return f"{', '.join(names[:most])}{more}{': ' if programs else ''}{', '.join(programs)}"

    @property
    def subjects(self) -> frozenset[tuple[str, str]]:
        """Each experiment with each program of its user; an empty name where there is none."""
        return frozenset(product(self.entry.experiments, self.entry.programs or ("",)))


@dataclass(frozen=True)
class Filter:
    """Which runs are listed; what is empty lets all pass."""

    name: str = ""
    """Part of the id, or of the name of an experiment or program."""
    experiment: str = ""
    machine: str = ""
    host: str = ""
    since: date | None = None
    """Local days, both included."""
    until: date | None = None

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filter:
        """Return the filter that a query asks for; a date that is none is left out."""
        texts = {name: query.get(name, "").strip() for name in ("name", "experiment", "machine", "host")}
        return cls(**texts, since=_day(query.get("since", "")), until=_day(query.get("until", "")))

    def passes(self, run: Run) -> bool:
        """Say whether a run is listed."""
        day = run.entry.started.astimezone().date()
        return (
            self.name.lower() in run.text
            and self.experiment in ("", *run.entry.experiments)
            and self.machine in ("", run.machine)
            and self.host in ("", run.host)
            and (self.since is None or day >= self.since)
            and (self.until is None or day <= self.until)
        )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None


def read_runs(store: Store) -> list[Run]:
    """Return all runs of a store, the newest first."""
    environments = _environments(store)
    return [_run(entry, environments.get(entry.id, {})) for entry in reversed(store.runs())]


def suggested(runs: Sequence[Run]) -> tuple[str, str]:
    """Return ids of two runs to compare, the older one first: the newest two of one subject; else empty ones.

    `runs` are the newest first. Those without samples and those with injected interference are left out.
    """
    newest: dict[tuple[str, str], str] = {}
    for run in runs:
        if not run.entry.samples or not run.entry.has_ended or run.entry.has_injection:
            continue
        for subject in sorted(run.subjects):
            if subject in newest:
                return run.entry.id, newest[subject]
        newest |= dict.fromkeys(run.subjects, run.entry.id)
    return "", ""


def _environments(store: Store) -> dict[str, Mapping[str, Any]]:
    """Return the first environment of each run."""
    table = schema.event
    first = sa.select(sa.func.min(table.c.id)).where(table.c.kind == "environment").group_by(table.c.run_id)
    query = sa.select(table.c.run_id, table.c.data).where(table.c.id.in_(first))
    with store.reading() as connection:
        return {run_id: orjson.loads(data) for run_id, data in connection.execute(query)}


def _run(entry: RunEntry, environment: Mapping[str, Any]) -> Run:
    part: Mapping[str, Any] = environment.get("cpu") or {}
    kernel: Mapping[str, Any] = environment.get("kernel") or {}
    return Run(
        entry,
        machine=str(environment.get("machine") or ""),
        host=str(environment.get("hostname_hash") or ""),
        cpu=str(part.get("model") or ""),
        kernel=str(kernel.get("release") or ""),
    )


def choices(runs: Sequence[Run]) -> dict[str, dict[str, str]]:
    """Return what can be chosen of each field: its value, and how a person reads it."""
    return {
        "experiment": {
            name: name for name in sorted({name for run in runs for name in run.entry.experiments})
        },
        "machine": {run.machine: run.machine_label for run in runs if run.machine},
        "host": {run.host: run.host[:_SHOWN_LETTERS] for run in runs if run.host},
    }
