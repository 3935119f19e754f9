"""The server: one socket of this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from oscope.model.errors import OscopeError
from oscope.report.view.app import application
from oscope.report.view.guard import ADDRESS, Guard
from oscope.report.view.pages import Pages

_GRACE_S = 1
"""What an answer under way may take after Ctrl-C."""


class _Server(uvicorn.Server):
    """Ends at Ctrl-C and SIGTERM, and leaves it to the command to say how that went."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Have both signals end the server."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        self.should_exit = True


def bind(port: int) -> socket.socket:
    """Return a socket that listens at `port` of this machine, 0 for any that is free.

    Raises OscopeError where the port cannot be had.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port whose last connections are still closing is free; one where somebody listens is not.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen()
    except OSError as error:
        listening.close()
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        remedy = "name another --port, or leave it out for a free one"
        raise OscopeError(f"port {port} of {ADDRESS} {why}", remedy=remedy) from error
    return listening


def serve(listening: socket.socket, pages: Pages, token: str, ready: Callable[[], None]) -> None:
    """Answer requests at a socket until SIGINT or SIGTERM; `ready` is called before the first."""
    guarded = Guard(application(pages), token, listening.getsockname()[1])
    config = uvicorn.Config(
        guarded,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    _stay_off_the_measured_cpu()
    ready()
    asyncio.run(_Server(config).serve(sockets=[listening]))
    pages.live.close()


def _stay_off_the_measured_cpu() -> None:
    """Leave the highest CPU, where probes measure by default, to them, if there is another."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) > 1:
        os.sched_setaffinity(0, allowed - {max(allowed)})
