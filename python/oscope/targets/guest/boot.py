"""Boots a guest, and sees to it that none is left behind, however the laboratory ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

from oscope.model.errors import OscopeError
from oscope.targets.guest.console import Console

_END_LIMIT_S = 10.0


def guarded(command: Sequence[str]) -> tuple[str, ...]:
    """Return `command` such that the kernel kills it when the laboratory dies, whatever of (prctl(2)).

    Beside that, a guest whose standard input ends switches itself off, unless it hangs.
    """
    program = shutil.which("setpriv")
    if program is None:
        raise OscopeError(
            "setpriv is not here, without which a guest may be left behind", remedy="install util-linux"
        )
    return (program, "--pdeathsig", "KILL", "--", *command)


class RunningGuest:
    """A guest under way, in a process group of its own; leaving the context kills what remains."""

    def __init__(
        self,
        command: Sequence[str],
        console: Console,
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        own_group: bool = True,
        inherited: Sequence[int] = (),
    ) -> None:
        """`command` is that of a `Machine`. Without a group of its own it may read from the terminal.

        `inherited` are the descriptors of this process that the command names.
        """
        self._command = guarded(command)
        self._stdin = stdin
        self._own_group = own_group
        self._inherited = tuple(inherited)
        self.console = console
        self.process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        """Start it. Raises OscopeError where QEMU does not start."""
        try:
            self.process = subprocess.Popen(
                self._command,
                stdin=self._stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=self._own_group,
                pass_fds=self._inherited,
            )
        except OSError as error:
            raise OscopeError(f"QEMU does not start ({error})", remedy="install qemu-system-x86") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill what remains."""
        self.kill()

    def kill(self) -> None:
        """End it at once."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                if self._own_group:
                    # The group still belongs to the guest: its leader has not been waited for.
                    os.killpg(self.process.pid, signal.SIGKILL)
                else:
                    self.process.kill()
            # A guest that the kernel itself hangs in cannot be killed, and must not be waited for.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_END_LIMIT_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
