"""The Python kit: makes a function of yours a workload that `oscope run --workload FILE` measures.

    #!/usr/bin/env python3
    import oscope.workload as kit

    @kit.workload("sort.list")
    def sort_list(size: int = 1000):
        "Sort a list of numbers in descending order."
        numbers = list(range(size, 0, -1))
        return lambda: sorted(numbers)

    kit.main()

The function prepares, outside the measured region, and returns what one iteration is. Its parameters are the
workload's, each with a default. This file needs nothing but Python: it may be copied beside your program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import math
import os
import resource
import signal
import statistics
import sys
import time
import traceback
import typing
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

SCHEMA = "oscope.probe/1"
TIMING_MODEL = (
    "time = (raw - correction) / iterations; raw is CLOCK_MONOTONIC_RAW in ns around all iterations of a "
    "repetition, with the interpreter's loop and the call of the iteration; correction is one reading of the "
    "clock. The garbage collector is off meanwhile."
)
_NOTE = "The cost of reading the clock is subtracted."
_TIME_NS = {"name": "time_ns", "unit": "ns", "better": "less", "quantity": "time", "per": "iteration"}
_TIME_NS |= {"note": _NOTE, "doc": f"Time per iteration. {_NOTE}"}
_CLOCK_READINGS, _MOST_ITERATIONS, _SHOWN_FAILURE, _OWN_FILES = 2001, 1 << 40, 200, dict[str, str]()


class Size(int):
    """The type of a parameter that is a number of bytes: the command line takes `4K` or `1MiB` for it."""


class Seconds(float):
    """The type of a parameter that is a duration: the command line takes `10ms` or `2s` for it."""


class Failed(Exception):  # noqa: N818 - it is what a repetition is, and it reads well where it is raised.
    """Raised by an iteration whose result is wrong: the sample counts as failed, with this reason."""


@dataclasses.dataclass(frozen=True)
class Metric:
    """A figure that each repetition gives beside its time."""

    unit: str
    better: str | None = None
    """less or more; None: shown, and not compared."""
    doc: str = ""


Body = Callable[..., Any]
_TYPES = ((bool, "boolean"), (Size, "bytes"), (Seconds, "duration"), (int, "integer"), (Path, "path"))


@dataclasses.dataclass(frozen=True)
class _Workload:
    name: str
    version: int
    prepare: Callable[..., Any]
    parameters: tuple[dict[str, Any], ...]
    metrics: Mapping[str, Metric]
    loops: bool
    alone: bool


_REGISTERED: dict[str, _Workload] = {}


def workload(
    name: str,
    *,
    version: int = 1,
    metrics: Mapping[str, Metric] | None = None,
    loops: bool = False,
    alone: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function the workload `name`.

    The function is called with a point's levels and prepares; it returns the iteration, a function without
    arguments, or yields it and cleans up afterwards. Annotations declare its parameters, each with a default:
    `int`, `bool`, `Size`, `Seconds`, `Path`, or `Literal[...]` of texts; its docstring is the purpose.

    Args:
        name: Letters, digits, dots; scripts and stored runs know the workload by it.
        version: Raise it when the meaning of a figure changes: other versions are not compared.
        metrics: Figures besides `time_ns`, which the last iteration of a repetition returns as a mapping;
            what is not finite is missing, and what is no number or not declared makes the sample fail.
        loops: The iteration is called once a repetition, with the number of iterations, and loops itself.
        alone: Nothing of the workload itself takes the measuring thread's CPU, so that a wait for it is
            interference: such a repetition is then repeated. False for one with more threads.

    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in _REGISTERED:
            raise ValueError(f"there are two workloads {name!r}")
        parameters, figures = tuple(_parameters(function)), dict(metrics or {})
        _REGISTERED[name] = _Workload(name, version, function, parameters, figures, loops, alone)
        return function

    return register


def _parameters(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Yield the description of each parameter of `function`; TypeError for one that cannot be declared."""
    hints = typing.get_type_hints(function)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    last = zip(reversed(names[: code.co_argcount]), reversed(function.__defaults__ or ()), strict=False)
    defaults = dict(last) | (function.__kwdefaults__ or {})
    for name in names:
        if name not in defaults:
            raise TypeError(f"{function.__name__}: the parameter {name} needs a default")
        default = defaults[name]
        kind = hints.get(name, type(default))
        plain = str(default) if isinstance(default, Path) else default
        yield {"name": name, "default": plain, "doc": "", **_type(function.__name__, name, kind)}


def _type(function: str, name: str, kind: Any) -> dict[str, Any]:
    if typing.get_origin(kind) is typing.Literal:
        return {"type": "choice", "choices": list(typing.get_args(kind))}
    for known, word in _TYPES:
        if isinstance(kind, type) and issubclass(kind, known):
            return {"type": word}
    raise TypeError(f"{function}: the parameter {name} is none of int, bool, Size, Seconds, Path, Literal")


def main(arguments: typing.Sequence[str] | None = None) -> None:
    """Answer `describe` or `run`, as the program's command line says, and end the process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["describe"]:
        print(json.dumps(_describe()))
    elif words == ["run"]:
        _Server().serve()
    else:
        print("This is a workload program: measure with oscope run --workload", sys.argv[0], file=sys.stderr)
    sys.exit(0 if words in (["describe"], ["run"], ["-h"], ["--help"]) else 2)


def _describe() -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "probe": {"version": f"python-kit {sys.version.split()[0]}", "commit": None},
        "workloads": [
            {
                "name": each.name,
                "version": each.version,
                "purpose": (each.prepare.__doc__ or "").strip().partition("\n\n")[0],
                "timing_model": TIMING_MODEL,
                "parameters": list(each.parameters),
                "metrics": [
                    _TIME_NS,
                    *({"name": name, **dataclasses.asdict(metric)} for name, metric in each.metrics.items()),
                ],
                "alone": {} if each.alone else None,
            }
            for each in _REGISTERED.values()
        ],
        # The probe's own, with its names and meanings.
        "covariates": [],
    }


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def _clock() -> dict[str, Any]:
    """Measure what a reading of the clock costs, in ns."""
    steps = []
    last = _now()
    for _ in range(_CLOCK_READINGS):
        now = _now()
        steps.append(now - last)
        last = now
    overhead = statistics.median(steps)
    deviation = statistics.median(abs(step - overhead) for step in steps)
    kind = {"kind": "monotonic_raw", "hz": 1e9, "why": "a workload program of the Python kit reads it"}
    return kind | {"overhead": overhead, "overhead_mad": deviation}


def _covariates() -> dict[str, int]:
    """Return the counters of this thread that the probe has as well, under the same names."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    found = {
        "voluntary_switches": usage.ru_nvcsw,
        "involuntary_switches": usage.ru_nivcsw,
        "minor_faults": usage.ru_minflt,
        "major_faults": usage.ru_majflt,
        "user_us": round(1e6 * usage.ru_utime),
        "system_us": round(1e6 * usage.ru_stime),
    }
    with contextlib.suppress(OSError, ValueError, IndexError):
        found["run_delay_ns"] = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    return found


class _RefusedError(Exception):
    """A request that cannot be carried out: its kind, the field at fault or None, and a message."""


class _Server:
    """Answers the requests of one process."""

    def __init__(self) -> None:
        # What a workload prints must not get among the answers.
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._ended = self._idle = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        self._clock = _clock()

    def _end(self, *_: object) -> None:
        self._ended = True
        # Reading goes on after a signal; it waits for a request, and so has nothing to undo.
        if self._idle:
            os._exit(0)

    def _say(self, **event: Any) -> None:
        self._out.write(json.dumps(event) + "\n")
        self._out.flush()

    def serve(self) -> None:
        """Answer requests until standard input ends, or a signal comes."""
        hello = {"schema": SCHEMA, "probe": _describe()["probe"], "pid": os.getpid()}
        self._say(event="hello", **hello, environment={"clock": self._clock})
        while line := self._next():
            request = json.loads(line)
            try:
                self._answer(request["id"], request)
            except _RefusedError as refused:
                self._refuse(request["id"], refused)

    def _refuse(self, number: int, refused: _RefusedError) -> None:
        kind, field, message = refused.args
        self._say(event="error", request=number, kind=kind, field=field, message=message, remedy=None)

    def _next(self) -> str:
        self._idle = True
        line = "" if self._ended else sys.stdin.readline()
        self._idle = False
        return line

    def _answer(self, number: int, request: Mapping[str, Any]) -> None:
        found = _REGISTERED.get(request["workload"])
        if found is None:
            raise _RefusedError("request", "workload", f"there is no workload {request['workload']}")
        if request.get("inject"):
            raise _RefusedError("request", "inject", "the Python kit injects no delay")
        with _pinned(request.get("cpu")), _prepared(found, request.get("params") or {}) as body:
            iterations, taken = self._repeat(number, request, found, body)
        self._say(event="done", request=number, samples=taken, iterations=iterations, interrupted=self._ended)

    def _repeat(
        self, number: int, request: Mapping[str, Any], found: _Workload, body: Body
    ) -> tuple[int, int]:
        """Calibrate, warm up, and take the samples; return the iterations of each, and how many there are."""
        iterations = request.get("iterations") or _calibrate(found, body, request.get("min_time_ns") or 10**6)
        begun, limit_s = time.monotonic(), request.get("time_limit_s")
        for _ in range(1 if request.get("warmup") is None else request["warmup"]):
            with contextlib.suppress(Exception):
                _measure(found, body, iterations)
        reps = request.get("reps") or 1
        for rep in range(reps):
            if self._ended or (limit_s is not None and time.monotonic() - begun > limit_s):
                return iterations, rep
            self._take(number, rep, found, body, iterations)
        return iterations, reps

    def _take(self, number: int, rep: int, found: _Workload, body: Body, iterations: int) -> None:
        started_ns, before = time.time_ns(), _covariates()
        raw, failed, overhead = None, None, self._clock["overhead"]
        metrics: dict[str, float | None] = {}
        try:
            try:
                raw, result = _measure(found, body, iterations)
            finally:
                after = _covariates()
            metrics = _figures(found, result) | {"time_ns": (raw - overhead) / iterations}
        except Exception as error:  # noqa: BLE001 - whatever a workload raises, the repetition has failed.
            failed = _reason(error) or "failed"
        spent = {name: value - before.get(name, value) for name, value in after.items()}
        timed = {"raw": raw, "iterations": iterations, "correction": overhead, "started_ns": started_ns}
        sample = {"rep": rep, "failed": failed, "metrics": metrics, "covariates": spent}
        self._say(event="sample", request=number, **timed, **sample)


def _reason(error: Exception) -> str:
    """Return what was raised, and the last line of the program itself that led to it."""
    kind = "" if isinstance(error, Failed) else f"{type(error).__name__}: "
    files = {(main := str(getattr(sys.modules["__main__"], "__file__", None))): main} | _OWN_FILES
    own = [f for f in traceback.extract_tb(error.__traceback__) if kind and f.filename in files]
    where = "".join(f" ({Path(files[f.filename]).name}, line {f.lineno}, in {f.name})" for f in own[-1:])
    return f"{kind}{error}"[:_SHOWN_FAILURE] + where


def _figures(found: _Workload, result: Any) -> dict[str, float | None]:
    """Return what the last iteration gives of each declared metric; None: missing, or not finite."""
    if not found.metrics or result is None:
        return dict.fromkeys(found.metrics)
    if not isinstance(result, Mapping) or not result.keys() <= found.metrics.keys():
        raise Failed(f"returned {result!r}, and the metrics are {', '.join(found.metrics)}")
    for name, value in result.items():
        if value is not None and (isinstance(value, str) or not hasattr(value, "__float__")):
            raise Failed(f"the metric {name} is {value!r}, no number")
    numbers = {name: float(value) for name, value in result.items() if value is not None}
    return {name: n if math.isfinite(n := numbers.get(name, math.nan)) else None for name in found.metrics}


@contextlib.contextmanager
def _pinned(cpu: int | None) -> Iterator[None]:
    """Pin this thread to a CPU; None: to the highest allowed, as the probe does; -1: to none."""
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, allowed if cpu == -1 else {max(allowed) if cpu is None else cpu})
    except OSError as error:
        raise _RefusedError("request", "cpu", f"CPU {cpu} is not allowed ({error})") from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def _prepared(found: _Workload, params: Mapping[str, Any]) -> Iterator[Body]:
    """Have the workload prepare for these levels; give its iteration, and clean up afterwards."""
    known = {parameter["name"]: parameter for parameter in found.parameters}
    for name in params.keys() - known.keys():
        raise _RefusedError("request", name, f"{found.name} has no parameter {name}")
    levels = {name: Path(v) if known[name]["type"] == "path" else v for name, v in params.items()}
    try:
        made = found.prepare(**levels)
        body = next(made) if isinstance(made, Generator) else made
    except Exception as error:
        raise _RefusedError("failed", None, f"preparing failed: {_reason(error)}") from error
    if not callable(body):
        raise _RefusedError("failed", None, f"{found.name} has to return a function: what one iteration is")
    try:
        yield body
    finally:
        if isinstance(made, Generator):
            next(made, None)


def _measure(found: _Workload, body: Body, iterations: int) -> tuple[int, Any]:
    """Take one repetition; return its time in ns, and what the last iteration returned."""
    collecting = gc.isenabled()
    gc.disable()
    # Only the last result is kept: one more that lives meanwhile would change where the next is allocated.
    loops, turns = found.loops, range(iterations - 1)
    try:
        begun = _now()
        if loops:
            result = body(iterations)
        else:
            for _ in turns:
                body()
            result = body()
        return _now() - begun, result
    finally:
        if collecting:
            gc.enable()


def _calibrate(found: _Workload, body: Body, least_ns: int) -> int:
    """Return how many iterations take `least_ns` in each of two trials, or much longer in one; at least 1."""
    iterations = raw = 0
    while raw < least_ns and iterations < _MOST_ITERATIONS:
        # Never more than tenfold: the first iterations may be slower than all others.
        iterations = max(iterations + 1, min(10 * iterations, 1 + iterations * least_ns // max(raw, 1)))
        try:
            raw, _ = _measure(found, body, iterations)
            if least_ns <= raw < 100 * least_ns:  # Something may have interrupted it.
                raw = min(raw, _measure(found, body, iterations)[0])
        except Exception:  # noqa: BLE001 - the samples tell of it.
            break
    return iterations
