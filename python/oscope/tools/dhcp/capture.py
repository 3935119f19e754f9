"""Packets that may be DHCP, out of a capture of any size: `oscope-probe dhcp` walks past the others.

Python alone takes longer to step from packet to packet than tcpdump does for its whole work.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from oscope.model.errors import OscopeError, ProbeError
from oscope.model.file_kinds import check_readable_to_its_end
from oscope.probe.child import Child
from oscope.probe.locate import find_probe

STANDARD_INPUT = "standard input"
_EXPLAINED = "its last words: oscope-probe: "
"""What comes before a reason of the verb's own."""
_FILE = "name a file written by tcpdump -w or Wireshark"
_PIPE = "pipe a capture into it: tcpdump -w - | oscope dhcp -"


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet from or to port 67 or 68, or a later fragment of one."""

    number: int
    """From 1 on, as Wireshark and `tcpdump --number` count."""
    time_ns: int | None
    """Since 1970 in UTC; None where the capture does not say."""
    interface: int
    captured: int
    """Bytes of it in the capture."""
    length: int
    """Bytes that it had on the wire."""
    link_source: bytes | None
    """Link-layer address of the sender; None where the capture has no link layer, or no address there."""
    link_destination: bytes | None
    """None also for Linux cooked captures, which do not keep it."""
    vlans: tuple[int, ...]
    """The outermost first."""
    tunnels: tuple[str, ...]
    """Such as `VXLAN 42`, the outermost first."""
    source: str
    destination: str
    ip_options: int
    """Bytes of IPv4 options."""
    fragment: str | None
    """`first` or `later`; None where the datagram is whole."""
    protocol: str
    """`udp` or `tcp`."""
    source_port: int | None
    destination_port: int | None
    missing: int
    """Bytes of the payload that UDP promises and the packet does not have."""
    payload: bytes


@dataclass(frozen=True)
class Counted:
    """Packets that were not read: why, or what they are; how many, and the number of the first."""

    why: str
    packets: int
    first: int


@dataclass(frozen=True)
class End:
    """What is known of a capture once all of it was read."""

    format: str
    """`pcap` or `pcapng`."""
    packets: int
    """All of them, DHCP or not."""
    first_ns: int | None
    last_ns: int | None
    not_read: tuple[Counted, ...]
    """Packets of link types that are not known, and malformed ones."""
    not_supported: tuple[Counted, ...]
    """Packets of other protocols that give addresses, such as DHCPv6, and those in tunnels not read."""
    error: str | None
    """Where and how the capture is cut or damaged: what is behind that was not read."""


class PacketReader(Child):
    """The running verb, whose input is the capture."""

    subject = "oscope-probe dhcp"

    def __init__(self, name: str, descriptor: int) -> None:
        """Start it; messages call the capture `name`."""
        self._name = name
        super().__init__([find_probe(), "dhcp"], stdin=descriptor)

    def __enter__(self) -> PacketReader:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process if it runs still."""
        self.kill()

    def events(self) -> Iterator[Packet | End]:
        """Yield each packet, and the end. OscopeError where the file is no capture that can be read."""
        ended = False
        while not ended:
            lines, ended = self.lines(None)
            for line in lines:
                yield _parse(line)
        if self.wait() == os.EX_OK:
            return
        words = self.last_words()
        _, explained, reason = words.partition(_EXPLAINED)
        if not explained:
            raise ProbeError(f"{self.subject} failed{words}", remedy="build it anew with `make setup`")
        message, _, remedy = reason.partition("; ")
        raise OscopeError(f"{self._name} {message}", remedy=remedy or None)


def read_packets(path: Path | None) -> Iterator[Packet | End]:
    """Yield what may be DHCP in a pcap or pcapng file, and `End` at last, also of a capture that is cut.

    None is standard input. Raises OscopeError where that or the file cannot be read, or is no capture.
    """
    with contextlib.ExitStack() as cleanup:
        if path is None:
            reader = PacketReader(STANDARD_INPUT, _standard_input())
        else:
            file = cleanup.enter_context(_opened(path))
            reader = PacketReader(str(path), file.fileno())
        yield from cleanup.enter_context(reader).events()


def _opened(path: Path) -> BinaryIO:
    if path.is_dir():
        raise OscopeError(f"{path} is a folder", remedy=_FILE)
    check_readable_to_its_end(path, remedy=f"{_FILE}, or -")
    try:
        return path.open("rb")
    except OSError as error:
        raise OscopeError(f"{path}: {error.strerror}", remedy="name a packet capture") from error


def _standard_input() -> int:
    """Return its descriptor. OscopeError where it is closed, or a terminal."""
    # One that was closed at the start is open for writing: see oscope.model.streams.
    if not sys.stdin.readable() or fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        raise OscopeError(f"{STANDARD_INPUT} is closed", remedy=_PIPE)
    if sys.stdin.isatty():
        raise OscopeError(f"{STANDARD_INPUT} is a terminal", remedy=_PIPE)
    return sys.stdin.fileno()


def _parse(line: bytes) -> Packet | End:
    try:
        record = json.loads(line)
        return _end(record["end"]) if "end" in record else _packet(record)
    except (ValueError, KeyError, TypeError) as error:
        raise ProbeError(
            f"oscope-probe dhcp broke the protocol ({error!r})", remedy="build it anew with `make setup`"
        ) from error


def _packet(record: Mapping[str, Any]) -> Packet:
    link = record["link"]
    return Packet(
        number=record["packet"],
        time_ns=record["time_ns"],
        interface=record["interface"],
        captured=record["captured"],
        length=record["length"],
        link_source=bytes.fromhex(link.get("source", "")) or None,
        link_destination=bytes.fromhex(link.get("destination", "")) or None,
        vlans=tuple(record["vlans"]),
        tunnels=tuple(record["tunnels"]),
        source=record["source"],
        destination=record["destination"],
        ip_options=record["ip_options"],
        fragment=record["fragment"],
        protocol=record["protocol"],
        source_port=record["source_port"],
        destination_port=record["destination_port"],
        missing=record["missing"],
        payload=bytes.fromhex(record["payload"]),
    )


def _end(record: Mapping[str, Any]) -> End:
    kinds = [
        *(Counted(_link_type(one), one["packets"], one["first"]) for one in record["skipped"]),
        *(Counted(one["why"], one["packets"], one["first"]) for one in record["malformed"]),
    ]
    return End(
        format=record["format"],
        packets=record["packets"],
        first_ns=record["first_ns"],
        last_ns=record["last_ns"],
        not_read=tuple(kinds),
        not_supported=tuple(Counted(one["what"], one["packets"], one["first"]) for one in record["not_read"]),
        error=record["error"],
    )


def _link_type(skipped: Mapping[str, Any]) -> str:
    name = f" ({skipped['name']})" if skipped["name"] else ""
    return f"link type {skipped['link_type']}{name}"
