"""The Python interface behind `oscope.bench`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oscope import programs
from oscope.api import Bench, check_types, tell
from oscope.model.errors import UsageError
from oscope.model.units import parse_bytes, parse_duration, parse_share
from oscope.planning.plan import Plan
from oscope.programs import BenchSpec, Command, Conditions, Parameter, Surroundings, bench_plan
from oscope.programs.functions import FunctionBench, function_plan
from oscope.programs.revisions import (
    RevisionRequest,
    revision_plan,
    without_foreign_repository,
    workshop_for,
)
from oscope.programs.worktrees import BuildError
from oscope.runner import recovery
from oscope.runner.execution import execute
from oscope.storage.store import Store
from oscope.targets.guest.spec import Where
from oscope.trace.factor import parse_kinds


@dataclass(frozen=True)
class BenchRequest:
    """What a call of `oscope.bench` asks for."""

    commands: tuple[str | Sequence[str], ...]
    names: tuple[str, ...]
    parameters: Mapping[str, Sequence[object]]
    surroundings: Mapping[str, Any]
    timeout: float | str
    reps: int | None
    precision: float | str | None
    budget: float | str | None
    warmup: int | None
    quick: bool
    on: str | None
    cpus: int | None
    memory: int | str | None
    trace: tuple[str, ...]
    git: tuple[str, ...]
    """Revisions of the repository here, or ranges of them; none: the commands are measured as they are."""
    build: str | None

    def conditions(self) -> Conditions:
        """Return where they are measured, and under which tracer."""
        check_types(on=self.on, cpus=self.cpus, memory=self.memory)
        memory = parse_bytes(self.memory) if isinstance(self.memory, str) else self.memory
        where = Where(self.on, None, self.cpus, memory)
        return Conditions(where, parse_kinds(self.trace) if self.trace else None)

    def spec(self, metric: str | None, seed: int | None) -> BenchSpec:
        """Return it with texts converted; UsageError for what is wrong."""
        if len(self.names) > len(self.commands):
            raise UsageError("there are more names than commands", remedy="give one name a command")
        labels = [*self.names, *[None] * (len(self.commands) - len(self.names))]
        commands = [Command.of(each, label) for each, label in zip(self.commands, labels, strict=True)]
        parameters = [Parameter.given(name, values) for name, values in self.parameters.items()]
        timeout_s = parse_duration(self.timeout) if isinstance(self.timeout, str) else float(self.timeout)
        precision = parse_share(self.precision) if isinstance(self.precision, str) else self.precision
        budget_s = parse_duration(self.budget) if isinstance(self.budget, str) else self.budget
        return BenchSpec(
            commands,
            parameters,
            Surroundings(**self.surroundings, timeout_s=timeout_s),
            programs.Amount(self.reps, precision, budget_s, self.warmup, self.quick),
            metric,
            seed,
            self.conditions(),
        )


class _Builds:
    """Reports what a person should know of the builds, and shows nothing meanwhile."""

    def building(self, doing: str, number: int, expected: int, left_s: float | None) -> nullcontext[None]:
        """Return a context that does nothing."""
        del doing, number, expected, left_s
        return nullcontext()

    def note(self, text: str) -> None:
        """Write a note as a line."""
        tell(text)


def measure_commands(
    request: BenchRequest, *, metric: str | None, seed: int | None, place: str | Path | None
) -> Bench:
    """Do what `oscope.bench` says."""
    recovery.restore_once(tell)
    spec = request.spec(metric, seed)
    if request.build is not None and not request.git:
        raise UsageError("build= needs git=", remedy="name two revisions")
    planned = _revisions(request, spec) if request.git else nullcontext(bench_plan(spec)[0])
    with planned as plan, Store.open(place) as store:
        outcome = execute(plan, store)
        return Bench(outcome.run_id, store.results(outcome.run_id), place)


@contextmanager
def _revisions(request: BenchRequest, spec: BenchSpec) -> Iterator[Plan]:
    """Give the plan that measures the commands at the revisions, which are there meanwhile."""
    spec.conditions.check(spec.amount.precision, revisions=True)
    with without_foreign_repository():
        asked = RevisionRequest.of(request.git, request.build, bisect=False, folder=Path.cwd())
        for text in asked.notes(spec.commands):
            tell(text)
        with workshop_for(asked, spec.surroundings, _Builds()) as workshop:
            try:
                plan = revision_plan(workshop, asked.sides, spec)
            except BuildError as error:
                for line in error.lines:
                    tell(f"its build: {line}")
                raise
            yield plan


@dataclass(frozen=True)
class FunctionRequest:
    """What a call of `oscope.bench` with functions asks for."""

    functions: tuple[Any, ...]
    names: tuple[str, ...]
    parameters: Mapping[str, Sequence[Any]]
    setup: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    collect: bool
    pin: int | None
    timeout: float | str
    reps: int | None
    precision: float | str | None
    budget: float | str | None
    warmup: int | None
    quick: bool
    of_programs: Mapping[str, Any]
    """Arguments that only programs have."""

    def bench(self) -> FunctionBench:
        """Return what is called, and how; UsageError for what is wrong."""
        foreign = [name for name, value in self.of_programs.items() if value]
        if foreign:
            raise UsageError(
                f"{foreign[0]}= belongs to programs, and a function is measured",
                remedy="do it in setup=, a function that each process calls first",
            )
        if self.setup is not None and not callable(self.setup):
            raise UsageError(
                f"setup={self.setup!r} is no function", remedy="give a function, such as a lambda"
            )
        timeout_s = parse_duration(self.timeout) if isinstance(self.timeout, str) else float(self.timeout)
        return FunctionBench(
            self.functions,
            self.names,
            self.parameters,
            self.setup,
            self.args,
            self.kwargs,
            self.collect,
            self.pin,
            timeout_s,
        )

    def amount(self) -> programs.Amount:
        """Return how much is measured, with texts converted."""
        precision = parse_share(self.precision) if isinstance(self.precision, str) else self.precision
        budget_s = parse_duration(self.budget) if isinstance(self.budget, str) else self.budget
        return programs.Amount(self.reps, precision, budget_s, self.warmup, self.quick)


def measure_functions(
    request: FunctionRequest, *, metric: str | None, seed: int | None, place: str | Path | None
) -> Bench:
    """Do what `oscope.bench` says of functions."""
    recovery.restore_once(tell)
    with (
        function_plan(request.bench(), request.amount(), metric=metric, seed=seed) as plan,
        Store.open(place) as store,
    ):
        outcome = execute(plan, store)
        return Bench(outcome.run_id, store.results(outcome.run_id), place)
