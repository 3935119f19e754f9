"""DHCP in PPP, PPPoE, VXLAN and BSD loopbacks, and what is seen and not read; the captures are scapy's."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.dhcp6 import DHCP6_Solicit
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import GRE, Dot1Q, Ether, Loopback
from scapy.layers.ppp import HDLC, PPP, PPP_IPCP, PPPoE, PPPoED
from scapy.layers.vxlan import VXLAN
from scapy.utils import PcapNgWriter, PcapWriter

from cli_driver import CommandLine
from dhcp_captures import ADDRESS, START_S, Course, delivered, link, section
from oscope.tools.dhcp import read

pytestmark = pytest.mark.usefixtures("probe")

MACS = {"src": "02:00:5e:aa:00:01", "dst": "02:00:5e:aa:00:02"}
OUTER = Ether(**MACS) / IP(src="198.51.100.1", dst="198.51.100.2")
SOLICIT = IPv6(src="fe80::1", dst="ff02::1:2") / UDP(sport=546, dport=547) / DHCP6_Solicit(trid=7)


def ip_of(packet: Any) -> Any:
    return packet[IP]


def family(order: str, number: int) -> bytes:
    return number.to_bytes(4, "little" if order == "<" else "big")


WRAPPED: dict[str, tuple[int, Callable[[Any], Any], tuple[str, ...]]] = {
    "BSD loopback": (0, lambda packet: Loopback(type=2) / ip_of(packet), ()),
    "BSD loopback of a big-endian host": (0, lambda packet: family(">", 2) + bytes(ip_of(packet)), ()),
    "BSD loopback of a little-endian host": (0, lambda packet: family("<", 2) + bytes(ip_of(packet)), ()),
    "OpenBSD loopback": (108, lambda packet: family(">", 2) + bytes(ip_of(packet)), ()),
    "PPP": (9, lambda packet: PPP(proto=0x21) / ip_of(packet), ()),
    "PPP, compressed protocol": (9, lambda packet: b"\x21" + bytes(ip_of(packet)), ()),
    "PPP with framing": (50, lambda packet: HDLC() / PPP(proto=0x21) / ip_of(packet), ()),
    "PPP with direction": (204, lambda packet: b"\1" + bytes(PPP(proto=0x21) / ip_of(packet)), ()),
    "PPPoE": (
        1,
        lambda packet: Ether(**MACS) / PPPoE(sessionid=5) / PPP(proto=0x21) / ip_of(packet),
        ("PPPoE session 5",),
    ),
    "PPPoE in a VLAN": (
        1,
        lambda packet: Ether(**MACS) / Dot1Q(vlan=9) / PPPoE(sessionid=5) / PPP(proto=0x21) / ip_of(packet),
        ("PPPoE session 5",),
    ),
    "VXLAN": (
        1,
        lambda packet: OUTER / UDP(sport=40000, dport=4789) / VXLAN(vni=42) / bytes(packet),
        ("VXLAN 42",),
    ),
    "VXLAN by Linux's old port": (
        1,
        lambda packet: OUTER / UDP(sport=40000, dport=8472) / VXLAN(vni=42) / bytes(packet),
        ("VXLAN 42",),
    ),
    "VXLAN over IPv6": (
        1,
        lambda packet: Ether(**MACS) / IPv6() / UDP(sport=40000, dport=4789) / VXLAN(vni=42) / bytes(packet),
        ("VXLAN 42",),
    ),
    "VXLAN with a group policy": (
        1,
        lambda packet: (
            OUTER / UDP(sport=40000, dport=4789) / VXLAN(flags="Instance+G", gpid=3, vni=42) / bytes(packet)
        ),
        ("VXLAN 42",),
    ),
    # Scapy makes VXLAN-GPE where it knows what is inside.
    "VXLAN-GPE of Ethernet": (
        1,
        lambda packet: OUTER / UDP(sport=40000, dport=4790) / VXLAN(vni=42) / packet,
        ("VXLAN 42",),
    ),
    "VXLAN-GPE of IPv4": (
        1,
        lambda packet: OUTER / UDP(sport=40000, dport=4790) / VXLAN(vni=42) / ip_of(packet),
        ("VXLAN 42",),
    ),
    "VXLAN in VXLAN": (
        1,
        lambda packet: (
            OUTER
            / UDP(dport=4789, sport=40000)
            / VXLAN(vni=1)
            / OUTER
            / UDP(dport=4789, sport=40001)
            / VXLAN(vni=2)
            / packet
        ),
        ("VXLAN 1", "VXLAN 2"),
    ),
}


def capture(path: Path, packets: list[Any], link_type: int = 1, *, order: str = "<") -> Path:
    """Write packets a second apart as scapy does; they come apart no further than the link layer."""
    with PcapWriter(str(path), linktype=link_type, endianness=order) as writer:
        writer.linktype = link_type
        writer.write_header(None)
        for index, packet in enumerate(packets):
            writer.write_packet(bytes(packet), sec=START_S + index, usec=0)
    return path


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("name", WRAPPED)
def test_dhcp_is_read_in_every_wrapping(name: str, order: str, tmp_path: Path) -> None:
    link_type, wrap, tunnels = WRAPPED[name]
    packets = delivered().packets
    found = read(capture(tmp_path / "wrapped", [wrap(packet) for packet in packets], link_type, order=order))
    plain = read(capture(tmp_path / "plain", packets))
    assert [one.message for one in found.messages] == [one.message for one in plain.messages]
    assert [one.number for one in found.messages] == list(range(1, len(packets) + 1))
    assert [lease.address for lease in found.leases] == [ADDRESS, ADDRESS]
    assert {one.packet.tunnels for one in found.messages} == {tunnels}
    assert {one.problems for one in found.messages} == {()}
    source = found.messages[0].packet.link_source
    if name == "VXLAN-GPE of IPv4":
        assert source is None
    elif name.startswith("VXLAN"):
        assert source is not None
        assert source.hex(":") == link(1)
    elif link_type != 1:
        assert source is None
    assert found.end is not None
    assert (found.end.not_supported, found.end.not_read) == ((), ())


@pytest.mark.parametrize("name", WRAPPED)
def test_pcapng_of_scapy_and_of_both_byte_orders(name: str, tmp_path: Path) -> None:
    link_type, wrap, tunnels = WRAPPED[name]
    frames = [
        (time, bytes(wrap(packet)))
        for (time, _), packet in zip(delivered().frames(), delivered().packets, strict=True)
    ]
    paths = []
    for order in "<>":
        paths.append(tmp_path / f"section{order}")
        paths[-1].write_bytes(section(frames, (link_type,), order=order))
    if link_type == 1:
        paths.append(tmp_path / "scapy")
        with PcapNgWriter(str(paths[-1])) as writer:
            for packet in delivered().packets:
                writer.write(wrap(packet))
    for path in paths:
        found = read(path)
        assert (len(found.messages), len(found.leases)) == (11, 2)
        assert {one.packet.tunnels for one in found.messages} == {tunnels}


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed")
@pytest.mark.parametrize("name", WRAPPED)
def test_what_tcpdump_writes_is_read_too(name: str, tmp_path: Path) -> None:
    link_type, wrap, tunnels = WRAPPED[name]
    packets = [wrap(packet) for packet in delivered().packets]
    made, written = capture(tmp_path / "made", packets, link_type), tmp_path / "written"
    # By its link-layer length: a filter on ports looks into no tunnel.
    words = ["tcpdump", "-nn", "-r", made, "-w", written, "greater 1"]
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    found = read(written)
    assert (len(found.messages), len(found.leases)) == (11, 2)
    assert {one.packet.tunnels for one in found.messages} == {tunnels}


def nested(tunnels: int) -> bytes:
    packet = bytes(delivered().packets[0])
    for _ in range(tunnels):
        packet = bytes(OUTER / UDP(sport=40000, dport=4789) / VXLAN(vni=1) / packet)
    return packet


NOT_SUPPORTED: dict[str, tuple[list[Any], int, str, str]] = {
    "DHCPv6": ([Ether(**MACS) / SOLICIT] * 4, 1, "4 packets of DHCPv6", "only DHCP for IPv4 is read"),
    "DHCPv6 behind extension headers": (
        [Ether(**MACS) / IPv6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment() / SOLICIT[UDP]],
        1,
        "1 packet of DHCPv6",
        "only DHCP for IPv4 is read",
    ),
    "DHCPv6 on a loopback": (
        [family("<", number) + bytes(SOLICIT) for number in (10, 24, 28, 30)],
        0,
        "4 packets of DHCPv6",
        "only DHCP",
    ),
    "DHCPv6 in PPPoE": (
        [Ether(**MACS) / PPPoED(code=9), Ether(**MACS) / PPPoE(sessionid=5) / PPP(proto=0x57) / SOLICIT],
        1,
        "2 packets (1 packet of DHCPv6: not supported)",
        "only DHCP",
    ),
    "DHCPv6, raw": ([SOLICIT] * 2, 101, "2 packets of DHCPv6", "only DHCP"),
    "DHCPv6, IPv6 alone": ([SOLICIT] * 3, 229, "3 packets of DHCPv6", "only DHCP"),
    "DHCPv6 in VXLAN": (
        [OUTER / UDP(dport=4789, sport=40000) / VXLAN(vni=4) / Ether(**MACS) / SOLICIT],
        1,
        "1 packet of DHCPv6",
        "only DHCP",
    ),
    "PPP's own": ([PPP(proto=0x8021) / PPP_IPCP()] * 2, 9, "2 packets of IPCP", "only DHCP"),
    "GRE": ([OUTER / GRE() / delivered().packets[0][IP]] * 3, 1, "3 packets of GRE", "out of the tunnel"),
    "IP in IP": ([OUTER / delivered().packets[0][IP]], 1, "1 packet of IP in IP", "out of the tunnel"),
    "MPLS": (
        [Ether(**MACS, type=0x8847) / (b"\0\0\1\1" + bytes(delivered().packets[0][IP]))],
        1,
        "1 packet of MPLS",
        "out of the tunnel",
    ),
    "VXLAN-GPE of what is not known": (
        [OUTER / UDP(dport=4790, sport=40000) / (b"\x0c\0\0\4\0\0\2\0" + bytes(delivered().packets[0][IP]))],
        1,
        "1 packet of VXLAN of another protocol",
        "out of the tunnel",
    ),
    "several": (
        [Ether(**MACS) / SOLICIT, OUTER / GRE() / IP() / ICMP(), Ether(**MACS) / SOLICIT],
        1,
        "1 packet of GRE: not supported",
        "only DHCP",
    ),
    "more tunnels than anybody has": (
        [nested(9)],
        1,
        "1 packet of tunnels in tunnels",
        "out of the tunnel",
    ),
    "nothing of all that": ([OUTER / TCP()], 1, "in its 1 packet:", "capture while a client asks"),
}


@pytest.mark.parametrize("name", NOT_SUPPORTED)
def test_what_is_seen_and_not_read_is_named_and_counted(name: str, probe: Path, tmp_path: Path) -> None:
    packets, link_type, counted, remedy = NOT_SUPPORTED[name]
    capture(tmp_path / "capture", packets, link_type)
    answer = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})("dhcp", "capture")
    assert (answer.code, answer.out) == (1, "")
    (line,) = answer.err.splitlines()
    assert line.startswith("oscope: capture has no DHCP for IPv4 in its ")
    assert counted in line
    assert remedy in line
    assert ("while a client asks" in line) == (name == "nothing of all that")


def test_beside_dhcp_it_is_noted(probe: Path, tmp_path: Path) -> None:
    course = Course()
    for packet in delivered().packets:
        course.add(0, packet)
    packets = [course.packets[0], *[Ether(**MACS) / SOLICIT] * 4, *course.packets[1:]]
    capture(tmp_path / "capture", packets)
    oscope = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})
    answer = oscope("dhcp", "capture")
    assert answer.code == 0
    assert answer.err == "oscope: capture: 4 packets of DHCPv6: not supported, the first is #2\n"
    reported = json.loads(oscope("dhcp", "capture", "--json").out)
    assert reported["not_supported"] == [{"what": "DHCPv6", "packets": 4, "first": 2}]
    assert reported["messages"][0]["tunnels"] == []


def test_a_link_type_that_is_not_read_has_its_name(probe: Path, tmp_path: Path) -> None:
    capture(tmp_path / "capture", [b"\0" * 60], 105)
    answer = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})("dhcp", "capture")
    assert "capture has link type 105 (IEEE 802.11), which is not read" in answer.err


def test_as_many_tunnels_as_are_read(tmp_path: Path) -> None:
    (one,) = read(capture(tmp_path / "capture", [nested(8)])).messages
    assert (one.kind, one.packet.tunnels) == ("DISCOVER", ("VXLAN 1",) * 8)


def test_cut_short_anywhere_nothing_is_invented(tmp_path: Path) -> None:
    for link_type, wrap, _ in WRAPPED.values():
        whole = bytes(wrap(delivered().packets[0]))
        packets = [whole, *(whole[:length] for length in range(len(whole)))]
        found = read(capture(tmp_path / "capture", packets, link_type))
        kinds = {one.kind for one in found.messages}
        assert kinds <= {"DISCOVER", None, "BOOTP"}


# ---- standard input


def piped(folder: Path, probe: Path, content: bytes, *words: str) -> tuple[int, str, str]:
    oscope = CommandLine(folder, {"OSCOPE_PROBE": str(probe)})
    done = oscope.start("dhcp", "-", *words, stdin=subprocess.PIPE)
    assert done.stdin is not None
    done.stdin.buffer.write(content)
    out, err = done.communicate(timeout=240)
    return done.returncode, out, err


def test_a_pipe_is_read_as_a_file_is(probe: Path, tmp_path: Path) -> None:
    path = capture(tmp_path / "capture", delivered().packets)
    code, out, err = piped(tmp_path, probe, path.read_bytes())
    assert (code, err) == (0, "")
    assert out == CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})("dhcp", "capture").out
    reported = json.loads(piped(tmp_path, probe, path.read_bytes(), "--json")[1])
    assert (reported["file"], len(reported["messages"])) == ("-", 11)


def test_a_long_pipe_is_read_to_its_end(probe: Path, tmp_path: Path) -> None:
    others = [OUTER / TCP() / bytes(60_000)] * 400
    path = capture(tmp_path / "capture", [*others, *delivered().packets])
    code, out, err = piped(tmp_path, probe, path.read_bytes())
    assert (code, err) == (0, "")
    assert out.startswith("11 DHCP messages in 411 packets")


def test_what_is_wrong_with_standard_input_is_one_line(probe: Path, tmp_path: Path) -> None:
    whole = capture(tmp_path / "capture", delivered().packets).read_bytes()
    for content, words in (
        (b"", "oscope: standard input is empty: give a file"),
        (b"a text that is no capture", "oscope: standard input is no packet capture"),
        (whole[:-7], "oscope: standard input is cut within packet 11"),
    ):
        code, _, err = piped(tmp_path, probe, content)
        assert code == 1
        (line,) = err.splitlines()
        assert line.startswith(words)


def test_a_closed_standard_input_and_a_terminal_are_one_line(probe: Path, tmp_path: Path) -> None:
    environment = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)}).all_variables({})
    command = [sys.executable, "-m", "oscope", "dhcp", "-"]
    closed = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *command],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    master, slave = pty.openpty()
    try:
        terminal = subprocess.run(
            command,
            env=environment,
            cwd=tmp_path,
            stdin=slave,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    finally:
        os.close(master)
        os.close(slave)
    remedy = "pipe a capture into it: tcpdump -w - | oscope dhcp -"
    for answer, what in ((closed, "closed"), (terminal, "a terminal")):
        assert (answer.returncode, answer.stdout) == (1, "")
        assert answer.stderr == f"oscope: standard input is {what}: {remedy}\n"


def test_a_file_named_like_standard_input(probe: Path, tmp_path: Path) -> None:
    capture(tmp_path / "-", delivered().packets)
    answer = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})("dhcp", "./-")
    assert answer.code == 0
    assert answer.out.startswith("11 DHCP messages in 11 packets")
