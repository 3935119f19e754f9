"""The DHCP lab, played once for all tests, and what scapy reads in its captures."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.dhcp import BOOTP, DHCP, DHCPTypes
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from cli_driver import CommandLine

SCENARIOS = ("lease", "renew", "t1", "release", "lost")
ENDS = ("client", "server")
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
    told: dict[str, Any]

    def scenario(self, name: str) -> dict[str, Any]:
        """Return what is told of a scenario."""
        (found,) = (one for one in self.told["scenarios"] if one["name"] == name)
        return dict(found)

    def frames(self, scenario: str, end: str) -> Frames:
        """Return the packets of a capture, with their times."""
        path = str(self.folder / f"{scenario}-{end}.pcap")
        with RawPcapReader(path) as packets:
            return [(meta.sec + meta.usec / 10**6, frame) for frame, meta in packets]


def needs_lab() -> None:
    """Skip the test, and say why, where the lab cannot be played."""
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces")
    for program in ("dnsmasq", "busybox", "tcpdump", "ip", "bridge", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="session")
def played(real_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Play all scenarios, which takes 130 s."""
    needs_lab()
    folder = tmp_path_factory.mktemp("dhcp-lab")
    answer = CommandLine(folder, {"OSCOPE_PROBE": str(real_probe)})("dhcp", "lab", "-o", "kept", "--json")
    assert answer.code == 0, answer.err
    return Lab(folder / "kept", json.loads(answer.out))


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
