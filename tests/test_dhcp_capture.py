"""Captures in all wrappings, and damaged ones; what scapy and tcpdump make of them is compared."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.dhcp import BOOTP, DHCP, DHCPTypes
from scapy.utils import PcapReader

from cli_driver import CommandLine
from dhcp_captures import ADDRESS, Course, block, delivered, dropped, lease, link, pcap, section, write
from oscope.model.errors import OscopeError
from oscope.tools.dhcp import Conversation, read
from oscope.tools.dhcp.message import parse

pytestmark = pytest.mark.usefixtures("probe")

Frames = list[tuple[float, bytes]]
KINDS = [
    "DISCOVER",
    "OFFER",
    "REQUEST",
    "ACK",
    "REQUEST",
    "ACK",
    "RELEASE",
    "DISCOVER",
    "OFFER",
    "REQUEST",
    "ACK",
]


def tagged(*tags: tuple[int, int]) -> Callable[[bytes], bytes]:
    """Return a function that puts VLAN tags (type, number) into an Ethernet frame."""
    added = b"".join(struct.pack(">HH", *tag) for tag in tags)
    return lambda frame: frame[:12] + added + frame[12:]


def with_ip_options(frame: bytes) -> bytes:
    head = bytearray(frame[14:34])
    head[0] = 0x46
    head[2:4] = struct.pack(">H", struct.unpack(">H", head[2:4])[0] + 4)
    return frame[:14] + bytes(head) + b"\x94\x04\0\0" + frame[34:]


def cooked(frame: bytes) -> bytes:
    return struct.pack(">HHH", 0, 1, 6) + frame[6:12] + b"\0\0" + frame[12:]


def cooked_2(frame: bytes) -> bytes:
    return frame[12:14] + struct.pack(">HIHBB", 0, 3, 1, 0, 6) + frame[6:12] + b"\0\0" + frame[14:]


WRAPPINGS: dict[str, Callable[[Frames], bytes]] = {
    "big-endian": lambda frames: pcap(frames, order=">"),
    "nanoseconds": lambda frames: pcap(frames, magic=0xA1B23C4D),
    "pcapng": section,
    "pcapng, big-endian": lambda frames: section(frames, order=">"),
    "pcapng, sections of both orders": lambda frames: section(frames[:5]) + section(frames[5:], order=">"),
    "pcapng, two interfaces": lambda frames: section(frames, (1, 1)),
    "VLAN": lambda frames: pcap([(time, tagged((0x8100, 5))(frame)) for time, frame in frames]),
    "stacked VLANs": lambda frames: pcap(
        [(time, tagged((0x88A8, 5), (0x8100, 6))(frame)) for time, frame in frames]
    ),
    "IPv4 options": lambda frames: pcap([(time, with_ip_options(frame)) for time, frame in frames]),
    "cooked": lambda frames: pcap([(time, cooked(frame)) for time, frame in frames], 113),
    "cooked v2": lambda frames: pcap([(time, cooked_2(frame)) for time, frame in frames], 276),
    "raw IP": lambda frames: pcap([(time, frame[14:]) for time, frame in frames], 101),
    "padded": lambda frames: pcap([(time, frame + b"\xff" * 30) for time, frame in frames]),
}


@pytest.mark.parametrize("name", WRAPPINGS)
def test_every_wrapping_has_the_same_conversation(name: str, tmp_path: Path) -> None:
    plain = read(write(tmp_path / "plain", delivered()))
    found = read(write(tmp_path / "wrapped", WRAPPINGS[name](delivered().frames())))
    assert [one.kind for one in found.messages] == KINDS
    assert [one.message for one in found.messages] == [one.message for one in plain.messages]
    assert [one.packet.time_ns for one in found.messages] == [one.packet.time_ns for one in plain.messages]
    assert [one.problems for one in found.messages] == [()] * len(KINDS)
    assert [(lease.client, lease.address) for lease in found.leases] == [(0, ADDRESS), (1, ADDRESS)]
    tags = {"VLAN": (5,), "stacked VLANs": (5, 6)}.get(name, ())
    assert {one.packet.vlans for one in found.messages} == {tags}
    source = found.messages[0].packet.link_source
    assert (source.hex(":") if source else None) == (None if name == "raw IP" else link(1))


def test_scapy_reads_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "capture", dropped())
    found = read(path)
    with PcapReader(str(path)) as packets:
        for one, packet in zip(found.messages, packets, strict=True):
            bootp = packet[BOOTP]
            options = {option[0]: option[1] for option in packet[DHCP].options if isinstance(option, tuple)}
            assert one.kind == DHCPTypes[options["message-type"]].upper()
            message = one.message
            assert (message.ciaddr, message.yiaddr, message.siaddr, message.giaddr) == (
                bootp.ciaddr,
                bootp.yiaddr,
                bootp.siaddr,
                bootp.giaddr,
            )
            assert message.transaction == bootp.xid
            assert message.client_address == bootp.chaddr[:6]
            assert message.server == options.get("server_id")
            assert message.requested == options.get("requested_addr")
            assert message.lease_s == options.get("lease_time")


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed")
def test_tcpdump_numbers_the_same_packets(tmp_path: Path) -> None:
    frames = delivered().frames()
    other = bytearray(frames[0][1])
    other[34:38] = struct.pack(">HH", 1000, 2000)
    mixed: Frames = []
    for frame in frames:
        mixed += [(frame[0], bytes(other))] * 3 + [frame]
    path = write(tmp_path / "capture", pcap(mixed))
    reported = subprocess.run(
        ["tcpdump", "--number", "-nn", "-r", path],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    lines = [line.split()[0] for line in reported.splitlines() if "BOOTP/DHCP" in line]
    assert [one.number for one in read(path).messages] == [int(number) for number in lines]


def frame_of(index: int) -> bytearray:
    return bytearray(delivered().frames()[index][1])


def altered(index: int, at: int, value: bytes) -> bytes:
    """Return the capture with some bytes of a packet replaced."""
    frames = delivered().frames()
    frame = bytearray(frames[index][1])
    frame[at : at + len(value)] = value
    frames[index] = (frames[index][0], bytes(frame))
    return pcap(frames)


def shortened(index: int, length: int) -> bytes:
    """Return the capture with a packet of which only so many bytes were captured."""
    whole = pcap(delivered().frames())
    at = 24
    for _ in range(index):
        at += 16 + struct.unpack_from("<I", whole, at + 8)[0]
    captured = struct.unpack_from("<I", whole, at + 8)[0]
    record = bytearray(whole[at : at + 16])
    record[8:12] = struct.pack("<I", length)
    return whole[:at] + bytes(record) + whole[at + 16 : at + 16 + length] + whole[at + 16 + captured :]


COOKIE = 14 + 20 + 8 + 236
DAMAGES: dict[str, tuple[bytes, list[str | None], str]] = {
    "no cookie": (altered(0, COOKIE, b"\0\0\0\0"), ["BOOTP", *KINDS[1:]], "no magic cookie"),
    "unknown type": (altered(0, COOKIE + 6, b"\x63"), ["type 99", *KINDS[1:]], ""),
    "type of two bytes": (
        altered(0, COOKIE + 5, b"\x02"),
        [None, *KINDS[1:]],
        "option 53 has 2 bytes, not 1",
    ),
    "option too long": (altered(0, COOKIE + 8, b"\xff"), KINDS, "runs over the end"),
    "no end": (altered(0, COOKIE + 4 + 3 + 9, b"\x00"), KINDS, "options without an end"),
    "operation": (altered(0, 42, b"\x07"), KINDS, "operation 7 is neither 1 nor 2"),
    "wrong operation": (altered(1, 42, b"\x01"), KINDS, "OFFER with operation 1"),
    "address too long": (altered(0, 44, b"\xff"), KINDS, "a link-layer address of 255 bytes"),
    "first fragment": (altered(0, 20, b"\x20"), KINDS, "first fragment, not put together"),
    "later fragment": (altered(0, 21, b"\x01"), KINDS[1:], ""),
    "UDP too long": (altered(0, 38, b"\x7f\xff"), KINDS, "bytes shorter than it says"),
    "UDP too short": (altered(0, 38, b"\x00\x03"), [None, *KINDS[1:]], "0 bytes are too few"),
    "IP too long": (altered(0, 16, b"\x7f\xff"), KINDS, ""),
    "IP without length": (altered(0, 16, b"\0\0"), KINDS, ""),
    "IP header too short": (altered(0, 14, b"\x41"), KINDS[1:], ""),
    "IP version": (altered(0, 14, b"\x95"), KINDS[1:], ""),
    "cut in the link layer": (shortened(0, 9), KINDS[1:], ""),
    "cut in IP": (shortened(0, 25), KINDS[1:], ""),
    "cut in the ports": (shortened(0, 36), KINDS[1:], ""),
    "cut in UDP": (shortened(0, 40), [None, *KINDS[1:]], "cut by the capture: 40 of"),
    "cut in the fixed part": (shortened(0, 100), [None, *KINDS[1:]], "cut by the capture: 100 of"),
    "cut before the type": (shortened(0, COOKIE + 4), [None, *KINDS[1:]], "cut by the capture"),
    "cut behind the type": (shortened(0, COOKIE + 8), KINDS, "cut by the capture"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_told_and_the_rest_is_read(name: str, tmp_path: Path) -> None:
    content, kinds, problem = DAMAGES[name]
    found: Conversation = read(write(tmp_path / "capture", content))
    assert [one.kind for one in found.messages] == kinds
    assert len(found.leases) == 2
    reported = "; ".join(found.messages[1 if name == "wrong operation" else 0].problems)
    assert problem in reported
    if len(kinds) < len(KINDS):
        assert found.end is not None
        understood = {one.first for one in found.end.not_read}
        assert understood == (set() if name == "later fragment" else {1})


def test_options_overflow_into_file_and_name() -> None:
    payload = bytearray(bytes(BOOTP(op=1, chaddr=b"\2\0\0\0\0\1")))
    payload += b"\x63\x82\x53\x63" + bytes([52, 1, 3, 53, 1, 3, 12, 2]) + b"ab" + b"\xff"
    payload[108:114] = bytes([12, 2]) + b"cd" + b"\xff\0"
    payload[44:51] = bytes([51, 4, 0, 0, 0, 60, 255])
    message = parse(bytes(payload), is_cut=False)
    assert (message.kind, message.options[12], message.lease_s) == ("REQUEST", b"abcd", 60)
    assert message.problems == ()


@settings(max_examples=300)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_read_without_an_error(payload: bytes, is_cut: bool) -> None:
    parse(payload, is_cut=is_cut)
    parse(bytes(frame_of(0)[42:278]) + b"\x63\x82\x53\x63" + payload, is_cut=is_cut)


def test_a_capture_cut_anywhere_shows_what_is_before_the_cut(probe: Path, tmp_path: Path) -> None:
    oscope = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})
    for content in (pcap(delivered().frames()), section(delivered().frames())):
        cut = len(content) // 2
        write(tmp_path / "capture", content[:cut])
        answer = oscope("dhcp", "capture")
        assert answer.code == 1
        assert "DISCOVER" in answer.out
        (line,) = answer.err.splitlines()
        assert "capture is cut" in line
        assert "packet 6" in line


REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty: give a file written by tcpdump"),
    "text": (b"once upon a time there was a text of no great length", "is no packet capture"),
    "noise": (random.Random(1).randbytes(5000), "is no packet capture"),
    "compressed": (b"\x1f\x8b\x08\0\0\0\0\0", "is compressed"),
    "header cut": (b"\xd4\xc3\xb2\xa1\x02\x00", "is cut within its header"),
    "other link type": (pcap([], 105), "has link type 105 (IEEE 802.11), which is not read"),
    "without packets": (pcap([]), "has no DHCP for IPv4 in its 0 packets"),
    "without DHCP": (pcap([(1.0, b"\0" * 60)]), "has no DHCP for IPv4 in its 1 packet:"),
    "other interface": (section(delivered().frames(), (105,)), "11 of link type 105 (IEEE 802.11)"),
    "a bad block": (section([]) + block(6, b"\0" * 8), "it is damaged before or in packet 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_dhcp_is_one_line(name: str, probe: Path, tmp_path: Path) -> None:
    content, words = REFUSED[name]
    write(tmp_path / "capture", content)
    answer = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)})("dhcp", "capture")
    assert (answer.code, answer.out) == (1, "")
    (line,) = answer.err.splitlines()
    assert line.startswith("oscope: capture ")
    assert words in line


def test_what_is_no_file_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(OscopeError):
            read(path)


def test_many_clients_are_kept_apart(tmp_path: Path) -> None:
    course = Course()
    for client in range(1, 201):
        lease(course, client, client, client, address=f"192.0.2.{client}")
    found = read(write(tmp_path / "capture", course))
    assert len(found.clients) == 200
    assert [(one.client, one.address) for one in found.leases] == [
        (client - 1, f"192.0.2.{client}") for client in range(1, 201)
    ]
