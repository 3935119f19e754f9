"""Whether a fleet's measurement survives random faults of its engine: nothing acknowledged is lost.

    python benchmarks/fleet_faults.py [--trials 60] [--seed 1] [--only KIND] [--first N]

Root only. Hosts are network namespaces with a real sshd each; the store is a real PostgreSQL server, or a
file. Each trial measures a plan of three rounds on three hosts, with one or two faults at random moments (see
`fleet_fault_kinds`). Then the command has ended, or is killed. What the spool and the store had at some
moment is *acknowledged*. A trial is right where

- no command takes longer than its limit, or ends in a traceback;
- a command that ends with 0 has measured and stored all, and another has a table that names each host that
  lacks something, with a reason;
- after the faults, at most two `oscope fleet run --resume` complete the fleet: each host has every sample of
  its plan once, and all that was acknowledged is among them as it was;
- neither a probe nor a spool is left.

A trial is drawn from the seed and its number, so `--first N --trials 1` repeats one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import fleet_fault_kinds as kinds
import fleet_hosts
from cli_driver import ROOT
from fleet_content import Rows, content, counted_samples
from fleet_fault_kinds import PARALLEL, ROUNDS, Scene
from oscope.model.errors import OscopeError
from oscope.storage.store import Store
from postgresql_server import PostgreSQL
from waiting import wait_until

HOSTS = ["n1", "n2", "n3"]
REPS = 360
PLAN = ("fleet", "run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop", "--reps", str(REPS))
COMMAND_LIMIT_S = 240.0
DURATION_S = 9.0
"""Faults begin within so long after the fleet is there: about as long as three rounds take undisturbed."""
INSIDE = "OSCOPE_FAULTS_INSIDE"
"""Set once this program has a mount namespace of its own, so that no mount outlives it."""


class WrongError(Exception):
    """What a trial shows to be wrong."""


@dataclass
class Trial:
    """One measurement with its faults."""

    number: int
    scene: Scene
    random: np.random.Generator
    acknowledged: dict[str, Rows] = field(default_factory=dict)
    error_texts: list[str] = field(default_factory=list)
    """Standard error of each command."""
    table: str = ""
    """Standard output of the command that had the faults."""

    def run(self, faults: list[kinds.Fault]) -> str:
        """Measure with these faults, and judge; return in brief how it went. Raises WrongError."""
        with kinds.workers(self.scene) as address:
            code = self._measure(faults, address)
            ended = "killed" if code < 0 else f"code {code}"
            self._judge(code)
            kinds.heal(self.scene)
            resumed = self._resume(address)
        self._check_whole()
        return f"{ended}, {resumed} resumed, {sum(map(len, self._samples().values()))} acknowledged before"

    def _measure(self, faults: list[kinds.Fault], address: str | None) -> int:
        moments = np.sort(self.random.uniform(0, DURATION_S, len(faults)))
        errors, output = self.scene.folder / "stderr", self.scene.folder / "stdout"
        words = [*PLAN, "--rounds", str(ROUNDS), "--seed", str(self.number), *self._how(address)]
        with errors.open("w") as stream, output.open("w") as other:
            begun = self.scene.oscope.start(*words, stderr=stream, stdout=other)
        self.scene.command = begun
        try:
            wait_until(
                lambda: errors.read_text().startswith("oscope: fleet-") or begun.poll() is not None,
                "the fleet's run",
                limit_s=COMMAND_LIMIT_S,
            )
            start = time.monotonic()
            for fault, moment in zip(faults, moments, strict=True):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    begun.wait(max(0.0, start + moment - time.monotonic()))
                self._acknowledge()
                fault.act(self.scene, self.random)
                self._acknowledge()
            code = self._wait(begun)
        finally:
            begun.kill()
            begun.wait()
            self.error_texts.append(errors.read_text())
            self.table = output.read_text()
        self._acknowledge()
        return code

    def _how(self, address: str | None) -> list[str]:
        return ["--scheduler", address] if address else ["--parallel", str(PARALLEL)]

    def _wait(self, begun: subprocess.Popen[str]) -> int:
        try:
            return begun.wait(COMMAND_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise WrongError(f"the command does not end in {COMMAND_LIMIT_S:.0f} s") from None

    def _acknowledge(self) -> None:
        """Keep what the spool and the store have now."""
        for place in self.scene.places():
            with contextlib.suppress(OscopeError), Store.read(place) as store:
                for entry in store.fleets():
                    for run in entry.runs:
                        known = self.acknowledged.setdefault(run.run_id, {})
                        for part, rows in content(store, run.run_id).items():
                            known.setdefault(part, set()).update(rows)

    def _samples(self) -> dict[str, set[object]]:
        return {run: parts.get("samples", set()) for run, parts in self.acknowledged.items()}

    def _judge(self, code: int) -> None:
        """Check what the command that had the faults said at its end."""
        text = self.error_texts[0]
        if "Traceback" in text:
            raise WrongError("a traceback")
        if code < 0:
            return
        last = text.splitlines()[-1]
        lacking = self._lacking()
        if code == 0 and lacking:
            raise WrongError(f"code 0, but {lacking} lack something")
        if code != 0 and not last.startswith("oscope: "):
            raise WrongError(f"code {code} without an error line: {last!r}")
        for name in lacking:
            # The host, its rounds, samples, run, and why.
            rows = [line.split(maxsplit=4) for line in self.table.splitlines() if line.split()[:1] == [name]]
            if not rows or len(rows[0]) < 5 or int(rows[0][1]) >= ROUNDS:
                raise WrongError(f"{name} lacks something, and is not named with a reason: {self.table!r}")

    def _lacking(self) -> list[str]:
        """Return the hosts whose rounds are not all measured, by what was acknowledged."""
        rounds = dict.fromkeys(HOSTS, 0)
        for parts in self.acknowledged.values():
            names = [name for kind, name in kinds.fleet_events(parts) if kind == "fleet"]
            done = [number for kind, number in kinds.fleet_events(parts) if kind == "fleet_round"]
            for name in names:
                rounds[str(name)] = max([int(each) for each in done], default=0)
        return [name for name, number in rounds.items() if number < ROUNDS]

    def _resume(self, address: str | None) -> int:
        """Resume until all is there, twice at most; return how often."""
        for attempt in (1, 2):
            answer = self.scene.oscope("fleet", "run", "--resume", "last", *self._how(address))
            self.error_texts.append(answer.err)
            if "Traceback" in answer.err:
                raise WrongError("a traceback on --resume")
            if answer.code == 0:
                return attempt
        raise WrongError(f"not complete after two --resume: {answer.err.splitlines()[-1]}")

    def _check_whole(self) -> None:
        with Store.read(self.scene.oscope.environment["OSCOPE_STORE"]) as store:
            entry = store.fleet("last")
            if {run.host: run.rounds_done for run in entry.runs} != dict.fromkeys(HOSTS, ROUNDS):
                raise WrongError(f"rounds are missing after --resume: {entry.runs}")
            if unknown := set(self.acknowledged) - {run.run_id for run in entry.runs}:
                raise WrongError(f"runs are lost: {unknown}")
            for run in entry.runs:
                requested, found, doubled = counted_samples(store, run.run_id)
                if requested != REPS or found != requested or doubled:
                    raise WrongError(f"{run.host} has {found} of {REPS} samples, {doubled} twice")
                stored = content(store, run.run_id)
                for part, rows in self.acknowledged.get(run.run_id, {}).items():
                    if lost := rows - stored[part]:
                        raise WrongError(f"{run.host}: {len(lost)} {part} were acknowledged, and are lost")
        for host in self.scene.network.hosts:
            host.is_quiet()
        if left := self.scene.spools():
            raise WrongError(f"a spool is left: {left}")


def trial(number: int, seed: int, only: str | None, made: fleet_hosts.Fleet, server: PostgreSQL) -> str:
    """Carry out a trial; return what came of it, a word first. `wrong` begins those that are wrong."""
    random = np.random.default_rng([seed, number])
    faults = kinds.draw(random, number, only)
    with tempfile.TemporaryDirectory(prefix="oscope-faults-") as name:
        folder = Path(name)
        by_server = any(each.needs_server for each in faults) or bool(random.random() < 0.7)
        scheduler = any(each.needs_workers for each in faults)
        with kinds.scene(folder, made, server, probe(), by_server=by_server, scheduler=scheduler) as there:
            what = " + ".join(each.name for each in faults) + (" (server)" if by_server else " (file)")
            it = Trial(number, there, random)
            try:
                return f"right  {what}: {it.run(faults)}"
            except Exception as error:  # noqa: BLE001 - any is a finding, and the next trial is to come.
                kinds.heal(there)
                detail = "\n".join(
                    f"  | {line}" for text in it.error_texts for line in text.splitlines()[-25:]
                )
                return f"wrong  {what}: {type(error).__name__}: {error}\n{detail}"


def probe() -> Path:
    """Return the probe that is copied to the hosts."""
    return Path(os.environ.get("OSCOPE_PROBE") or ROOT / "target" / "release" / "oscope-probe")


def call_init(made: fleet_hosts.Fleet) -> None:
    """Write the file of hosts where the controller's commands are called."""
    command = made.commands(probe())
    if not (command.folder / "fleet.toml").exists():
        answer = command("fleet", "init", *HOSTS)
        if answer.code:
            raise RuntimeError(answer.err)


def main() -> int:
    """Carry out the trials, print each, and return 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--trials", type=int, default=60, metavar="N", help="trials (default 60)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first (default 0)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(each.name for each in kinds.FAULTS), help="one kind alone")
    options = parser.parse_args()
    if not os.environ.get(INSIDE):
        # Shared, so that the hosts' own namespaces see what is mounted later.
        mount = 'mount --make-rshared / && exec "$@"'
        own = ["unshare", "--mount", "--", "sh", "-c", mount, "sh", sys.executable, *sys.argv]
        return subprocess.run(own, env={**os.environ, INSIDE: "1"}, check=False).returncode
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oscope-faults-")))
        server = stack.enter_context(kinds.running_server())
        made = stack.enter_context(fleet_hosts.fleet(folder, HOSTS))
        for host in made.hosts:
            host.start()
        call_init(made)
        for number in range(options.first, options.first + options.trials):
            begun = time.monotonic()
            text = trial(number, options.seed, options.only, made, server)
            counts[text.split()[0]] += 1
            print(f"{number:>3} {time.monotonic() - begun:>4.0f} s  {text}", flush=True)
    print(f"seed {options.seed}: {counts['right']} of {options.trials} trials are right")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
