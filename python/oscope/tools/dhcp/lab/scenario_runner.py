"""Runs scenarios on a stage, and keeps its output."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oscope.model.errors import OscopeError, ProbeError
from oscope.model.finding import as_root
from oscope.probe.child import Child
from oscope.tools.dhcp.lab.plan import SCENARIOS

_SILENCE_LIMIT_S = 60.0
_PACKAGES = {
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "bridge": "iproute2",
    "tcpdump": "tcpdump",
    "dnsmasq": "dnsmasq-base",
    "busybox": "busybox",
}
"""Programs that the lab calls, and their Debian packages."""
_VERSION_LIMIT_S = 30.0


@dataclass(frozen=True)
class LogEntry:
    """Something that was done, or that the server said."""

    time_ns: int
    """Since 1970 in UTC, of the clock that also dates the packets."""
    text: str


@dataclass(frozen=True)
class LeaseFile:
    """What stood in the server's file of leases."""

    time_ns: int
    when: str
    lines: tuple[str, ...]


@dataclass
class ScenarioRun:
    """All that was seen of a scenario."""

    steps: list[LogEntry] = field(default_factory=list)
    log: list[LogEntry] = field(default_factory=list)
    """The server's."""
    leases: list[LeaseFile] = field(default_factory=list)
    captures: dict[str, bytes] = field(default_factory=dict)
    """By the host that they were made at."""
    ended: bool = False


class Stage(Child):
    """The stage's process, which ends with this one even if that is killed."""

    subject = "the stage of the DHCP lab"

    def __init__(self, names: Sequence[str]) -> None:
        """Start it; OscopeError where that fails."""
        super().__init__(
            [
                *("setpriv", "--pdeathsig", "KILL", "--"),
                # What others unmount goes here as well: a copy would be kept in use as long as the lab plays.
                *("unshare", "--mount", "--propagation", "slave"),
                *("--pid", "--mount-proc", "--fork", "--kill-child", "--"),
                # Not from the working folder, which may hold modules of the same names.
                *(sys.executable, "-P", "-m", "oscope.tools.dhcp.lab.namespace_host", *names),
            ],
            stdin=subprocess.DEVNULL,
        )

    def __enter__(self) -> Stage:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, with all that it started."""
        self.kill()


def check() -> None:
    """Raise OscopeError where the lab cannot be played here: without root, or a program."""
    if os.geteuid() != 0:
        raise OscopeError("only root makes network namespaces", remedy="sudo oscope dhcp lab")
    missing = [name for name in _PACKAGES if shutil.which(name) is None]
    if missing:
        packages = " ".join(dict.fromkeys(_PACKAGES[name] for name in missing))
        raise OscopeError(
            f"not installed: {', '.join(missing)}", remedy=as_root(f"apt-get install {packages}")
        )
    if "udhcpc" not in _output_of("busybox", "--list").split():
        raise OscopeError(
            "this busybox has no udhcpc", remedy=as_root("apt-get install busybox, or a build with udhcpc")
        )


def versions() -> dict[str, str]:
    """Return the first line that each program says of its version."""
    asked = {
        "dnsmasq": ("dnsmasq", "--version"),
        "udhcpc": ("busybox",),
        "tcpdump": ("tcpdump", "--version"),
        "ip": ("ip", "-V"),
    }
    return {name: _output_of(*command).partition("\n")[0].strip() for name, command in asked.items()}


def play(
    names: Sequence[str], heard: Callable[[str, str], None], beat: Callable[[float], None]
) -> dict[str, ScenarioRun]:
    """Play scenarios, all at once, and return what was seen of each.

    `heard` is given each step: the scenario's name and what is done; `beat` the seconds since the beginning,
    about each second. Raises OscopeError where one fails: nothing is left behind then either.
    """
    played = {name: ScenarioRun() for name in names}
    begun = time.monotonic()
    with Stage(names) as stage:
        ended = False
        while not ended:
            lines, ended = stage.lines(_SILENCE_LIMIT_S)
            for line in lines:
                _hear(line, played, heard)
            beat(time.monotonic() - begun)
        status = stage.wait()
        if status != os.EX_OK or not all(one.ended for one in played.values()):
            raise ProbeError(
                f"{stage.subject} ended with exit code {status}{stage.last_words()}",
                remedy="namespaces of processes, mounts and networks have to be allowed here",
            )
    return {name: played[name] for name in SCENARIOS if name in played}


def _hear(line: bytes, played: dict[str, ScenarioRun], heard: Callable[[str, str], None]) -> None:
    report: dict[str, Any] = json.loads(line)
    event = report["event"]
    if event == "error":
        raise OscopeError(report["message"], remedy=report["remedy"])
    if event == "beat":
        return
    name = report["scenario"]
    of = played[name]
    match event:
        case "step":
            of.steps.append(LogEntry(report["time_ns"], report["text"]))
            heard(name, report["text"])
        case "log":
            of.log.append(LogEntry(report["time_ns"], report["text"]))
        case "leases":
            of.leases.append(LeaseFile(report["time_ns"], report["when"], tuple(report["lines"])))
        case "capture":
            of.captures[report["end"]] = base64.b64decode(report["content"])
        case "end":
            of.ended = True


def _output_of(*command: str) -> str:
    """Return what a program says, of whatever exit code."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OscopeError(f"{command[0]} does not run ({error})") from error
    return done.stdout or done.stderr
