"""Functions of Python as an experiment: what `oscope.bench(function)` measures.

A function is pickled by cloudpickle, so that lambdas, closures and those of a notebook can be measured in
fresh interpreters, too: by value where it is of `__main__` or of no module, else by the name of its module.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oscope.function_worker import NAME, Call
from oscope.model.errors import UsageError
from oscope.model.factors import Factors, Level
from oscope.model.program import Program
from oscope.planning import plan as planning
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe import catalogue
from oscope.probe.own_program import describe
from oscope.programs.command import RESERVED, check_cpu
from oscope.programs.experiment import (
    BLOCKS,
    MOST_POINTS,
    make_plan,
    name_point,
    order_metrics,
    size_run,
    with_factors,
)
from oscope.programs.identity import function_digest
from oscope.programs.spec import Amount
from oscope.programs.trial import try_out
from oscope.targets.own import OwnProgram

FUNCTION = "function"
"""The factor that names the function."""
MIN_TIME_NS = 2_000_000
"""A repetition calls the function as often as takes this long."""
_START = "import sys; sys.path.insert(0, {root!r}); from oscope.function_worker import main; main()"


@dataclass(frozen=True)
class FunctionBench:
    """What is called, and how."""

    functions: tuple[Callable[..., Any], ...]
    names: tuple[str, ...] = ()
    parameters: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    """Each combination is passed by keyword to `setup` or the function, whichever takes it."""
    setup: Callable[..., Any] | None = None
    """Called once in each process; what it returns, unless None, is the function's first argument."""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    collect: bool = False
    """Whether the garbage collector is on while a function is measured."""
    cpu: int | None = None
    timeout_s: float = 600.0

    def check(self) -> None:
        """Raise UsageError for what cannot be called, or measured."""
        if not self.functions:
            raise UsageError("there is no function to measure", remedy="write oscope.bench(function)")
        for function in self.functions:
            if not callable(function):
                raise UsageError(
                    f"{function!r} is no function",
                    remedy="give functions only, or commands only (texts, lists)",
                )
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
                name = _plain_name(function)
                raise UsageError(
                    f"{name} is asynchronous: calling it runs nothing",
                    remedy=f"measure lambda: asyncio.run({name}())",
                )
        if len(self.names) > len(self.functions):
            raise UsageError("there are more names than functions", remedy="give one name a function")
        check_cpu(self.cpu, "pin=")
        if not 0 < self.timeout_s <= 604_800:
            raise UsageError("timeout is out of range", remedy="give a duration like 10s, of 7 days at most")

    @property
    def labels(self) -> tuple[str, ...]:
        """The names given, then those that the functions have; several of one name are numbered."""
        own = [_plain_name(function) for function in self.functions[len(self.names) :]]
        count = Counter(own)
        seen: Counter[str] = Counter()
        labels = list(self.names)
        for name in own:
            seen[name] += 1
            labels.append(f"{name} {seen[name]}" if count[name] > 1 else name)
        if len(set(labels)) < len(labels):
            raise UsageError(
                "two functions have one name", remedy="give them different names with names=[...]"
            )
        return tuple(labels)


@contextlib.contextmanager
def function_plan(
    bench: FunctionBench, amount: Amount, *, metric: str | None = None, seed: int | None = None
) -> Iterator[Plan]:
    """Give the plan that measures functions interleaved, after a trial of each.

    The functions are kept in a file meanwhile. Raises UsageError for what cannot be measured, OscopeError
    where a function fails in its trial.
    """
    bench.check()
    amount.check()
    seed = planning.draw_seed() if seed is None else planning.check_seed(seed)
    points, calls = _points(bench)
    with _written(calls) as file:
        program = _program(file, bench.timeout_s)
        workload = describe(program).workload(NAME)
        metrics = order_metrics(workload, metric or "time_ns", "a function")
        cpu = {} if bench.cpu is None else {"cpu": bench.cpu}
        params = [{"call": number, **cpu} for number in range(len(points))]
        trials = try_out(
            NAME,
            params,
            [name_point(point) for point in points],
            find=amount.warmup is None,
            start=lambda affinity: OwnProgram(program, affinity, {}).start(),
            min_time_ns=MIN_TIME_NS,
            silence_s=bench.timeout_s,
        )
        warmups = [trial.warmup if amount.warmup is None else amount.warmup for trial in trials]
        reps, blocks = size_run(amount, trials, most=BLOCKS)
        experiment = PlannedExperiment(
            name=NAME,
            title="Functions",
            question="How long does a call of each function take?",
            metrics=metrics,
            points=tuple(points),
            min_time_ns=MIN_TIME_NS,
            workload=with_factors(workload, points),
            params=tuple({**each, "warmup": warmup} for each, warmup in zip(params, warmups, strict=True)),
            digests=_digests(bench, points),
            reps=reps,
            blocks=blocks,
            program=program,
        )
        yield make_plan(experiment, catalogue.load(), amount, seed)


def _plain_name(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        return f"partial({_plain_name(function.func)})"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return str(name).rpartition("<locals>.")[2] if name else type(function).__qualname__


def _points(bench: FunctionBench) -> tuple[list[Factors], list[bytes]]:
    """Return every function with every combination of the parameters that it takes, and the pickled call."""
    for name, levels in bench.parameters.items():
        if not levels or not all(isinstance(level, str | int | float) for level in levels):
            raise UsageError(
                f"the parameter {name!r} needs values that are texts or numbers",
                remedy="make other objects of them in setup=",
            )
        if name in (FUNCTION, *RESERVED, *bench.kwargs):
            raise UsageError(f"the parameter {name!r}: the name is taken", remedy="choose another name")
    points: list[Factors] = []
    calls: list[bytes] = []
    for function, label in zip(bench.functions, bench.labels, strict=True):
        own = {
            name: tuple(dict.fromkeys(levels))
            for name, levels in bench.parameters.items()
            if _takes(bench.setup, name) or _takes(function, name)
        }
        for combination in itertools.product(*own.values()):
            values = dict(zip(own, combination, strict=True))
            points.append({FUNCTION: label, **values})
            calls.append(_pickled(bench, function, values, label))
    unused = [name for name in bench.parameters if not any(name in point for point in points)]
    if unused:
        raise UsageError(
            f"the parameter {unused[0]!r} is taken by no function", remedy="have a function or setup take it"
        )
    if len(points) > MOST_POINTS:
        raise UsageError(f"more than {MOST_POINTS} combinations", remedy="give fewer values")
    return points, calls


def _digests(bench: FunctionBench, points: Sequence[Factors]) -> tuple[str, ...]:
    """Return a digest of the function of each point: the same where code, arguments and CPU are."""
    known = {
        label: function_digest((function, bench.setup), _arguments(bench, function))
        for function, label in zip(bench.functions, bench.labels, strict=True)
    }
    return tuple(known[str(point[FUNCTION])] for point in points)


def _arguments(bench: FunctionBench, function: Callable[..., Any]) -> bytes:
    """Return what a function is called with, and its CPU, pickled: that of `functools.partial` included."""
    import cloudpickle  # noqa: PLC0415 - only functions need it

    given: list[object] = [bench.args, dict(bench.kwargs), bench.collect, bench.cpu]
    while isinstance(function, functools.partial):
        given += [function.args, function.keywords]
        function = function.func
    found: bytes = cloudpickle.dumps(given)
    return found


def _takes(function: Callable[..., Any] | None, name: str) -> bool:
    """Say whether `function` takes the argument `name` by keyword; one that cannot be asked does."""
    if function is None:
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    return any(
        each.kind is inspect.Parameter.VAR_KEYWORD or (each.name == name and each.kind not in positional)
        for each in parameters
    )


def _pickled(
    bench: FunctionBench, function: Callable[..., Any], values: Mapping[str, Level], label: str
) -> bytes:
    """Return the call, pickled; UsageError that says what cannot be."""
    import cloudpickle  # noqa: PLC0415 - only functions need it

    for_setup = {name: value for name, value in values.items() if _takes(bench.setup, name)}
    call = Call(
        function,
        bench.setup,
        bench.args,
        {**bench.kwargs, **{name: value for name, value in values.items() if name not in for_setup}},
        for_setup,
        bench.collect,
        frozenset(filter(None, map(_file_of, (function, bench.setup)))),
    )
    try:
        found: bytes = cloudpickle.dumps(call)
    except Exception as error:  # noqa: BLE001 - whatever an object's own pickling raises
        raise UsageError(
            f"{label} cannot be sent to a fresh process ({error})",
            remedy="open or make in setup= what it uses: files, locks, connections",
        ) from None
    return found


def _file_of(function: Callable[..., Any] | None) -> str | None:
    """Return the file of a function's own code; None where that is not written in Python."""
    while isinstance(function, functools.partial):
        function = function.func
    if function is None:
        return None
    # An object that can be called has its code in its class.
    own = function if hasattr(function, "__code__") else type(function).__call__
    code = getattr(inspect.unwrap(own), "__code__", None)
    return None if code is None else str(code.co_filename)


@contextlib.contextmanager
def _written(calls: Sequence[bytes]) -> Iterator[Path]:
    """Give a file of this user's alone that holds the calls, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="oscope-functions-") as folder:
        file = Path(folder, "calls")
        file.write_bytes(pickle.dumps({"path": list(sys.path), "calls": list(calls)}))
        yield file


def _program(file: Path, timeout_s: float) -> Program:
    """Return the worker as a program: this interpreter, with the options that change what code does."""
    if not sys.executable:
        raise UsageError("the Python interpreter is not known", remedy="start Python as a program")
    root = str(Path(__file__).parents[2])
    optimise = ["-O"] * min(sys.flags.optimize, 2)
    return Program(
        f"python {sys.version.split()[0]}",
        (sys.executable, "-P", *optimise, "-c", _START.format(root=root), str(file)),
        str(Path.cwd()),
        timeout_s,
    )
