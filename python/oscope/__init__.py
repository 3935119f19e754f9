"""An oscilloscope for operating systems: the laboratory's Python interface.

    import oscope
    run = oscope.run("syscall.cost", call=["getppid", "read"], reps=50)
    run.summary()

Importing this is cheap; numpy, pandas and the like are loaded when something needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from oscope.model.errors import OscopeError, ProbeError, StoreError, UsageError
from oscope.model.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from oscope.api import Bench, Run
    from oscope.fleet_api import Fleet
    from oscope.model.clocks import Clock
    from oscope.model.experiment import Experiment
    from oscope.model.factors import Level, Profile
    from oscope.storage.store import RunEntry

__all__ = [
    "OscopeError",
    "ProbeError",
    "StoreError",
    "UsageError",
    "__version__",
    "bench",
    "experiments",
    "fleet",
    "load",
    "load_fleet",
    "run",
    "runs",
]


def run(
    name: str,
    *,
    profile: Profile = "full",
    reps: int | None = None,
    precision: float | str | None = None,
    budget: float | str | None = None,
    spread: float | str | None = None,
    seed: int | None = None,
    trace: Sequence[str] = (),
    on: str | None = None,
    clock: Clock | None = None,
    cpus: int | None = None,
    memory: int | str | None = None,
    again: bool = True,
    store: str | Path | None = None,
    **factors: Level | Sequence[Level],
) -> Run:
    """Measure the experiment or lab called `name` and return the run.

    `factors` give a parameter one level or several, as values or as typed (`buffer=["4K", "1M"]`).
    `precision` is a share (`0.02` or `"2%"`), `budget` seconds or a text such as `"30s"`, and so is `spread`,
    the time over which the blocks are spread with pauses. With `trace` (some
    of counts, syscalls, sched, faults) every point is measured under bpftrace as well. `on` is `local`,
    `guest` or `guest:KERNEL`; a guest has this `clock` (`wall` or `instructions`), so many `cpus` and so much
    `memory` (bytes, or a text such as `"1G"`). With `again`, points are repeated after interference.
    `store` is a path or URL, as for the command line. Raises UsageError for a request that cannot be,
    ProbeError and StoreError where those fail, TypeError for an argument of a wrong type.
    """
    from oscope.api import Request, measure  # noqa: PLC0415 - importing oscope is cheap

    request = Request(profile, reps, precision, budget, seed, trace, on, clock, cpus, memory, again, spread)
    return measure(name, request, store, factors)


def bench(
    commands: str | Callable[..., Any] | Sequence[str | Sequence[str] | Callable[..., Any]],
    *,
    names: Sequence[str] = (),
    parameters: Mapping[str, Sequence[object]] | None = None,
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

    Raises UsageError for a request that cannot be, OscopeError where a command or function fails.
    """
    given = (commands,) if isinstance(commands, str) or callable(commands) else tuple(commands)
    texts: dict[str, Any] = {
        "prepare": prepare,
        "cleanup": cleanup,
        "shell": shell,
        "input": input,
        "output": output,
        "env": env,
        "cwd": cwd,
        "cold": cold,
        "ignore_failure": ignore_failure,
        "trace": trace,
        "on": on if on != "local" else None,
        "cpus": cpus,
        "memory": memory,
        "git": git,
        "build": build,
    }
    if any(callable(each) for each in given):
        from oscope.bench_api import FunctionRequest, measure_functions  # noqa: PLC0415 - importing oscope is cheap

        of_functions = FunctionRequest(
            functions=given,
            names=tuple(names),
            parameters=dict(parameters or {}),
            setup=setup,
            args=tuple(args),
            kwargs=dict(kwargs or {}),
            collect=gc,
            pin=pin,
            timeout=timeout,
            reps=reps,
            precision=precision,
            budget=budget,
            warmup=warmup,
            quick=quick,
            of_programs=texts,
        )
        return measure_functions(of_functions, metric=metric, seed=seed, place=store)
    from oscope.bench_api import BenchRequest, measure_commands  # noqa: PLC0415 - importing oscope is cheap

    if args or kwargs or gc or callable(setup):
        raise UsageError(
            "args, kwargs, gc and a function as setup belong to functions",
            remedy="leave them out for a command",
        )
    request = BenchRequest(
        commands=cast("tuple[str | Sequence[str], ...]", given),
        names=tuple(names),
        parameters=dict(parameters or {}),
        surroundings={
            "setup": setup,
            "prepare": prepare,
            "cleanup": cleanup,
            "shell": shell,
            "environment": tuple(f"{name}={value}" for name, value in (env or {}).items()),
            "folder": None if cwd is None else str(cwd),
            "input": None if input is None else str(input),
            "output": None if output is None else str(output),
            "cold": tuple(map(str, cold)),
            "cpu": pin,
            "ignore_failure": ignore_failure,
        },
        timeout=timeout,
        reps=reps,
        precision=precision,
        budget=budget,
        warmup=warmup,
        quick=quick,
        on=on,
        cpus=cpus,
        memory=memory,
        trace=tuple(trace),
        git=(git,) if isinstance(git, str) else tuple(git),
        build=build,
    )
    return measure_commands(request, metric=metric, seed=seed, place=store)


def load(run_id: str = "last", *, store: str | Path | None = None) -> Run:
    """Return a stored run by its id, the start of it, or `last`. Raises UsageError where there is none."""
    from oscope.api import load_run  # noqa: PLC0415 - importing oscope is cheap

    return load_run(run_id, store)


def fleet(
    name: str,
    *,
    hosts: str | Sequence[str] | None = None,
    file: str | Path = "fleet.toml",
    rounds: int = 2,
    parallel: int | None = None,
    rack_aware: bool = False,
    retries: int = 2,
    profile: Profile = "full",
    reps: int | None = None,
    seed: int | None = None,
    scheduler: str | None = None,
    store: str | Path | None = None,
    **factors: Level | Sequence[Level],
) -> Fleet:
    """Measure the experiment or lab called `name` on many hosts over ssh, and return the fleet's measurement.

    `hosts` is a list of hosts as ssh names them; or a text as of `oscope fleet run --hosts`, which chooses of
    those in `file`; or None for all of these. They are measured in so many `rounds`, so many at a time
    (`parallel`: 4), with `rack_aware` one of each rack. A host that fails is tried again (`retries`).
    `scheduler` is the address of a Dask scheduler. `factors`, `reps`, `seed` and `store` are as of `run`.
    Hosts that were given up are in the `missing` of the result. Raises UsageError for a request that cannot
    be, OscopeError without Dask and where it was interrupted, StoreError where the store fails.
    """
    from oscope.fleet_api import FleetRequest, measure  # noqa: PLC0415 - importing oscope is cheap

    request = FleetRequest(hosts, file, rounds, parallel, rack_aware, retries, scheduler, profile, reps, seed)
    return measure(name, request, store, factors)


def load_fleet(fleet: str = "last", *, store: str | Path | None = None) -> Fleet:
    """Return a stored fleet's measurement by its id, the start of it, or `last`. Raises UsageError."""
    from oscope.fleet_api import load as load_stored  # noqa: PLC0415 - importing oscope is cheap

    return load_stored(fleet, store)


def runs(*, store: str | Path | None = None) -> tuple[RunEntry, ...]:
    """Return the runs in the store, the oldest first: id, start, status, experiments, number of samples.

    Raises StoreError where the store cannot be read.
    """
    from oscope.api import list_runs  # noqa: PLC0415 - importing oscope is cheap

    return list_runs(store)


def experiments() -> tuple[Experiment, ...]:
    """Return every experiment that `run` can measure: name, title, question, factors with their levels."""
    from oscope.api import list_experiments  # noqa: PLC0415 - importing oscope is cheap

    return list_experiments()


def load_ipython_extension(shell: Any) -> None:
    """Add the magics `%oscope` and `%%oscope`: what `%load_ext oscope` calls."""
    from oscope.magics import load as load_magics  # noqa: PLC0415 - only IPython's sessions have IPython

    load_magics(shell)
