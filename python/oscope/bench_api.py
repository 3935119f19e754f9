"""The Python interface: `oscope.bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

from oscope.api import Bench, as_bytes, as_seconds, as_share, check_types, notify
from oscope.model.arguments import naming_arguments
from oscope.model.errors import UsageError
from oscope.planning.plan import Plan
from oscope.programs.command import Command, CommandContext, Parameter
from oscope.programs.conditions import Conditions
from oscope.programs.experiment import bench_plan
from oscope.programs.functions import FunctionBench, function_plan
from oscope.programs.revisions import (
    RevisionRequest,
    revision_plan,
    without_foreign_repository,
    workshop_for,
)
from oscope.programs.spec import Amount, BenchSpec
from oscope.programs.worktrees import BuildError
from oscope.runner import recovery
from oscope.runner.execution import execute
from oscope.storage.store import Store
from oscope.targets.guest.spec import Where
from oscope.trace.factor import parse_kinds


@naming_arguments
def bench(
    commands: str | Callable[..., Any] | Sequence[str | Sequence[str] | Callable[..., Any]],
    *,
    names: Sequence[str] = (),
    parameters: Mapping[str, Sequence[Any]] | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    gc: bool = False,
    setup: str | Callable[..., Any] | None = None,
    prepare: str | None = None,
    cleanup: str | None = None,
    warmup: int | None = 1,
    reps: int | None = None,
    precision: float | str | None = None,
    budget: float | str | None = None,
    quick: bool = False,
    metric: str | None = None,
    shell: str | None = None,
    ignore_failure: bool = False,
    timeout: float | str = 600.0,
    input: str | Path | None = None,  # noqa: A002 - as of the command's option
    output: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    cold: Sequence[str | Path] = (),
    pin: int | None = None,
    on: str | None = None,
    cpus: int | None = None,
    memory: int | str | None = None,
    trace: Sequence[str] = (),
    git: str | Sequence[str] = (),
    build: str | None = None,
    seed: int | None = None,
    store: str | Path | None = None,
) -> Bench:
    """Measure programs or functions of Python interleaved, and compare each with the first.

    Each command is a quoted line, split as a shell would, or a list of words; no shell runs it unless `shell`
    names one. `parameters` gives values for each {NAME} in the commands. `warmup` None finds how many runs
    do not count. `on` is `local`, `guest` or `guest:KERNEL`; a guest has so many `cpus` and so much `memory`.
    With `trace` (some of counts, syscalls, sched, faults) every command is measured under bpftrace as well.
    `git` names two or more revisions of the repository here, or a range `"REV1..REV2"`: each is built by
    `build` in a worktree of its own, and the commands are measured in all of them. The other arguments are
    those of the command line.

    A function is called with `args` and `kwargs`, in fresh processes; a repetition calls it as often as takes
    2 ms. `setup` is then a function, called once in each process outside the clock; what it returns, unless
    None, is the measured function's first argument. Each combination of `parameters` is passed by keyword to
    `setup` or the function, whichever takes it. The garbage collector is off meanwhile, as with timeit,
    unless `gc` is set. `warmup` counts repetitions. The arguments that only programs have are refused.

    Raises UsageError for a request that cannot be, OscopeError where a command or function fails, and
    TypeError for an argument of a wrong type.
    """
    check_types(
        warmup=warmup,
        reps=reps,
        precision=precision,
        budget=budget,
        timeout=timeout,
        pin=pin,
        on=on,
        cpus=cpus,
        memory=memory,
        seed=seed,
        store=store,
        parameters=parameters,
    )
    given = _given(commands)
    seconds = as_seconds(timeout)
    amount = Amount(reps, as_share(precision), as_seconds(budget), warmup, quick)
    context: dict[str, Any] = {
        "prepare": prepare,
        "cleanup": cleanup,
        "shell": shell,
        "input": None if input is None else str(input),
        "output": None if output is None else str(output),
        "environment": tuple(f"{name}={value}" for name, value in (env or {}).items()),
        "folder": None if cwd is None else str(cwd),
        "cold": tuple(map(str, cold)),
        "ignore_failure": ignore_failure,
    }
    if any(callable(each) for each in given):
        elsewhere = {"on": on if on != "local" else None, "cpus": cpus, "memory": memory, "trace": trace}
        _refuse({**context, **elsewhere, "git": git, "build": build})
        called = FunctionBench(
            functions=cast("tuple[Callable[..., Any], ...]", given),
            names=tuple(names),
            parameters=dict(parameters or {}),
            setup=_function(setup),
            args=tuple(args),
            kwargs=dict(kwargs or {}),
            collect=gc,
            cpu=pin,
            timeout_s=seconds,
        )
        return _measured(function_plan(called, amount, metric=metric, seed=seed), store)
    if args or kwargs or gc or callable(setup):
        raise UsageError(
            "args, kwargs, gc and a function as setup belong to functions",
            remedy="leave them out for a command",
        )
    if build is not None and not git:
        raise UsageError("build= needs git=", remedy="name two revisions")
    spec = BenchSpec(
        _commands(given, names),
        [Parameter.given(name, values) for name, values in (parameters or {}).items()],
        CommandContext(**context, setup=setup, cpu=pin, timeout_s=seconds),
        amount,
        metric,
        seed,
        Conditions(Where(on, None, cpus, as_bytes(memory)), parse_kinds(trace) if trace else None),
    )
    revisions = (git,) if isinstance(git, str) else tuple(git)
    planned = _revisions(revisions, build, spec) if revisions else _tried(spec)
    return _measured(planned, store)


def _given(commands: object) -> tuple[Any, ...]:
    """Return what is measured; TypeError with a sentence for what can be no command."""
    is_one = isinstance(commands, str | bytes | Mapping) or callable(commands)
    several = tuple(commands) if isinstance(commands, Iterable) and not is_one else (commands,)
    for each in several:
        words = each if isinstance(each, Sequence) and not isinstance(each, bytes) else None
        if not callable(each) and (words is None or not all(isinstance(word, str) for word in words)):
            raise TypeError(
                "a command is a text, a list of words or a function, "
                f"and not {each!r} ({type(each).__name__})"
            )
    if not several:
        raise UsageError("there is no command to measure", remedy='give one, such as "./program"')
    return several


def _refuse(of_programs: Mapping[str, object]) -> None:
    """Raise UsageError for an argument that is given and that only programs have."""
    foreign = next((name for name, value in of_programs.items() if value), None)
    if foreign is not None:
        name = {"environment": "env", "folder": "cwd"}.get(foreign, foreign)
        raise UsageError(
            f"{name}= belongs to programs, and a function is measured",
            remedy="do it in setup=, a function that each process calls first",
        )


def _function(setup: str | Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return the setup of functions; UsageError for one that is none."""
    if isinstance(setup, str):
        raise UsageError(f"setup={setup!r} is no function", remedy="give a function, such as a lambda")
    return setup


def _measured(planned: AbstractContextManager[Plan], store: str | Path | None) -> Bench:
    """Measure a plan, and return what was found."""
    # The trials and builds take a while, and run the commands.
    Store.check(store)
    recovery.restore_once(notify)
    with planned as plan, Store.open(store) as opened:
        outcome = execute(plan, opened)
        return Bench(outcome.run_id, opened.results(outcome.run_id), store)


def _commands(given: Sequence[Any], names: Sequence[str]) -> list[Command]:
    """Return the commands with their names; UsageError for a name too many."""
    if len(names) > len(given):
        raise UsageError("there are more names than commands", remedy="give one name a command")
    labels = [*names, *[None] * (len(given) - len(names))]
    return [Command.of(each, label) for each, label in zip(given, labels, strict=True)]


@contextmanager
def _tried(spec: BenchSpec) -> Iterator[Plan]:
    """Give the plan that measures the commands here, after a trial of each."""
    yield bench_plan(spec)[0]


class _Builds:
    """Reports what a person should know of the builds, and shows nothing meanwhile."""

    def building(self, doing: str, number: int, expected: int, left_s: float | None) -> nullcontext[None]:
        """Return a context that does nothing."""
        del doing, number, expected, left_s
        return nullcontext()

    def note(self, text: str) -> None:
        """Write a note as a line."""
        notify(text)


@contextmanager
def _revisions(revisions: Sequence[str], build: str | None, spec: BenchSpec) -> Iterator[Plan]:
    """Give the plan that measures the commands at the revisions, which are there meanwhile."""
    spec.conditions.check(spec.amount.precision, revisions=True)
    with without_foreign_repository():
        asked = RevisionRequest.of(revisions, build, bisect=False, folder=Path.cwd())
        for text in asked.notes(spec.commands):
            notify(text)
        with workshop_for(asked, spec.context, _Builds()) as workshop:
            try:
                plan = revision_plan(workshop, asked.sides, spec)
            except BuildError as error:
                for line in error.lines:
                    notify(f"its build: {line}")
                raise
            yield plan
