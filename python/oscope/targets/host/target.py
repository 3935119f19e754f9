"""A host as a place to measure at: nothing runs there but the probe and the sshd that started it.

The probe is copied once into `~/.cache/oscope/probe/SHA256/` of the user there (or below `$XDG_CACHE_HOME`).
The host reports the digest of the copy each time, and the copy describes itself, before anything is measured.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError, ProbeError
from oscope.model.host import Host
from oscope.probe import catalogue, restore_report
from oscope.probe.locate import find_probe
from oscope.probe.process import HELLO_LIMIT_S, Probe
from oscope.probe.wire import Sample
from oscope.targets.host.connection import Connection

_COPY_LIMIT_S = 300.0
_PROGRAM = "${XDG_CACHE_HOME:-$HOME/.cache}/oscope/probe/%s/oscope-probe"
"""As sh reads it in double quotes; `%s` is the digest."""
_LOOK = 'uname -s; uname -m; if [ -f "{program}" ]; then sha256sum < "{program}"; fi'
_COPY = (
    'umask 077; p="{program}"; mkdir -p "${{p%/*}}" && cat > "$p.$$" && chmod 700 "$p.$$" '
    '&& if [ "$(sha256sum < "$p.$$")" = "{digest}  -" ]; then mv -f "$p.$$" "$p"; else rm -f "$p.$$"; fi'
    ' || {{ rm -f "$p.$$"; exit 1; }}'
)
_CALL = 'exec "{program}" {verb}'
_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 22: "s390x", 21: "ppc64le", 40: "armv7l"}
"""e_machine of elf(5) -> what uname -m says."""
_NOT_STARTED = (126, 127)
"""Exit codes of sh for a program that it cannot execute, or does not find."""


class HostProbe(Probe):
    """The probe on another host."""

    schema_remedy = "use the Oscope that copied it"

    def __init__(self, connection: Connection, script: str, begun: Callable[[Probe], None] | None) -> None:
        """Start it, and wait for its greeting; ProbeError where none comes."""
        self._connection = connection
        self.subject = f"the probe on {connection.host.name}"
        self.death_remedy = f"see whether the host is there: ssh {connection.host.address} uptime"
        super().__init__(connection.command(script), hello_limit_s=HELLO_LIMIT_S, begun=begun)

    def terminate(self) -> None:
        """End the connection: the probe gives up what it does, restores what it changed, and ends."""
        super().terminate()
        self._connection.end()

    def is_out_of_reach(self) -> bool:
        """Say whether the connection was lost, and not the probe alone."""
        return not self._connection.answers()

    def kill(self) -> None:
        """End it, and release everything; where it still runs, its connection is ended for that."""
        try:
            if not self.ends_within(0):
                self._connection.close()
        finally:
            super().kill()

    def doing(self) -> str:
        """Say nothing: the threads of ssh tell nothing of the probe's."""
        return ""


class HostTarget:
    """A host that ssh reaches, furnished with the probe."""

    traceable = False
    slowness = 1.0

    def __init__(self, host: Host) -> None:
        """Reach the host, and have the probe there. Raises OscopeError where that cannot be."""
        self.name = f"ssh:{host.name}"
        self.host = host
        self._connection = Connection(host)
        try:
            self.program, self._remote = self._deploy_probe()
            self._check_description()
            self.restored = self._restore()
        except BaseException:
            self.close()
            raise

    def start(self, begun: Callable[[Probe], None] | None = None) -> HostProbe:
        """Start a probe and wait for its greeting; `begun` is given it before that. Raises ProbeError."""
        return HostProbe(self._connection, self._script("run"), begun)

    def begin_renewal(self, probe: Probe, program: Path | None = None) -> None:
        """Begin to put a fresh process in the probe's place. Raises ProbeError."""
        if program is not None:
            raise ProbeError(
                f"{self.name} has one build of the probe", remedy="compare builds here: oscope ab"
            )
        probe.begin_renewal()

    def survey(self) -> Mapping[str, Any]:
        """Return all the probe can tell of the host now, clock offsets included. Raises ProbeError."""
        return {**self._ask("environment"), **self._identity()}

    def environment(self, probe: Probe) -> Mapping[str, Any]:
        """Return what the probe says of the host, and which host that is."""
        return {**probe.hello.environment, **self._identity()}

    def translate(self, sample: Sample, workload: str) -> Sample:
        """Return `sample` as it is: its metrics are the workload's own."""
        del workload
        return sample

    def close(self) -> None:
        """End the connection, and all that runs there."""
        self._connection.close()

    def _identity(self) -> dict[str, Any]:
        labels = {"labels": dict(self.host.labels)} if self.host.labels else {}
        return {"host": {"name": self.host.name, **labels}}

    def _deploy_probe(self) -> tuple[Path, str]:
        """Return the probe here and, as sh reads it, its copy there; it is copied unless it is there."""
        program = find_probe()
        system, machine, found = self._look(_PROGRAM % _digest(program))
        if system != "Linux":
            raise OscopeError(f"{self.host.name} runs {system}", remedy="Oscope measures Linux")
        if machine != _machine(program):
            program = _probe_for(machine, self.host)
            found = self._look(_PROGRAM % _digest(program))[2]
        digest = _digest(program)
        remote = _PROGRAM % digest
        if found == digest:
            return program, remote
        answer = self._connection.call(
            _COPY.format(program=remote, digest=digest), sent=program, limit_s=_COPY_LIMIT_S
        )
        if answer.returncode != 0:
            raise OscopeError(
                f"the probe cannot be copied to {self.host.name}: {_last_words(answer)}",
                remedy="free some space in the user's home there, or set XDG_CACHE_HOME for its logins",
            )
        found = self._look(remote)[2]
        if found != digest:
            raise OscopeError(
                f"the copy of the probe on {self.host.name} is not what was sent",
                remedy="see whether its disk is full, and whether sha256sum works there",
            )
        return program, remote

    def _look(self, remote: str) -> tuple[str, str, str | None]:
        """Return the host's kernel, its machine, and the digest of the file `remote` if it is there."""
        answer = self._connection.call(_LOOK.format(program=remote))
        lines = answer.stdout.decode(errors="replace").splitlines()
        if len(lines) < 2:
            raise OscopeError(
                f"{self.host.name} does not say what it is: {_last_words(answer)}",
                remedy=f"see what `ssh {self.host.address} uname -sm` says; nothing else may be printed",
            )
        return lines[0], lines[1], lines[2].split()[0] if len(lines) > 2 and lines[2].split() else None

    def _check_description(self) -> None:
        """Raise OscopeError where the copy does not describe what this laboratory plans by."""
        there, here = catalogue.parse(self._ask("describe")), catalogue.load(find_probe())
        if dict(there.workloads) != dict(here.workloads):
            raise OscopeError(
                f"the probe for {self.host.name} describes other workloads than {find_probe()}",
                remedy="build both from one commit",
            )

    def _restore(self) -> tuple[str, ...]:
        """Undo what a probe that was killed there left behind; return what was undone or not, a line each."""
        answer = self._connection.call(self._script("restore"), limit_s=_COPY_LIMIT_S)
        return tuple(restore_report.describe(answer, f"oscope-probe restore: {_last_words(answer)}"))

    def _script(self, verb: str) -> str:
        return _CALL.format(program=self._remote, verb=verb)

    def _ask(self, verb: str) -> dict[str, Any]:
        answer = self._connection.call(self._script(verb))
        if answer.returncode != 0:
            words = _last_words(answer)
            loader = answer.returncode in _NOT_STARTED or "GLIBC" in words
            raise ProbeError(
                f"the probe does not run on {self.host.name}: {words}",
                remedy="give it one without shared libraries: make static-probe, and OSCOPE_PROBE=its path"
                if loader
                else None,
            )
        data = None
        with contextlib.suppress(ValueError):
            data = json.loads(answer.stdout)
        if not isinstance(data, dict):
            raise ProbeError(
                f"the probe on {self.host.name} printed no JSON object for {verb}",
                remedy="have the login shell there print nothing",
            )
        return data


def _last_words(answer: subprocess.CompletedProcess[bytes]) -> str:
    lines = answer.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"status {answer.returncode}"


@lru_cache(maxsize=8)
def _digest(program: Path) -> str:
    with program.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _machine(program: Path) -> str:
    """Return the machine that an ELF program is for, as uname says it (elf(5))."""
    with program.open("rb") as file:
        head = file.read(20)
    order: Any = "little" if head[5:6] == b"\x01" else "big"
    number = int.from_bytes(head[18:20], order)
    return _MACHINES.get(number, f"ELF machine {number}") if head[:4] == b"\x7fELF" else "no ELF program"


def _probe_for(machine: str, host: Host) -> Path:
    """Return the build of the probe for another machine; OscopeError where there is none."""
    variable = f"OSCOPE_PROBE_{machine.upper()}"
    named = os.environ.get(variable)
    here = _machine(find_probe())
    if named is None:
        raise OscopeError(
            f"{host.name} is {machine}, and the probe here is for {here}",
            remedy="build the probe of this commit there "
            "(cargo build --release --locked -p oscope-programs), "
            f"and set {variable} to a copy of it here",
        )
    if not os.access(named, os.R_OK) or _machine(Path(named)) != machine:
        raise OscopeError(f"{variable}={named} is no program for {machine}", remedy="name the build for it")
    return Path(named).absolute()
