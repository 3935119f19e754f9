"""What this machine can measure, what it cannot, and the command that would fix it.

Each check is a small function that *tries* the thing (opens it, runs it, asks the probe to count known work)
and gives one `Finding`. A file that exists proves nothing: a `/dev/kvm` that runs no guest and a counter that
reads zero are both common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.model.errors import OscopeError
from oscope.model.finding import Finding
from oscope.probe.locate import ask, find_probe
from oscope.probe.process import Probe
from oscope.storage.store import Store
from oscope.tools.doctor.environment import ENVIRONMENT_CHECKS
from oscope.tools.doctor.filesystem import FILESYSTEM_CHECKS
from oscope.tools.doctor.host import HOST_CHECKS
from oscope.tools.doctor.kernels import KERNEL_CHECKS
from oscope.tools.doctor.memory import MEMORY_CHECKS, TRIALS, try_workload
from oscope.tools.doctor.tools import TOOLS, try_tool


def examine(store: str | None = None) -> list[Finding]:
    """Try everything and return the findings, the essential ones first.

    `store` is the place of the store to try; None is the default one.
    """
    findings, environment = _probe()
    if environment is not None:
        findings += [check(environment) for check in ENVIRONMENT_CHECKS]
        findings += [try_workload(trial) for trial in TRIALS]
    findings += [check() for check in (*MEMORY_CHECKS, *HOST_CHECKS)]
    findings += [try_tool(tool) for tool in TOOLS]
    findings += [check() for check in (*FILESYSTEM_CHECKS, *KERNEL_CHECKS)]
    findings.append(_store(store))
    return findings


def can_measure(findings: list[Finding]) -> bool:
    """Return whether the probe can measure at all."""
    return not any(f.essential and f.status == "missing" for f in findings)


def _probe() -> tuple[list[Finding], Mapping[str, Any] | None]:
    """Start the probe, take its greeting, and have it measure what it knows of this machine."""
    needed_for = "every measurement"
    try:
        path = find_probe()
        with Probe([path, "run"]) as probe:
            version = probe.hello.probe["version"]
        environment = ask(path, "environment")
    except OscopeError as error:
        remedy = error.remedy or "build it anew with make setup"
        return [Finding("probe", "missing", error.message, needed_for, remedy, essential=True)], None
    found = f"version {version}, at {path}"
    return [Finding("probe", "ok", found, needed_for, essential=True)], environment


def _store(place: str | None) -> Finding:
    """Open the store as it is; where it is not there, tell whether a run could make it."""
    needed_for = "keeping what is measured"
    try:
        Store.check(place)
        with Store.read(place) as store:
            runs = len(store.runs())
    except OscopeError as error:
        return Finding("store", "missing", error.message, needed_for, error.remedy or "name another --store")
    return Finding("store", "ok", f"{runs} run{'' if runs == 1 else 's'}", needed_for)
