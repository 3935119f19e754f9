"""Starts `python -m oscope` without loading its libraries anew: by a fork of a process that has loaded them.

A command loads numpy, SQLAlchemy, SciPy and others for 0.3 to 1.5 s of CPU, and the tests carry out many.
Loaded here are libraries, and those packages of Oscope (`OWN`) that may not look at a command's environment
as they are imported: the process that forks does not start if one does. The command line itself is each
command's own; it also ends as a process of its own does. Tests of signals, of terminals, of other users and
of the start itself use real processes, and so do all tests of `make test-full`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
import unittest.mock
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

LIBRARIES = (
    "asyncio.subprocess",
    "importlib.metadata",
    "jinja2",
    "numpy",
    "orjson",
    "pandas",
    "platformdirs",
    "rich.console",
    "rich.progress",
    "rich.table",
    "rich.tree",
    "scipy.cluster.hierarchy",
    "scipy.spatial.distance",
    "scipy.special",
    "scipy.stats",
    "sqlalchemy.dialects.sqlite",
    "sqlite3",
    "typer.core",
    "typer.main",
)
OWN = (
    "oscope.model",
    "oscope.probe",
    "oscope.trace",
    "oscope.planning",
    "oscope.storage",
    "oscope.programs",
    "oscope.targets",
    "oscope.runner",
    "oscope.statistics",
    "oscope.analysis",
    "oscope.figures",
    "oscope.questions",
    "oscope.labs",
    "oscope.report",
)
"""Packages of Oscope."""
DECISIVE = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "OMP_", "OPENBLAS_", "TERMINAL_WIDTH", "COVERAGE_")
"""Variables that begin so are read as an interpreter starts, or as a library is loaded."""
STANDARD = (os.__file__, "<frozen os>", "<frozen _collections_abc>")
"""Whose functions read the environment for others."""
MESSAGE_BYTES = 1 << 20
ROOT = Path(__file__).parent.parent
BYTECODE = ROOT / "target" / "tests" / "bytecode"


def serves(variables: Mapping[str, str]) -> bool:
    """Tell whether a command with these variables of the environment may be a fork."""
    if os.environ.get("OSCOPE_TEST_FULL") or any(name.startswith("COVERAGE_") for name in variables):
        return False
    return _decisive(variables) == _decisive(_variables())


def run(
    words: Sequence[str], folder: Path, variables: Mapping[str, str], limit_s: float
) -> tuple[int, str, str]:
    """Carry out `oscope WORDS`; return its exit code, as subprocess does, and both outputs."""
    return _server(os.getpid()).run(words, folder, variables, limit_s)


def _decisive(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(DECISIVE)}


def _variables() -> dict[str, str]:
    """Return the variables that the forking process has: those of the tests, and the sources under test."""
    return dict(os.environ) | {"PYTHONPATH": str(ROOT / "python")}


@functools.cache
def _server(of: int) -> Server:
    del of  # A process that pytest-xdist or a test forks needs a server of its own.
    return Server()


class Server:
    """The process that forks, and the socket to it."""

    def __init__(self) -> None:
        """Start it; it ends with this process."""
        self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES)
        with there:
            # Its streams are of the kinds that a command's are: an interpreter looks at that as it starts.
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(there.fileno()), str(BYTECODE)],
                env=_variables(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[there.fileno()],
            )

    def run(
        self, words: Sequence[str], folder: Path, variables: Mapping[str, str], limit_s: float
    ) -> tuple[int, str, str]:
        """Have it fork a command and wait for the end. Raises subprocess.TimeoutExpired."""
        wish = {
            "words": list(words),
            "folder": os.fspath(folder),
            "variables": dict(variables),
            "cpus": sorted(os.sched_getaffinity(0)),
        }
        ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
        message = json.dumps(wish).encode("utf-8", "surrogateescape")
        try:
            # Where it has ended, nothing is reported below.
            with contextlib.suppress(BrokenPipeError):
                socket.send_fds(self._socket, [message], [0, *theirs])
        finally:
            for number in theirs:
                os.close(number)
        out, err, reported = _read_all(ours, limit_s, words)
        if not reported.endswith(b"\n"):
            _, why = self._process.communicate(timeout=limit_s)
            raise RuntimeError(f"the process that forks commands has ended: {why.decode()}")
        return int(reported.split()[1]), _text(out), _text(err)


def _text(data: bytes) -> str:
    return io.TextIOWrapper(io.BytesIO(data)).read()


def _read_all(pipes: Sequence[int], limit_s: float, words: Sequence[str]) -> list[bytes]:
    """Read all pipes to their ends and close them. What takes too long is killed."""
    deadline = time.monotonic() + limit_s
    found = {pipe: bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as open_ones:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
            open_ones.callback(os.close, pipe)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                reported = found[pipes[-1]].split()
                if reported:
                    os.kill(int(reported[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(["oscope", *words], limit_s)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                found[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
    return [bytes(found[pipe]) for pipe in pipes]


# ---- the process that forks


def _serve(control: socket.socket) -> dict[str, Any]:
    """Fork a process for each request and tell its end. Return in each fork, with what it has to do."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not control:
                    _tell_end(selector, key)
                elif (wish := _fork(selector, control)) is not None:
                    return wish


def _fork(selector: selectors.BaseSelector, control: socket.socket) -> dict[str, Any] | None:
    message, streams, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 4)
    if not message:
        os._exit(0)  # Who asked is gone.
    pid = os.fork()
    if pid == 0:
        for number, stream in enumerate(streams[:3]):
            os.dup2(stream, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        return dict(json.loads(message))
    *three, reported = streams
    for stream in three:
        os.close(stream)
    os.write(reported, b"%d " % pid)
    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, reported))
    return None


def _tell_end(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pid, reported = key.data
    selector.unregister(key.fd)
    os.close(key.fd)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # Nobody waits for what took too long.
        os.write(reported, b"%d\n" % status)
    os.close(reported)


def _become(wish: dict[str, Any]) -> None:
    """Be `python -m oscope WORDS`, to the end."""
    os.chdir(wish["folder"])
    sys.path[0] = str(Path.cwd())
    os.environ.clear()
    os.environ.update(wish["variables"])
    os.sched_setaffinity(0, wish["cpus"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["oscope", *wish["words"]]
    runpy.run_module("oscope", run_name="__main__", alter_sys=True)


def load(packages: Iterable[str], source: str) -> None:
    """Import packages with all their modules.

    Raises RuntimeError where a module below the folder `source` reads the environment as it is imported: what
    it finds would be kept for all commands.
    """
    read = type(os.environ).__getitem__

    def guarded(variables: Any, name: str) -> str:
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename in STANDARD:
            frame = frame.f_back
        asking = frame.f_code.co_filename
        if asking.startswith(source):
            raise RuntimeError(f"{asking} reads {name} of the environment as it is imported")
        return read(variables, name)

    with unittest.mock.patch.object(type(os.environ), "__getitem__", guarded):
        for name in packages:
            package = importlib.import_module(name)
            for module in pkgutil.walk_packages(package.__path__, f"{name}."):
                importlib.import_module(module.name)


if __name__ == "__main__":
    # A Ctrl-C is for pytest, and for the command that runs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for library in LIBRARIES:
        importlib.import_module(library)
    # Oscope's own modules are compiled once, also where no bytecode is to be written beside them.
    sys.pycache_prefix, sys.dont_write_bytecode = sys.argv[2], False
    load(OWN, importlib.import_module("oscope").__path__[0])
    gc.collect()
    gc.freeze()
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))
