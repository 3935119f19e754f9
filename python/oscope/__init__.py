"""An oscilloscope for operating systems: the laboratory's Python interface.

    import oscope
    run = oscope.run("syscall.cost", call=["getppid", "read"], reps=50)
    run.summary()

Importing this is cheap; numpy, pandas and the like are loaded when something needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oscope.model.errors import OscopeError, ProbeError, StoreError, UsageError
from oscope.model.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from oscope.api import Run
    from oscope.model.clocks import Clock
    from oscope.model.factors import Level, Profile

__all__ = ["OscopeError", "ProbeError", "StoreError", "UsageError", "__version__", "load", "run"]


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
    ProbeError and StoreError where those fail.
    """
    from oscope.api import Request, measure  # noqa: PLC0415 - importing oscope is cheap

    request = Request(profile, reps, precision, budget, seed, trace, on, clock, cpus, memory, again, spread)
    return measure(name, request, store, factors)


def load(run_id: str = "last", *, store: str | Path | None = None) -> Run:
    """Return a stored run by its id, the start of it, or `last`. Raises UsageError where there is none."""
    from oscope.api import load_run  # noqa: PLC0415 - importing oscope is cheap

    return load_run(run_id, store)
