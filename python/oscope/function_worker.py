"""The process that measures functions for `oscope.bench`: a workload program of the Python kit.

`oscope.programs.functions` starts it with the name of a file that it wrote, once a block: how to import, and
the pickled calls. Each request is answered by a process forked for it, which
unpickles the functions itself: no function meets what another one has imported, cached or left behind.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import os
import pickle
import resource
import signal
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from oscope import workload as kit

NAME = "python.call"
"""The name of the workload, and of the experiment."""
GONE = "the functions are kept only while they are measured: call oscope.bench again"
_PR_SET_PDEATHSIG = 1
_EMPTY_CALLS = 5000
_EMPTY_ROUNDS = 5


@dataclass(frozen=True)
class Call:
    """A function with what it is called with."""

    function: Callable[..., Any]
    setup: Callable[..., Any] | None
    """Called first in each process; what it returns, unless None, is the function's first argument."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    setup_kwargs: Mapping[str, Any]
    collect: bool
    """Whether the garbage collector is on while the function is measured."""
    files: frozenset[str]
    """The files of the function's and the setup's own code."""

    def prepare(self) -> Callable[[], Any]:
        """Set up; return what one iteration calls, without arguments."""
        made = None if self.setup is None else self.setup(**self.setup_kwargs)
        args = self.args if made is None else (made, *self.args)
        return (
            functools.partial(self.function, *args, **self.kwargs) if args or self.kwargs else self.function
        )


def run_loop(call: Callable[[], Any], iterations: int) -> int:
    """Call so often; return the CPU time of all threads of this process meanwhile, in ns."""
    turns = itertools.repeat(None, iterations)
    begun = time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID)
    for _ in turns:
        call()
    return time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID) - begun


def measure_empty_call(like: Callable[[], Any]) -> float:
    """Return the time in ns, with its loop, of calling a function that does nothing, as `like` is called."""

    def empty(*_args: Any, **_kwargs: Any) -> None:
        pass

    def plain() -> None:
        pass

    called: Callable[[], Any] = plain
    if isinstance(like, functools.partial):
        called = functools.partial(empty, *like.args, **like.keywords)
    found = []
    for _ in range(_EMPTY_ROUNDS):
        begun = time.perf_counter_ns()
        run_loop(called, _EMPTY_CALLS)
        found.append((time.perf_counter_ns() - begun) / _EMPTY_CALLS)
    return statistics.median(found)


@kit.workload(
    NAME,
    metrics={
        "cpu_ns": kit.Metric("ns", "less", "CPU time of one call, of all threads of the process."),
        "call_ns": kit.Metric("ns", None, "Time of a call that does nothing, and of the loop around it."),
        "max_rss_bytes": kit.Metric("B", "less", "Largest size of the process, with all its modules."),
    },
    loops=True,
    # The function may have threads.
    alone=False,
)
def call_function(call: int = 0) -> Callable[[int], dict[str, float]]:
    """Call a function of Python."""
    found: Call = pickle.loads(_FILE.calls()[call])  # noqa: S301 - written by this user's own laboratory
    # An error names the line of these files that led to it.
    kit._OWN_FILES.update({file: file for file in found.files})
    if len(found.files) == 1:
        # cloudpickle leaves out the file of a function that it sends with its code.
        kit._OWN_FILES["<dynamic-code>"] = next(iter(found.files))
    function = found.prepare()
    empty_ns = measure_empty_call(function)

    def iterate(iterations: int) -> dict[str, float]:
        if found.collect:
            gc.enable()
        try:
            cpu_ns = run_loop(function, iterations)
        except SystemExit as error:
            raise kit.Failed(f"it ends the process: SystemExit({error.code!r})") from None
        finally:
            gc.disable()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"cpu_ns": cpu_ns / iterations, "call_ns": empty_ns, "max_rss_bytes": 1024 * most}

    return iterate


class _File:
    """What the laboratory wrote for the worker."""

    def __init__(self) -> None:
        self.path: Path | None = None

    def calls(self) -> list[bytes]:
        """Return the calls, each pickled; import from now on as the process that wrote them does."""
        if self.path is None:
            raise RuntimeError("the worker was given no file")
        written: dict[str, Any] = pickle.loads(self.path.read_bytes())  # noqa: S301 - see above
        sys.path[:] = written["path"]
        calls: list[bytes] = written["calls"]
        return calls


_FILE = _File()


class _Worker(kit._Server):
    """Answers each request in a process of its own."""

    def __init__(self) -> None:
        self._child: int | None = None
        super().__init__()

    def _end(self, *arguments: object) -> None:
        if self._child is not None:
            os.kill(self._child, signal.SIGTERM)
        super()._end(*arguments)

    def _answer(self, number: int, request: Mapping[str, Any]) -> None:
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            self._answer_in_child(number, request, parent)
        self._child = child
        if self._ended:
            os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        self._child = None
        if os.WIFSIGNALED(status):
            # The laboratory is to see what ended it.
            number = os.WTERMSIG(status)
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if os.WEXITSTATUS(status):
            os._exit(os.WEXITSTATUS(status))

    def _answer_in_child(self, number: int, request: Mapping[str, Any], parent: int) -> NoReturn:
        self._child = None
        # Requests come on standard input, and answers go out on a copy of standard output: neither is for it.
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        status = 1
        try:
            if os.getppid() == parent:
                params = dict(request["params"])
                own = {"warmup": params.pop("warmup", 1), "cpu": params.pop("cpu", -1)}
                super()._answer(number, {**request, **own, "params": params})
                status = 0
        except kit._RefusedError as refused:
            self._refuse(number, refused)
            status = 0
        except BaseException as error:  # noqa: BLE001 - the process ends here, whatever it was
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(status)


def main() -> None:
    """Answer `describe` or `run`."""
    name, verb = sys.argv[1:]
    _FILE.path = Path(name)
    if not _FILE.path.is_file():
        sys.exit(GONE)
    if verb == "run":
        _Worker().serve()
        sys.exit(0)
    kit.main([verb])
