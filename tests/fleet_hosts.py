"""Hosts of a fleet for tests: network namespaces with an sshd each, and one for the controller.

Nothing of the machine's own network is touched, and the kernel takes all away with the processes.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli_driver import Answer, CommandLine
from ssh_server import CHEAP, SSHD, privilege_separation
from waiting import wait_until

LIMIT_S = 60.0
_GUARD = ("setpriv", "--pdeathsig", "KILL", "--")


@dataclass
class FleetHost:
    """A host with its own network, state folders and sshd."""

    name: str
    folder: Path
    address: str
    namespace: subprocess.Popen[bytes]
    sshd: subprocess.Popen[bytes] | None = None

    @property
    def cache(self) -> Path:
        """Where the probe is copied to."""
        return self.folder / "cache"

    def start(self, wrapped: Sequence[str] = (), **variables: str) -> None:
        """Start the sshd, by the program `wrapped` if one is named; `variables` are of its logins."""
        own = {"XDG_CACHE_HOME": str(self.cache), "OSCOPE_STATE": str(self.folder / "state"), **variables}
        settings = self.folder / "sshd_config"
        text = (self.folder / "sshd_base").read_text()
        settings.write_text(text + "SetEnv " + " ".join(f"{k}={v}" for k, v in own.items()) + "\n")
        with (self.folder / "sshd.log").open("ab") as log:
            self.sshd = subprocess.Popen(
                [
                    *(*_GUARD, *_inside(self.namespace.pid), *wrapped, *self._own_home()),
                    *(SSHD, "-D", "-e", "-f", settings),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._listens, f"the sshd of {self.name}", limit_s=LIMIT_S)

    def _own_home(self) -> list[str]:
        """Return a program that starts another with an empty home folder.

        What the files of a real one begin at each login, such as programs that hold a lock, would be killed
        by `cut` at any moment.
        """
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        cover = f'mount --bind {home} {pwd.getpwuid(0).pw_dir} && exec "$@"'
        return ["unshare", "--mount", "--propagation", "slave", "--", "sh", "-c", cover, "sh"]

    def _listens(self) -> bool:
        lines = Path(f"/proc/{self.namespace.pid}/net/tcp").read_text().splitlines()[1:]
        return any(row[1].endswith(":0016") and row[3] == "0A" for row in map(str.split, lines))

    def cut(self) -> None:
        """End every connection at once; new ones are taken."""
        assert self.sshd is not None
        for pid in below(self.sshd.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the sshd and all its connections."""
        if self.sshd is not None:
            self.cut()
            self.sshd.kill()
            self.sshd.wait(LIMIT_S)
            self.sshd = None

    def probes(self) -> list[int]:
        """Return the processes of the probe there."""
        found = []
        for path in Path("/proc").glob("[0-9]*/exe"):
            with contextlib.suppress(OSError):
                if str(path.readlink()).startswith(str(self.cache)):
                    found.append(int(path.parent.name))
        return found

    def is_quiet(self) -> None:
        """Wait until no probe runs there."""
        wait_until(lambda: not self.probes(), f"the end of the probes on {self.name}", limit_s=LIMIT_S)


@dataclass
class Fleet:
    """The hosts, and the controller that reaches them."""

    hosts: list[FleetHost]
    controller: subprocess.Popen[bytes]
    config: Path
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def commands(self, probe: Path) -> CommandLine:
        """Return `oscope` as the controller calls it, in a folder with a store of its own."""
        home = self.folder / "controller"
        home.mkdir(exist_ok=True)
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        # ssh takes the user's own configuration from the home folder in the user database alone.
        wrapper = programs / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.config} "$@"\n')
        wrapper.chmod(0o755)
        return CommandLine(
            home,
            {
                "OSCOPE_PROBE": str(probe),
                "OSCOPE_STORE": str(home / "fleet.db"),
                "OSCOPE_STATE": str(home / "state"),
                "PATH": f"{programs}:{os.environ['PATH']}",
                **self.variables,
            },
            prefix=tuple(_inside(self.controller.pid)),
        )

    def call(self, probe: Path, *words: str) -> Answer:
        """Carry out `oscope WORDS` as the controller."""
        return self.commands(probe)(*words)


@contextlib.contextmanager
def fleet(folder: Path, names: Sequence[str]) -> Iterator[Fleet]:
    """Give so many hosts, whose sshd are not started yet. Root only."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(privilege_separation())
        controller = stack.enter_context(_namespace())
        for key in ("host", "user"):
            _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
        hosts = []
        for number, name in enumerate(names, 1):
            namespace = stack.enter_context(_namespace())
            _link(controller.pid, namespace.pid, number)
            host = FleetHost(name, folder / name, f"10.77.{number}.2", namespace)
            host.folder.mkdir()
            (host.folder / "sshd_base").write_text(
                f"Port 22\nListenAddress {host.address}\nHostKey {folder / 'host'}\nPidFile none\nUsePAM no\n"
                f"AuthorizedKeysFile {folder / 'user.pub'}\nStrictModes no\n"
                "PermitRootLogin prohibit-password\nPasswordAuthentication no\n"
                f"KbdInteractiveAuthentication no\nMaxStartups 100\n{CHEAP}"
            )
            stack.callback(host.stop)
            hosts.append(host)
        config = folder / "ssh_config"
        known = folder / "known"
        public = (folder / "host.pub").read_text()
        known.write_text("".join(f"{host.address} {public}" for host in hosts))
        config.write_text(
            "".join(f"Host {host.name}\n  HostName {host.address}\n" for host in hosts)
            + f"Host *\n  User root\n  IdentityFile {folder / 'user'}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n"
        )
        yield Fleet(hosts, controller, config, folder)


@contextlib.contextmanager
def _namespace() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*_GUARD, "unshare", "--net", "sleep", "infinity"], start_new_session=True)
    own = Path("/proc/self/ns/net").readlink()
    try:
        wait_until(
            lambda: (
                Path(f"/proc/{process.pid}/ns/net").readlink() != own
                and Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n"
            ),
            "a network namespace",
            process,
            limit_s=LIMIT_S,
        )
        _call(*_inside(process.pid), "ip", "link", "set", "lo", "up")
        yield process
    finally:
        process.kill()
        process.wait(LIMIT_S)


def _link(controller: int, host: int, number: int) -> None:
    inside = _inside(controller)
    _call(
        *inside,
        "ip",
        "link",
        "add",
        f"to{number}",
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        str(host),
    )
    _call(*inside, "ip", "address", "add", f"10.77.{number}.1/30", "dev", f"to{number}")
    _call(*inside, "ip", "link", "set", f"to{number}", "up")
    _call(*_inside(host), "ip", "address", "add", f"10.77.{number}.2/30", "dev", "eth0")
    _call(*_inside(host), "ip", "link", "set", "eth0", "up")


def _inside(pid: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]


def _call(*words: str) -> None:
    subprocess.run(words, check=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)


def below(pid: int) -> list[int]:
    """Return the processes that a process has begun, and those that these have."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *below(child)]
    return found


def slow_calls(instructions: int) -> list[str]:
    """Return a program that starts another under a system-call filter of so many instructions (seccomp(2)).

    The filter lets everything through; it looks at an argument, so that the kernel cannot know that before.
    A container's engine installs such filters.
    """
    return [sys.executable, str(Path(__file__).with_name("call_filter.py")), str(instructions)]
