"""The faults of a fleet's engine: what each does, and how all is restored."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import fleet_hosts
from cli_driver import CommandLine
from fleet_content import Rows
from postgresql_server import PostgreSQL

ROUNDS = 3
PARALLEL = 2
ADDRESS = "tcp://127.0.0.1:8786"
DISK = "16m"
"""Size of the file system of the spool and of a store that is a file."""
FULL_DISK_COPY = "1m"
"""Of a host's cache folder that has no room for the probe."""
MINUTE_SHARE = 0.1
"""Share of the database's absences that last a minute."""


@dataclass
class Scene:
    """What the faults of a trial act on."""

    folder: Path
    network: fleet_hosts.Fleet
    server: PostgreSQL
    oscope: CommandLine
    disk: Path
    with_scheduler: bool
    command: subprocess.Popen[str] | None = None
    dask: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """The scheduler, and its workers."""
    undo: list[Callable[[], None]] = field(default_factory=list)
    frozen: bool = False
    """Whether the database does not answer."""

    def spools(self) -> list[Path]:
        """Return the spools that there are, of the command and of workers."""
        return sorted((self.disk / "data" / "oscope" / "spool").glob("*/*.db"))

    def places(self) -> list[str]:
        """Return where samples may be: the spools, and a store that answers."""
        own = self.oscope.environment["OSCOPE_STORE"]
        away = "://" in own and (self.server.process is None or self.frozen)
        return [*map(str, self.spools()), *([] if away else [own])]


Act = Callable[[Scene, np.random.Generator], None]


@dataclass(frozen=True)
class Fault:
    """A kind of fault."""

    name: str
    act: Act
    needs_server: bool = False
    needs_workers: bool = False


def _host(scene: Scene, random: np.random.Generator) -> fleet_hosts.FleetHost:
    return scene.network.hosts[int(random.integers(len(scene.network.hosts)))]


def _absence(random: np.random.Generator) -> float:
    return 60.0 if random.random() < MINUTE_SHARE else float(random.uniform(0.5, 10))


def _cut(scene: Scene, random: np.random.Generator) -> None:
    for _ in range(int(random.integers(1, 4))):
        host = _host(scene, random)
        if host.sshd is not None:
            host.cut()
        time.sleep(float(random.uniform(0, 1)))


def _reboot(scene: Scene, random: np.random.Generator) -> None:
    host = _host(scene, random)
    host.stop()
    time.sleep(float(random.uniform(0.5, 8)))
    # Its sshd sees another boot: the file of the boot's id is covered.
    text = orjson.dumps(random.integers(0, 256, 16).tolist()).hex()[:32]
    path = scene.network.folder / f"boot-{host.name}"
    path.write_text(f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:32]}\n")
    cover = f'mount --bind {path} /proc/sys/kernel/random/boot_id && exec "$@"'
    host.start(("unshare", "--mount", "--propagation", "slave", "--", "sh", "-c", cover, "sh"))


def _go(scene: Scene, random: np.random.Generator) -> None:
    _host(scene, random).stop()


def _link_down(scene: Scene, random: np.random.Generator) -> None:
    number = int(random.integers(len(scene.network.hosts))) + 1
    _set_link(scene, number, "down")
    scene.undo.append(lambda: _set_link(scene, number, "up"))
    time.sleep(float(random.uniform(1, 20)))
    _set_link(scene, number, "up")
    scene.undo.pop()


def _set_link(scene: Scene, number: int, state: str) -> None:
    words = [*scene.oscope.prefix, "ip", "link", "set", f"to{number}", state]
    subprocess.run(words, check=True, timeout=fleet_hosts.LIMIT_S)


def _change_key(scene: Scene, random: np.random.Generator) -> None:
    host = _host(scene, random)
    base = host.folder / "sshd_base"
    text, other = base.read_text(), host.folder / "other"
    for path in (other, Path(f"{other}.pub")):
        path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    base.write_text(text.replace(f"HostKey {scene.network.folder / 'host'}", f"HostKey {other}"))

    def restore() -> None:
        base.write_text(text)
        host.stop()

    scene.undo.append(restore)
    host.stop()
    host.start()


def _fill_host(scene: Scene, random: np.random.Generator) -> None:
    host = _host(scene, random)
    host.cache.mkdir(exist_ok=True)
    _mount(host.cache, FULL_DISK_COPY)
    scene.undo.append(lambda: _unmount(host.cache))
    if host.sshd is not None:
        host.cut()
    if random.random() < 0.7:
        time.sleep(float(random.uniform(1, 8)))
        scene.undo.pop()()


def _kill(scene: Scene, _: np.random.Generator) -> None:
    assert scene.command is not None
    scene.command.send_signal(signal.SIGKILL)


def _interrupt(scene: Scene, _: np.random.Generator) -> None:
    assert scene.command is not None
    scene.command.send_signal(signal.SIGINT)


def _stop_server(scene: Scene, random: np.random.Generator) -> None:
    scene.server.stop()
    time.sleep(_absence(random))
    scene.server.start()


def _freeze_server(scene: Scene, random: np.random.Generator) -> None:
    assert scene.server.process is not None
    frozen = [scene.server.process.pid, *fleet_hosts.below(scene.server.process.pid)]
    _signal(frozen, signal.SIGSTOP)
    scene.frozen = True
    try:
        time.sleep(_absence(random))
    finally:
        _signal(frozen, signal.SIGCONT)
        scene.frozen = False


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_worker(scene: Scene, _: np.random.Generator) -> None:
    scene.dask[1].kill()


def _kill_scheduler(scene: Scene, _: np.random.Generator) -> None:
    scene.dask[0].kill()


def _fill_disk(scene: Scene, random: np.random.Generator) -> None:
    ballast = scene.disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    if random.random() < 0.5:
        time.sleep(float(random.uniform(0.5, 6)))
        ballast.unlink(missing_ok=True)


FAULTS = (
    Fault("ssh cut", _cut),
    Fault("host rebooted", _reboot),
    Fault("host gone", _go),
    Fault("link down", _link_down),
    Fault("host key changed", _change_key),
    Fault("host's disk full", _fill_host),
    Fault("controller killed", _kill),
    Fault("controller interrupted", _interrupt),
    Fault("database stopped", _stop_server, needs_server=True),
    Fault("database frozen", _freeze_server, needs_server=True),
    Fault("controller's disk full", _fill_disk),
    Fault("worker killed", _kill_worker, needs_workers=True),
    Fault("scheduler killed", _kill_scheduler, needs_workers=True),
)


def draw(random: np.random.Generator, number: int, only: str | None) -> list[Fault]:
    """Return the faults of a trial: kinds in turn, and another of any kind in half of the trials."""
    named = [each for each in FAULTS if each.name == only]
    first = named[0] if named else FAULTS[number % len(FAULTS)]
    if named or random.random() < 0.5:
        return [first]
    others = [first, FAULTS[int(random.integers(len(FAULTS)))]]
    return [others[int(place)] for place in random.permutation(2)]


@contextlib.contextmanager
def scene(
    folder: Path,
    network: fleet_hosts.Fleet,
    server: PostgreSQL,
    probe: Path,
    *,
    by_server: bool,
    scheduler: bool,
) -> Iterator[Scene]:
    """Give a small disk of its own for the spool and the store, and an empty database."""
    disk = folder / "disk"
    disk.mkdir()
    _mount(disk, DISK)
    try:
        made = network.commands(probe)
        store = server.database() if by_server else str(disk / "store.db")
        own = {"OSCOPE_STORE": store, "XDG_DATA_HOME": str(disk / "data")}
        command = CommandLine(made.folder, made.environment | own, made.prefix)
        yield Scene(folder, network, server, command, disk, scheduler)
    finally:
        _unmount(disk)


@contextlib.contextmanager
def workers(scene: Scene) -> Iterator[str | None]:
    """Run a Dask scheduler with two workers, if the trial is to have them."""
    if scene.with_scheduler:
        _start_dask(scene)
    try:
        yield ADDRESS if scene.with_scheduler else None
    finally:
        _stop_dask(scene)


def _start_dask(scene: Scene) -> None:
    dask = [*scene.oscope.prefix, sys.executable, "-m", "dask"]
    worker = [*dask, "worker", ADDRESS, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    for command in ([*dask, "scheduler", "--host", "127.0.0.1", "--no-dashboard"], worker, worker):
        scene.dask.append(
            subprocess.Popen(
                command,
                cwd=scene.oscope.folder,
                env=scene.oscope.all_variables({}),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )


def _stop_dask(scene: Scene) -> None:
    for process in scene.dask:
        process.kill()
        process.wait()
    scene.dask.clear()


def heal(scene: Scene) -> None:
    """Restore all that the faults left: hosts, links, the server, workers, disks."""
    while scene.undo:
        scene.undo.pop()()
    if scene.server.process is None:
        scene.server.start()
    (scene.disk / "ballast").unlink(missing_ok=True)
    for host in scene.network.hosts:
        if host.sshd is None:
            host.start()
    if any(process.poll() is not None for process in scene.dask):
        _stop_dask(scene)
        _start_dask(scene)


def _mount(folder: Path, size: str) -> None:
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "oscope-faults", str(folder)]
    subprocess.run(words, check=True, timeout=fleet_hosts.LIMIT_S)


def _unmount(folder: Path) -> None:
    # Lazily: what still uses it, as a process that is about to end, keeps it until then.
    subprocess.run(["umount", "--lazy", folder], check=True, timeout=fleet_hosts.LIMIT_S)


@contextlib.contextmanager
def running_server() -> Iterator[PostgreSQL]:
    """Run a PostgreSQL server."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))
    with tempfile.TemporaryDirectory(prefix="oscope-postgresql-") as folder:
        server = PostgreSQL(programs[-1], Path(folder))
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def fleet_events(parts: Rows) -> list[tuple[str, Any]]:
    """Return, of a run's events about its fleet, the kind and the host's name or the round's number."""
    found: list[tuple[str, Any]] = []
    for _, kind, data, *_ in parts.get("events", ()):
        if kind == "fleet":
            found.append((kind, orjson.loads(data)["host"]["name"]))
        if kind == "fleet_round":
            found.append((kind, orjson.loads(data)))
    return found
