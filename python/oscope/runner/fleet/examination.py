"""What each host of a fleet is and can do, before anything is measured there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from oscope.model.errors import OscopeError
from oscope.model.host import Host
from oscope.probe.process import Request
from oscope.probe.wire import Sample
from oscope.targets.host.target import HostTarget

_NULL = "null"
"""The workload that does nothing: its sample has the time of the host."""
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Examined:
    """What was found of a host."""

    host: str
    error: str | None = None
    """Why it cannot be measured, with the remedy."""
    environment: dict[str, Any] = field(default_factory=dict)
    restored: tuple[str, ...] = ()
    """What a killed measurement had left there, and was undone or could not be, a line each."""
    clock_offset_ms: float | None = None
    """By how much its clock is ahead of the controller's."""
    clock_error_ms: float | None = None
    """The offset is known to that: half of the time that the answer took."""

    @property
    def unavailable(self) -> dict[str, str]:
        """What cannot be recorded there -> why, and how to fix it."""
        found = dict(self.environment.get("unavailable") or {})
        counters = (self.environment.get("counters") or {}).get("unavailable") or {}
        return {str(name): str(why) for name, why in {**counters, **found}.items()}


def examine_all(hosts: Sequence[Host], parallel: int) -> list[Examined]:
    """Examine hosts, so many at a time; in their order."""
    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(examine, hosts))


def examine(host: Host) -> Examined:
    """Reach a host, furnish it with the probe, and ask that what the host is."""
    try:
        with closing(HostTarget(host)) as target:
            environment = dict(target.survey())
            with target.start() as probe:
                before = time.time_ns()
                samples: list[Sample] = []
                for events in probe.run(Request(1, _NULL, iterations=1), silence_limit_s=_PATIENCE_S):
                    samples += [event for event in events if isinstance(event, Sample)]
                after = time.time_ns()
    except OscopeError as error:
        return Examined(host.name, error=str(error))
    if not samples:
        return Examined(host.name, environment=environment, restored=target.restored)
    middle = (before + after) / 2
    return Examined(
        host.name,
        environment=environment,
        restored=target.restored,
        clock_offset_ms=(samples[0].started_ns - middle) / 1e6,
        clock_error_ms=(after - before) / 2e6,
    )
