"""The DHCP lab, played once for all tests, and what scapy reads in its captures."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.dhcp import BOOTP, DHCP, DHCPTypes
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from cli_driver import CommandLine
from waiting import wait_until

SCENARIOS = ("lease", "renew", "t1", "release", "lost")
ENDS = ("client", "server")
PROGRAMS = ("dnsmasq", "busybox", "tcpdump", "ip", "bridge", "unshare")
PLAY = '"$1" -m oscope dhcp lab -o kept --json >out 2>err; echo $? >ended; mv ended code'
LIMIT_S = 280.0
"""Below the time limit of a test."""
Frames = list[tuple[float, bytes]]


@dataclass(frozen=True)
class Record:
    """A DHCP message as scapy reads it."""

    number: int
    time_us: int
    kind: str | None
    client: bytes
    is_from_client: bool
    has_link: bool
    """Whether the capture tells who sent it."""
    yiaddr: str | None
    ciaddr: str | None
    lease_s: int | None


@dataclass(frozen=True)
class Lab:
    """What a run of the lab left."""

    folder: Path
    reported: dict[str, Any]

    def scenario(self, name: str) -> dict[str, Any]:
        """Return what is told of a scenario."""
        (found,) = (one for one in self.reported["scenarios"] if one["name"] == name)
        return dict(found)

    def frames(self, scenario: str, end: str) -> Frames:
        """Return the packets of a capture, with their times."""
        path = str(self.folder / f"{scenario}-{end}.pcap")
        with RawPcapReader(path) as packets:
            return [(meta.sec + meta.usec / 10**6, frame) for frame, meta in packets]


def lack() -> str | None:
    """Say what keeps the lab from being played here, if something does."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{absent[0]} is not installed" if absent else None


def needs_lab() -> None:
    """Skip the test, and say why, where the lab cannot be played."""
    if reason := lack():
        pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def _begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Begin to play if a test will ask: leases take their time to end, while other tests run.

    The workers of pytest-xdist share what is played: the first one begins.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "dhcp-lab"
    asked = any("played" in getattr(item, "fixturenames", ()) for item in request.session.items)
    if asked and lack() is None:
        probe = request.getfixturevalue("real_probe")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            subprocess.Popen(
                ["sh", "-c", PLAY, "sh", sys.executable],
                cwd=folder,
                env=CommandLine(folder).all_variables({"OSCOPE_PROBE": str(probe)}),
                stdin=subprocess.DEVNULL,
            )
    return folder


@pytest.fixture(scope="session")
def played(_begun: Path) -> Lab:
    """Return the lab once all its scenarios are played, which takes 130 s from the first test on."""
    needs_lab()
    wait_until((_begun / "code").exists, "the end of the DHCP lab", limit_s=LIMIT_S)
    assert (_begun / "code").read_text() == "0\n", (_begun / "err").read_text()
    return Lab(_begun / "kept", json.loads((_begun / "out").read_text()))


def records(frames: Sequence[tuple[float, bytes]]) -> list[Record]:
    """Return the DHCP messages among packets."""
    found = []
    for index, (time, frame) in enumerate(frames):
        packet = Ether(frame)
        if DHCP not in packet:
            continue
        bootp = packet[BOOTP]
        options = {option[0]: option[1] for option in packet[DHCP].options if isinstance(option, tuple)}
        found.append(
            Record(
                number=index + 1,
                time_us=round(time * 10**6),
                kind=DHCPTypes[options["message-type"]].upper(),
                client=bootp.chaddr[:6],
                is_from_client=bootp.op == 1,
                has_link=True,
                yiaddr=bootp.yiaddr,
                ciaddr=bootp.ciaddr,
                lease_s=options.get("lease_time"),
            )
        )
    return found
