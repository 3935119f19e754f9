"""The process that plays scenarios, the first one in namespaces of processes and of mounts of its own.

`python -m oscope.tools.dhcp.lab.namespace_host NAME...`; `scenario_runner` starts it. It writes an event a
line, in JSON. When it ends, however that is, the kernel ends all that it started (pid_namespaces(7)), and
with that the namespaces and files are gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError
from oscope.tools.dhcp.lab.programs import call
from oscope.tools.dhcp.lab.scenario import Scene

BEAT_S = 1.0
"""A sign of life comes this often."""
_FOLDER = Path("/dev/shm")  # noqa: S108 (covered by a file system of this process's own)


def main(names: Sequence[str]) -> int:
    """Play the scenarios `names` all at once, and return the exit code."""
    if os.getpid() != 1:
        _report("error", message="the stage is no first process", remedy="start it by oscope dhcp lab")
        return os.EX_USAGE
    try:
        asyncio.run(_play(names))
    except (OscopeError, BaseExceptionGroup) as failure:
        error = _first(failure)
        _report("error", message=error.message, remedy=error.remedy)
        return os.EX_SOFTWARE
    return os.EX_OK


async def _play(names: Sequence[str]) -> None:
    # Programs are never there, so that nothing is hidden by it; every system has it.
    await call("mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "oscope", _FOLDER)
    beating = asyncio.create_task(_beat())
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(Scene(name, _FOLDER / name, _report).play())
    beating.cancel()


async def _beat() -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        _report("beat")


def _report(event: str, **values: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def _first(failure: BaseException) -> OscopeError:
    """Return the first error of ours; what is none of them is a bug, and raised."""
    while isinstance(failure, BaseExceptionGroup):
        expected, others = failure.split(OscopeError)
        if others is not None:
            raise others
        failure = failure if expected is None else expected.exceptions[0]
    if not isinstance(failure, OscopeError):
        raise failure
    return failure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
