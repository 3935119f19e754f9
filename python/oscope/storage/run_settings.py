"""What was asked of a run, and what it recorded of itself: the settings of its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.planning.plan import Plan, PlannedExperiment


def settings_of(plan: Plan, experiment: PlannedExperiment, events: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the settings of an experiment, as oscope/record.schema.json describes them.

    `events` are those of the run, by kind, in order.
    """
    duet = _duet(events, experiment.name)
    return {
        "profile": plan.profile,
        "place": plan.place,
        # Only of a host that ssh reaches by the user's own configuration.
        **({} if plan.host is None or plan.host.ssh_config else {"address": plan.host.address}),
        "reps": experiment.reps,
        "blocks": experiment.blocks,
        "min_time_ns": experiment.min_time_ns,
        "precision": plan.precision,
        "budget_s": _budget_s(plan, experiment),
        # Only of runs whose blocks have pauses between them.
        **({} if plan.spread_s is None else {"spread_s": plan.spread_s}),
        # Only of runs that compare builds of the probe.
        **({} if plan.build is None else {"build": plan.build}),
        # In a duet a side has nothing repeated without the other one.
        "again": plan.again and not duet,
        "notes": list(events.get("note", ())),
        # Only where it is not by the seed, as in records that are older than fixed orders.
        **({} if experiment.order == "seeded" else {"order": experiment.order}),
        "interleaved": events["interleaved"][-1] if events.get("interleaved") else None,
        **duet,
        # Only of runs that measured programs or functions of their user's.
        **({"programs": _programs(experiment)} if experiment.digests else {}),
        # Only of runs that measured commits of a repository.
        **({} if experiment.revisions is None else {"revisions": experiment.revisions.to_object()}),
        **({"bisection": events["bisection"][-1]} if events.get("bisection") else {}),
        "calibrated": events["calibrated"][-1] if events.get("calibrated") else None,
        **({"tuned": events["tuned"][-1]} if events.get("tuned") else {}),
        # Only of runs with injected interference.
        **({} if plan.injection is None else {"injection": _injection(plan.injection, events)}),
    }


def _budget_s(plan: Plan, experiment: PlannedExperiment) -> float | None:
    """Return the time that decides the number of blocks, else that of the whole run at most."""
    if plan.budget_s is None or plan.precision is not None or experiment.blocks is not None:
        return plan.budget_s
    return experiment.budget_s or plan.budget_s / len(plan.experiments)


def _programs(experiment: PlannedExperiment) -> list[dict[str, Any]]:
    """Return the digest of what each point measures."""
    found = zip(experiment.points, experiment.digests, strict=True)
    return [{"factors": dict(factors), "sha256": digest} for factors, digest in found]


def _duet(events: Mapping[str, list[Any]], experiment: str) -> dict[str, Any]:
    """Return the settings of an experiment that two runs measured at the same time; none for others."""
    found = events["duet"][-1] if events.get("duet") else {}
    return {"way": "duet", "cpus": found["cpus"]} if experiment in found.get("experiments", ()) else {}


def _injection(planned: Mapping[str, Any], events: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return a run's injected interference, with its phases: a resumed run has those of each of its parts."""
    parts = events.get("injected", ())
    places = [part["injector"] for part in parts if part["injector"]]
    phases = [phase for part in parts for phase in part["phases"]]
    return {**planned, "injector": places[-1] if places else None, "phases": phases}
