"""Measures commands from the Python interface: `oscope.bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oscope.programs.command import Command, Parameter, Surroundings
from oscope.programs.experiment import Amount, bench_plan
from oscope.programs.findings import Findings, find
from oscope.runner.execution import execute
from oscope.storage.store import Store


def measure(
    commands: Sequence[Command],
    parameters: Sequence[Parameter],
    surroundings: Surroundings,
    amount: Amount,
    *,
    metric: str | None,
    seed: int | None,
    place: str | Path | None,
) -> Findings:
    """Measure `commands` into the store at `place`, and return what was found.

    Raises UsageError for a request that cannot be, OscopeError where a command fails.
    """
    plan, _ = bench_plan(commands, parameters, surroundings, amount, metric=metric, seed=seed)
    with Store.open(place) as store:
        outcome = execute(plan, store)
        return find(store.results(outcome.run_id))
