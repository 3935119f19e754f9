"""Reading and writing files for one command, in terms of the command's options."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from oscope.model.errors import OscopeError, ProbeError, UsageError
from oscope.model.factors import Level
from oscope.probe import catalogue
from oscope.probe.probe_session import ProbeSession, RefusedError
from oscope.probe.wire import Refusal

ABOUT_THE_FILE = ("file", "existing", "directory")
"""Parameters whose refusal is about the file, not the request: nothing was mistyped."""

_WHERE_MISSING = {
    "disk.read": "name a file that exists, or make one with oscope disk write",
    "disk.write": "name a file in a folder that exists",
}
"""What to do where a file or its folder is not there, by workload."""


@dataclass(frozen=True)
class Transfer:
    """What reading or writing a file once gave."""

    mib_per_s: float
    time_s: float
    bytes: int
    calls: int
    """System calls that read or wrote."""
    xor: int | None = None
    """XOR of the little-endian 32-bit words, where it was asked for."""
    resident: float | None = None
    """Share of the pages read that were in the page cache just before, where that could be seen."""

    @classmethod
    def of(cls, metrics: Mapping[str, float | None]) -> Transfer:
        """Read the metrics of a sample; ProbeError for one that is not there."""
        missing = [name for name in ("throughput", "time_s", "bytes", "calls") if metrics.get(name) is None]
        if missing:
            raise ProbeError(f"the probe did not measure {', '.join(missing)}")
        found: Mapping[str, Any] = metrics
        xor = found.get("xor")
        return cls(
            mib_per_s=found["throughput"],
            time_s=found["time_s"],
            bytes=int(found["bytes"]),
            calls=int(found["calls"]),
            xor=None if xor is None else int(xor),
            resident=found.get("resident"),
        )

    def to_object(self) -> dict[str, float | int | str]:
        """Return it as a JSON object; the XOR as 8 hexadecimal digits."""
        found: dict[str, float | int | str] = {
            "mib_per_s": self.mib_per_s,
            "time_s": self.time_s,
            "bytes": self.bytes,
            "calls": self.calls,
        }
        return found if self.xor is None else found | {"xor": self.xor_text}

    @property
    def xor_text(self) -> str:
        """The XOR as 8 lower-case hexadecimal digits; empty where there is none."""
        return "" if self.xor is None else f"{self.xor:08x}"


class FileSession(ProbeSession):
    """A session for what reads or writes files."""

    def transfer(self, workload: str, params: Mapping[str, Level], *, limit_s: float) -> Transfer:
        """Have the probe do `workload` once, not pinned to a CPU, and return what it measured.

        Raises UsageError where the request is wrong, OscopeError where the file or the machine cannot or it
        went wrong, ProbeError where the probe is lost or silent for longer than `limit_s`.
        """
        _check(workload, params)
        try:
            sample = self.measure(workload, params, limit_s=limit_s)
        except RefusedError as error:
            raise _error(error.refusal, workload) from None
        return Transfer.of(sample.metrics)


def _check(workload: str, params: Mapping[str, Level]) -> None:
    """Raise UsageError, in terms of the options, for a level that the probe does not allow."""
    known = catalogue.load().workload(workload)
    for name, level in params.items():
        parameter = known.parameter(name)
        if parameter is None:
            continue  # The probe itself refuses what it does not know.
        if level and parameter.minimum == 0:
            # Its 0 means "choose", for which an option is left out.
            parameter = replace(parameter, minimum=1)
        try:
            catalogue.check_level(parameter, level)
        except UsageError as error:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                error.message.replace(f"{name}=", f"{option} ", 1), remedy=error.remedy
            ) from None


def _error(refusal: Refusal, workload: str) -> OscopeError:
    """Return the error that `refusal` means, with options in place of the probe's parameters."""
    message = _as_options(refusal.message)
    remedy = None if refusal.remedy is None else _as_options(refusal.remedy)
    if remedy is None and message.endswith(os.strerror(errno.ENOENT)):
        remedy = _WHERE_MISSING.get(workload)
    if refusal.kind != "request" or refusal.field is None:
        return OscopeError(message, remedy=remedy)
    message = message.removeprefix(f"{refusal.field}: ")
    if refusal.field in ABOUT_THE_FILE:
        return OscopeError(message, remedy=remedy)
    return UsageError(f"--{refusal.field.replace('_', '-')}: {message}", remedy=remedy)


def _as_options(text: str) -> str:
    """Reword what the probe says of its parameters: `--set engine=read` is `--engine read` here."""
    return re.sub(r"--set (\w+)=", r"--\1 ", text).replace("existing=replace", "--overwrite")
