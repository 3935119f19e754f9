"""The plan of a bench: each command a level of the factor `command`, all of them in every block."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oscope.model.errors import UsageError
from oscope.model.factors import Factors, Level
from oscope.model.revision import FACTOR as REVISION
from oscope.planning import plan as planning
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe import catalogue
from oscope.probe.catalogue import Catalogue, Workload, nearest
from oscope.programs.command import Command, CommandContext, Parameter, fill, locate, names_in, split
from oscope.programs.conditions import check_for_guest, for_guest, programs_of, starter
from oscope.programs.identity import command_digest
from oscope.programs.spec import EXPERIMENT, Amount, BenchSpec
from oscope.programs.trial import Stopwatch, Trial, try_out
from oscope.trace.factor import TRACER, UNTRACED

MOST_POINTS = 1000
TIME_S = 3.0
"""What the repetitions of a command take in all, unless said otherwise."""
QUICK_TIME_S = 1.0
BLOCKS, QUICK_BLOCKS = 20, 10
BOOTS = 8
"""Blocks in guests: each is a boot, which takes seconds."""
FEWEST_BOOTS = 2
BOOT_SHARE = 0.5
"""Share of a budget that the boots of guests may take."""
LEAST_REPS, QUICK_LEAST_REPS = 10, 5
MOST_REPS = 1000
OVERHEAD_S = 0.002
"""What a repetition takes beside the program: a process is made for it."""
TURN_S = 0.1
"""With a budget: what the repetitions of a command in a block take at least, where there is time for more
blocks than `BLOCKS`. The shorter it is, the more alike is the machine to all commands of a block."""
MOST_BLOCKS = 100
BLOCK_SHARE = 0.15
"""Share of a budget that more blocks than `BLOCKS` may take beside their repetitions."""
BLOCK_S, TURN_OVERHEAD_S = 0.02, 0.005
"""What a block takes beside its repetitions for its process, and a turn in it for the start of `true`."""


@dataclass(frozen=True)
class BenchPoint:
    """A command with values for its parameters."""

    factors: Factors
    params: Mapping[str, Any]
    """What the probe is asked with."""


def bench_plan(spec: BenchSpec, checkouts: Mapping[str, str] | None = None) -> tuple[Plan, tuple[Trial, ...]]:
    """Return the plan that measures the commands interleaved, after a trial of each, and what those found.

    `checkouts` are folders by the level of the factor `revision`: the commands are measured in each of them.

    Raises UsageError for what is missing or wrong, OscopeError where a command fails in its trial.
    """
    context, amount, conditions, metric = spec.context, spec.amount, spec.conditions, spec.metric
    amount.check()
    context.check()
    seed = planning.draw_seed() if spec.seed is None else planning.check_seed(spec.seed)
    described = catalogue.load()
    workload = described.workload(EXPERIMENT)
    conditions.check(amount.precision)
    guest = conditions.guest()
    metrics = order_metrics(workload, metric or ("net_ns" if context.shell else "time_ns"), "a command")
    points = _points_of(spec.commands, spec.parameters, context, checkouts)
    programs: tuple[str, ...] = ()
    begun_ns, asked = time.time_ns(), [point.params for point in points]
    if guest is not None:
        check_for_guest(context)
        programs = programs_of(point.params for point in points)
        points = [BenchPoint(point.factors, for_guest(point.params)) for point in points]
    start = Stopwatch(starter(guest, programs))
    trials = try_out(
        EXPERIMENT,
        [point.params for point in points],
        [name_point(point.factors) for point in points],
        find=amount.warmup is None,
        start=start,
    )
    digests = [
        command_digest(params, begun_ns, _folder_of(point.factors, params, in_guest=guest is not None))
        for point, params in zip(points, asked, strict=True)
    ]
    if conditions.tracer is not None:
        points = _traced(points, conditions.tracer)
        trials = (*trials, *trials)
        digests *= 2
    warmups = [trial.warmup if amount.warmup is None else amount.warmup for trial in trials]
    reps, blocks = size_run(amount, trials, boot_s=None if guest is None else start.seconds)
    experiment = PlannedExperiment(
        name=EXPERIMENT,
        title="Commands",
        question="How long does each command take, and what does it use?",
        metrics=metrics,
        points=tuple(point.factors for point in points),
        min_time_ns=1,
        workload=replace(with_factors(workload, [point.factors for point in points]), programs=programs),
        guest=guest,
        params=tuple(
            {**point.params, "warmup": warmup} for point, warmup in zip(points, warmups, strict=True)
        ),
        digests=tuple(digests),
        reps=reps,
        blocks=blocks,
    )
    return make_plan(experiment, described, amount, seed), trials


def _folder_of(factors: Factors, params: Mapping[str, Any], *, in_guest: bool) -> str:
    """Return what stands for the working folder in a digest: its path from where the bench was begun.

    So benches in several checkouts of one project are alike. A commit's worktree has another path in each
    run: what counts is the path within it. In a guest no folder of this machine is used.
    """
    if in_guest:
        return ""
    level = factors.get(REVISION)
    if level is not None:
        return f"{params['folder']}/".partition(f"/{level}/")[2]
    return os.path.relpath(params.get("folder") or ".")


def make_plan(experiment: PlannedExperiment, described: Catalogue, amount: Amount, seed: int) -> Plan:
    """Return the plan of a run that measures `experiment` alone."""
    budget_s = amount.budget_s
    if amount.precision is not None and budget_s is None:
        budget_s = planning.DEFAULT_BUDGET_S
    return Plan(
        seed=seed,
        profile="quick" if amount.quick else "full",
        place="local" if experiment.guest is None else "guest",
        precision=amount.precision,
        budget_s=budget_s,
        experiments=(experiment,),
        covariates=described.covariates,
        again=True,
    )


def size_run(
    amount: Amount, trials: Sequence[Trial], *, most: int = MOST_BLOCKS, boot_s: float | None = None
) -> tuple[int, int | None]:
    """Return repetitions and blocks: as asked for, else as many as take a few seconds a command.

    `most` limits the blocks that a budget is parted into. `boot_s` is what the boot of a guest takes, which
    each block needs; None: there is none.
    """
    blocks = min(QUICK_BLOCKS if amount.quick else BLOCKS, BLOCKS if boot_s is None else BOOTS)
    longest_s = max(trial.duration_s for trial in trials) + OVERHEAD_S
    if amount.precision is not None:
        return max(1, min(10, math.floor(0.1 / longest_s))), None
    if amount.reps is not None:
        return amount.reps, min(amount.reps, blocks)
    least = QUICK_LEAST_REPS if amount.quick else LEAST_REPS
    if amount.budget_s is not None:
        warmups = [trial.warmup if amount.warmup is None else amount.warmup for trial in trials]
        return _fill_budget(amount.budget_s, trials, warmups, least, most, boot_s)
    time_s = QUICK_TIME_S if amount.quick else TIME_S
    reps = min(max(math.ceil(time_s / longest_s), least), MOST_REPS)
    blocks = min(reps, blocks)
    return math.ceil(reps / blocks) * blocks, blocks


def _fill_budget(
    budget_s: float,
    trials: Sequence[Trial],
    warmups: Sequence[int],
    least: int,
    most: int,
    boot_s: float | None,
) -> tuple[int, int]:
    """Return repetitions and blocks that take the budget: many short blocks rather than few long ones."""
    block_s = (BLOCK_S if boot_s is None else boot_s) + sum(
        TURN_OVERHEAD_S + warmup * trial.each_s for trial, warmup in zip(trials, warmups, strict=True)
    )
    if boot_s is None:
        affordable = int(BLOCK_SHARE * budget_s / block_s)
        blocks = min(max(BLOCKS, min(affordable, int(budget_s / (TURN_S * len(trials))))), most)
    else:
        most = blocks = min(max(FEWEST_BOOTS, int(BOOT_SHARE * budget_s / block_s)), BOOTS)
    run_s = sum(trial.each_s for trial in trials)
    reps = min(int((budget_s - blocks * block_s) / run_s), planning.MOST_REPS)
    if reps < blocks:
        reps = max(reps, least)
        blocks = min(reps, blocks)
        return reps // blocks * blocks, blocks
    in_a_block = reps // blocks
    # What the division leaves over is enough for further blocks where a block is short.
    blocks = min(int(budget_s / (block_s + in_a_block * run_s)), most)
    return in_a_block * blocks, blocks


def order_metrics(workload: Workload, first: str, what: str) -> tuple[str, ...]:
    """Return the metrics of `workload`, `first` in front; UsageError where `what` is not judged by it."""
    known = [metric.name for metric in workload.metrics]
    comparable = [metric.name for metric in workload.metrics if metric.better is not None]
    if first not in comparable:
        raise UsageError(f"--metric {first}: no metric of {what}", remedy=nearest(first, comparable))
    return (first, *(name for name in known if name != first))


def _points(
    commands: Sequence[Command], parameters: Sequence[Parameter], context: CommandContext
) -> list[BenchPoint]:
    """Return every command with every combination of the values of the parameters that it holds."""
    _check_names(commands, parameters, context)
    points: dict[tuple[tuple[str, Level], ...], BenchPoint] = {}
    for command in commands:
        texts = [*command.words, *context.used_in()]
        own = [parameter for parameter in parameters if parameter.name in names_in(texts)]
        for values in itertools.product(*(parameter.values for parameter in own)):
            levels = {each.name: each.level(value) for each, value in zip(own, values, strict=True)}
            factors: dict[str, Level] = {"command": command.label, **levels}
            if tuple(factors.items()) in points:
                raise UsageError(
                    f"{name_point(factors)} is given twice",
                    remedy="give the commands different names with --name",
                )
            texts_of = dict(zip((each.name for each in own), values, strict=True))
            points[tuple(factors.items())] = BenchPoint(factors, _params(command, texts_of, context))
            if len(points) > MOST_POINTS:
                raise UsageError(f"more than {MOST_POINTS} combinations", remedy="give fewer values")
    return list(points.values())


def _points_of(
    commands: Sequence[Command],
    parameters: Sequence[Parameter],
    context: CommandContext,
    checkouts: Mapping[str, str] | None,
) -> list[BenchPoint]:
    """Return the points in every checkout, those of one command together; without checkouts the points."""
    if checkouts is None:
        return _points(commands, parameters, context)
    found = []
    for level, folder in checkouts.items():
        inside = replace(context, folder=folder, programs=folder)
        for point in _points(commands, parameters, inside):
            found.append(BenchPoint({**point.factors, REVISION: level}, point.params))
    count = len(found) // len(checkouts)
    return [found[number] for first in range(count) for number in range(first, len(found), count)]


def _check_names(
    commands: Sequence[Command], parameters: Sequence[Parameter], context: CommandContext
) -> None:
    if not commands:
        raise UsageError("there is no command to measure", remedy="write oscope bench -- PROGRAM ARGUMENT…")
    used = names_in([*(word for command in commands for word in command.words), *context.used_in()])
    names = [parameter.name for parameter in parameters]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--parameter {name} is given twice", remedy="give all its values at once")
        if name not in used:
            raise UsageError(
                f"--parameter {name}: no command has {{{name}}}", remedy="write it where the value belongs"
            )


def _params(command: Command, values: Mapping[str, str], context: CommandContext) -> dict[str, Any]:
    """Return what the probe is asked with: programs by absolute paths, and nothing left to be expanded."""
    path = context.path
    words = [fill(word, values) for word in command.words]
    params: dict[str, Any] = {"reference": _reference(path)}
    if context.shell is None:
        if command.operator is not None:
            raise UsageError(
                f"{command.label}: {command.operator} needs a shell",
                remedy="give --shell; or quote it once more, for the program to get it",
            )
        params |= {"program": locate(words[0], path, context.programs), "arguments": words}
    else:
        shell = list(split(context.shell))
        program = locate(shell[0], path)
        params |= {
            "program": program,
            "arguments": [*shell, "-c", fill(command.line, values)],
            "shell": [program, *shell[1:], "-c", ":"],
        }
    for name in ("setup", "prepare", "cleanup"):
        text = getattr(context, name)
        if text is not None:
            params[name] = _aside(name, fill(text, values), context)
    files = {"folder": context.folder, "input": context.input, "output": context.output}
    params |= {name: str(Path(file).absolute()) for name, file in files.items() if file is not None}
    # The working folder of a resumed run is this one too.
    params.setdefault("folder", str(Path.cwd()))
    if context.environment:
        params["environment"] = list(context.environment)
    if context.cold:
        params["cold"] = [str(Path(file).absolute()) for file in context.cold]
    if context.cpu is not None:
        params["cpu"] = f"cpu:{context.cpu}"
    return params | {"timeout": context.timeout_s, "ignore_failure": context.ignore_failure}


def _reference(path: str) -> list[str]:
    """Return the trivial program whose start is measured; none where the machine has none."""
    try:
        return [locate("true", path)]
    except UsageError:
        return []


def _aside(name: str, text: str, context: CommandContext) -> list[str]:
    """Return what runs outside the clock, by the shell where there is one."""
    try:
        if context.shell is not None:
            shell = split(context.shell)
            return [locate(shell[0], context.path), *shell[1:], "-c", text]
        words = split(text) or ("",)
        return [locate(words[0], context.path, context.programs), *words[1:]]
    except UsageError as error:
        raise UsageError(f"--{name}: {error.message}", remedy=error.remedy) from None


def with_factors(workload: Workload, points: Sequence[Factors]) -> Workload:
    """Return `workload` with the factors of this bench in the place of its own parameters."""
    levels: dict[str, dict[Level, None]] = {}
    for point in points:
        for name, level in point.items():
            levels.setdefault(name, {})[level] = None
    factors = tuple(_factor(name, tuple(found)) for name, found in levels.items())
    return Workload(**{**vars(workload), "parameters": factors})


def _traced(points: Sequence[BenchPoint], tracer: str) -> list[BenchPoint]:
    """Return the points without a tracer, then all of them with it."""
    return [
        BenchPoint({**point.factors, TRACER.name: level}, point.params)
        for level in (UNTRACED, tracer)
        for point in points
    ]


def _factor(name: str, levels: tuple[Level, ...]) -> catalogue.Parameter:
    if name == TRACER.name:
        return TRACER
    if all(isinstance(level, int) for level in levels):
        return catalogue.Parameter(name, "integer", levels[0])
    return catalogue.Parameter(name, "choice", levels[0], choices=tuple(map(str, levels)))


def name_point(factors: Factors) -> str:
    """Return the command or function with its parameters: the first factor is what is measured.

    A parameter that the command holds stands in its place there.
    """
    (_, first), *others = factors.items()
    command = str(first)
    held = {name: str(level) for name, level in others if name in names_in([command])}
    shown = ((n, level) for n, level in others if n not in held and (n, level) != (TRACER.name, UNTRACED))
    rest = ", ".join(f"{name}={level}" for name, level in shown)
    return f"{fill(command, held)} ({rest})" if rest else fill(command, held)
