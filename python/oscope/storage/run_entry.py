"""A line of the list of runs, as the store has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import sqlalchemy as sa

from oscope.model.injection import injected_causes

UNFINISHED = "unfinished"
"""Status of a run from its start until it ends; a killed one keeps it."""


@dataclass(frozen=True)
class RunEntry:
    """A line of the list of runs."""

    id: str
    started: datetime
    status: str
    profile: str
    place: str
    experiments: tuple[str, ...]
    """Their names, then those of the inspections."""
    samples: int
    injected: tuple[str, ...]
    """The causes of the interference that was injected into it, as `--inject` takes them."""
    programs: tuple[str, ...]
    """The commands or functions that a bench measures, the user's workload programs, builds of the probe."""
    digests: Mapping[str, Sequence[str]] = field(hash=False)
    """By experiment what its user's programs or functions are known by; empty for one that has none."""

    @property
    def has_injection(self) -> bool:
        """Whether interference was injected into it: it is no clean measurement."""
        return bool(self.injected)

    @property
    def has_ended(self) -> bool:
        """Whether it is neither under way nor was killed: it is done, interrupted or failed."""
        return self.status != UNFINISHED


def entry_of(row: sa.Row[Any], status: str, samples: int) -> RunEntry:
    """Return the line of a row of the table of runs."""
    plan = orjson.loads(row.plan)
    return RunEntry(
        id=row.id,
        started=datetime.fromtimestamp(row.started_ns / 1e9, UTC),
        status=status,
        profile=plan["profile"],
        place=plan["place"],
        experiments=(*(e["name"] for e in plan["experiments"]), *plan.get("inspections", ())),
        samples=samples,
        injected=injected_causes(plan["injection"]) if plan.get("injection") else (),
        programs=_programs(plan),
        digests={each["name"]: sorted({*each.get("digests", ())}) for each in plan["experiments"]},
    )


def _programs(plan: Mapping[str, Any]) -> tuple[str, ...]:
    experiments = plan["experiments"]
    points = (point for experiment in experiments for point in experiment["points"])
    named = [point.get("command", point.get("function")) for point in points]
    named += [(experiment.get("program") or {}).get("name") for experiment in experiments]
    named.append(plan.get("build"))
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))
