"""Captures of DHCP made with scapy: the course of a lease in packets, and the same in other wrappings."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

SERVER = "192.0.2.1"
SERVER_LINK = "02:00:5e:00:00:01"
ADDRESS = "192.0.2.50"
LEASE_S = 120
START_S = 1_700_000_000
NOWHERE = "0.0.0.0"  # noqa: S104 (no server listens there)
EVERYBODY = "ff:ff:ff:ff:ff:ff"
MICROSECONDS = struct.Struct("<IIII")


@dataclass
class Course:
    """Packets with their times, as they are being made."""

    packets: list[Any] = field(default_factory=list)

    def add(self, at_s: float, packet: Any) -> Any:
        packet.time = START_S + at_s
        self.packets.append(packet)
        return packet

    def frames(self) -> list[tuple[float, bytes]]:
        return [(float(packet.time), bytes(packet)) for packet in self.packets]


def link(client: int) -> str:
    return f"02:00:5e:10:00:{client:02x}"


def from_client(
    client: int, kind: str, *options: Any, xid: int = 7, ciaddr: str = NOWHERE, to: str | None = None
) -> Any:
    """Return a client's message, to everybody or to the server at `to`."""
    mac = bytes.fromhex(link(client).replace(":", ""))
    return (
        Ether(src=link(client), dst=SERVER_LINK if to else EVERYBODY)
        / IP(src=ciaddr, dst=to or "255.255.255.255")
        / UDP(sport=68, dport=67)
        / BOOTP(op=1, chaddr=mac, xid=xid, ciaddr=ciaddr)
        / DHCP(options=[("message-type", kind), ("client_id", b"\x01" + mac), *options, "end"])
    )


def from_server(
    client: int, kind: str, *options: Any, xid: int = 7, yiaddr: str = ADDRESS, server: str = SERVER
) -> Any:
    """Return a server's message to a client."""
    mac = bytes.fromhex(link(client).replace(":", ""))
    return (
        Ether(src=SERVER_LINK, dst=link(client))
        / IP(src=server, dst=yiaddr)
        / UDP(sport=67, dport=68)
        / BOOTP(op=2, chaddr=mac, xid=xid, yiaddr=yiaddr, siaddr=server)
        / DHCP(options=[("message-type", kind), ("server_id", server), *options, "end"])
    )


def lease(course: Course, at_s: float, client: int, xid: int, address: str = ADDRESS) -> None:
    """Add the four messages by which a client gets an address."""
    terms = ("lease_time", LEASE_S)
    course.add(at_s, from_client(client, "discover", xid=xid))
    course.add(at_s + 0.01, from_server(client, "offer", terms, xid=xid, yiaddr=address))
    asks = (("requested_addr", address), ("server_id", SERVER))
    course.add(at_s + 0.02, from_client(client, "request", *asks, xid=xid))
    course.add(at_s + 0.03, from_server(client, "ack", terms, xid=xid, yiaddr=address))


def release(course: Course, at_s: float, client: int, xid: int) -> None:
    packet = from_client(client, "release", ("server_id", SERVER), xid=xid, ciaddr=ADDRESS, to=SERVER)
    course.add(at_s, packet)


def delivered() -> Course:
    """Return a lease, its renewal, its release, and another client that gets the address at once."""
    course = Course()
    lease(course, 0, 1, 7)
    course.add(60, from_client(1, "request", xid=8, ciaddr=ADDRESS, to=SERVER))
    course.add(60.01, from_server(1, "ack", ("lease_time", LEASE_S), xid=8))
    release(course, 70, 1, 9)
    lease(course, 75, 2, 10)
    return course


def dropped() -> Course:
    """Return a release that is lost: another client asks in vain until the lease ends."""
    course = Course()
    lease(course, 0, 1, 7)
    release(course, 10, 1, 9)
    for at_s in (15, 18, 60, 119):
        course.add(at_s, from_client(2, "discover", xid=10))
    lease(course, 121, 2, 11)
    return course


def pcap(
    frames: Sequence[tuple[float, bytes]], link_type: int = 1, *, magic: int = 0xA1B2C3D4, order: str = "<"
) -> bytes:
    """Return a pcap file of these frames, in µs, or in ns where `magic` says so."""
    per_second = 10**9 if magic == 0xA1B23C4D else 10**6
    found = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262144, link_type)]
    for time, frame in frames:
        units = round(time * 10**6) * (per_second // 10**6)
        seconds, rest = divmod(units, per_second)
        found += [struct.pack(f"{order}IIII", seconds, rest, len(frame), len(frame)), frame]
    return b"".join(found)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return a block of pcapng."""
    body += b"\0" * (-len(body) % 4)
    length = len(body) + 12
    return struct.pack(f"{order}II", kind, length) + body + struct.pack(f"{order}I", length)


def section(
    frames: Sequence[tuple[float, bytes]], link_types: Sequence[int] = (1,), order: str = "<"
) -> bytes:
    """Return a section of pcapng, in ns, with comments; frames take the interfaces in turn."""
    found = [block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)]
    resolution = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    for link_type in link_types:
        found.append(block(1, struct.pack(f"{order}HHI", link_type, 0, 0) + resolution, order))
    comment = struct.pack(f"{order}HH4sHH", 1, 4, b"note", 0, 0)
    for index, (time, frame) in enumerate(frames):
        stamp = round(time * 10**6) * 1000
        head = struct.pack(
            f"{order}IIIII", index % len(link_types), stamp >> 32, stamp % 2**32, len(frame), len(frame)
        )
        padded = frame + b"\0" * (-len(frame) % 4)
        found.append(block(6, head + padded + comment, order))
    return b"".join(found)


def write(path: Path, content: bytes | Course) -> Path:
    """Write a capture, and return its path."""
    path.write_bytes(pcap(content.frames()) if isinstance(content, Course) else content)
    return path
