"""The DHCP messages of a capture: whose they are, and which leases they make, renew and give back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.model.formatting import format_count
from oscope.tools.dhcp.capture import STANDARD_INPUT, Counted, End, Packet, read_packets
from oscope.tools.dhcp.message import CLIENT_IDENTIFIER, FROM_SERVER, KINDS, REPLY, REQUEST, Message, parse

MOST = 50_000
"""Messages that are kept. Memory has to have a bound, and nobody reads more."""
FOREVER = 0xFFFF_FFFF
"""A lease that does not end (RFC 2131, 3.3)."""
NS_PER_S = 1_000_000_000
_OTHER_PROTOCOLS = frozenset({"DHCPv6", "IPCP"})
"""That give addresses, too; what else is not supported are tunnels."""
_SERVER_PORT = 67
_NOWHERE = "0.0.0.0"  # noqa: S104 (an address that is compared with, not bound)


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """A message, the packet that carried it, and whose conversation it belongs to."""

    packet: Packet
    message: Message
    client: int | None
    """Index of the client; None where it is not known."""

    @property
    def number(self) -> int:
        """Number of the packet."""
        return self.packet.number

    @property
    def kind(self) -> str | None:
        """Kind of the message."""
        return self.message.kind

    @property
    def is_from_server(self) -> bool:
        """Whether a server speaks, by the type, else by the operation, else by the port it comes from.

        A relay sends both ways from the port of a server: what it sends from its own address is a client's.
        """
        if self.kind in KINDS.values():
            return self.kind in FROM_SERVER
        if self.message.operation in (REQUEST, REPLY):
            return self.message.operation == REPLY
        is_relayed = self.packet.destination_port == _SERVER_PORT and self.packet.source == self.message.relay
        return self.packet.source_port == _SERVER_PORT and not is_relayed

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the message or the packet, each in a few words."""
        packet, found = self.packet, list(self.message.problems)
        if packet.captured < packet.length:
            found.insert(0, f"cut by the capture: {packet.captured} of {packet.length} bytes")
        elif packet.missing and packet.fragment is None:
            found.insert(0, f"{packet.missing} bytes shorter than it says")
        if packet.fragment is not None:
            found.insert(0, f"{packet.fragment} fragment, not put together")
        return tuple(found)


@dataclass(slots=True)
class Client:
    """A client, by its link-layer address or, where it gives none, its client identifier."""

    address: bytes
    hardware: int | None
    identifier: bytes = b""
    messages: list[int] = field(default_factory=list)
    """Numbers of the packets."""


@dataclass(slots=True)
class Lease:
    """An address lent to a client."""

    client: int
    address: str
    acks: list[CapturedMessage]
    """That made and renewed it."""
    releases: list[CapturedMessage] = field(default_factory=list)

    @property
    def server(self) -> str | None:
        """The server's address: its identifier, else where the packet came from."""
        last = self.acks[-1]
        return last.message.server or last.packet.source

    @property
    def ends_ns(self) -> int | None:
        """When it ends unless renewed; None where that is never, or not known."""
        last = self.acks[-1]
        seconds = last.message.lease_s
        if last.packet.time_ns is None or seconds is None or seconds == FOREVER:
            return None
        return last.packet.time_ns + seconds * NS_PER_S

    def has_ended(self, later: CapturedMessage) -> bool:
        """Whether it ended, by all that was seen until then, before a `later` message."""
        ends, now = self.ends_ns, later.packet.time_ns
        return ends is not None and now is not None and ends <= now


@dataclass(frozen=True)
class Conversation:
    """All that a capture shows of DHCP for IPv4."""

    path: Path | None
    """None: standard input."""
    end: End | None
    """What is known of the whole capture; None where reading ended early, after `MOST` messages."""
    messages: tuple[CapturedMessage, ...]
    clients: tuple[Client, ...]
    leases: tuple[Lease, ...]
    tcp: tuple[int, ...]
    """Numbers of TCP packets from or to the same ports: not DHCP."""

    @property
    def name(self) -> str:
        """What messages call the capture."""
        return _name(self.path)

    @property
    def servers(self) -> tuple[str, ...]:
        """Addresses of the servers, by their identifier, in the order of appearance."""
        named = (one.message.server for one in self.messages if one.kind in FROM_SERVER)
        return tuple(dict.fromkeys(server for server in named if server is not None))

    @property
    def last_ns(self) -> int | None:
        """When the last packet that was read was captured, DHCP or not."""
        if self.end is not None:
            return self.end.last_ns
        return next((one.packet.time_ns for one in reversed(self.messages)), None)


def read(path: Path | None) -> Conversation:
    """Read a pcap or pcapng file, or standard input if None.

    Memory is bounded: of more than `MOST` messages, the first are kept.
    Raises OscopeError where it cannot be opened, is no capture, is of a link type that is not known, or has
    no DHCP. A capture that is cut or damaged further on is no error here: `end.error` says so.
    """
    found = _Following()
    end: End | None = None
    for event in read_packets(path):
        if isinstance(event, End):
            end = event
        elif not found.follow(event):
            break
    if not found.messages:
        raise OscopeError(f"{_name(path)} has {_nothing(found, end)}", remedy=_remedy(end))
    return Conversation(
        path, end, tuple(found.messages), tuple(found.clients), tuple(found.leases), tuple(found.tcp)
    )


def _name(path: Path | None) -> str:
    return STANDARD_INPUT if path is None else str(path)


def _nothing(found: _Following, end: End | None) -> str:
    """Say what there is instead of DHCP."""
    if end is None:
        return "no DHCP for IPv4"
    summary = f"no DHCP for IPv4 in its {_packets(end.packets)}"
    parts = [not_supported(one) for one in end.not_supported]
    parts += [f"{one.packets} of {one.why}" for one in end.not_read]
    parts += [f"{len(found.tcp)} of TCP"] if found.tcp else []
    parts += [f"it is {end.error}"] if end.error else []
    return f"{summary} ({', '.join(parts)})" if parts else summary


def not_supported(counted: Counted) -> str:
    """Say what packets are that are seen and not read."""
    return f"{_packets(counted.packets)} of {counted.why}: not supported"


def _packets(count: int) -> str:
    return f"{format_count(count)} packet{'' if count == 1 else 's'}"


def _remedy(end: End | None) -> str:
    """Say which capture would show DHCP."""
    kinds = {one.why for one in end.not_supported} if end is not None else set()
    if kinds & _OTHER_PROTOCOLS:
        return "only DHCP for IPv4 is read: capture UDP ports 67 and 68"
    if kinds:
        return "capture where the packets are out of the tunnel"
    return "capture while a client asks: tcpdump -w"


class _Following:
    """Follows the messages of a capture, in order."""

    def __init__(self) -> None:
        self.messages: list[CapturedMessage] = []
        self.clients: list[Client] = []
        self.leases: list[Lease] = []
        self.tcp: list[int] = []
        self._by_address: dict[tuple[int | None, bytes], int] = {}
        self._by_identifier: dict[bytes, int] = {}
        self._by_transaction: dict[int, int] = {}
        self._open: dict[tuple[int, str], Lease] = {}

    def follow(self, packet: Packet) -> bool:
        """Heed a packet; False where there is no room for more."""
        if len(self.messages) + len(self.tcp) >= MOST:
            return False
        if packet.protocol == "tcp":
            self.tcp.append(packet.number)
            return True
        is_part = packet.fragment is not None or packet.captured < packet.length or packet.missing > 0
        message = parse(packet.payload if packet.fragment != "later" else b"", is_cut=is_part)
        client = self._client(message)
        # The bytes are not kept: the message has what is in them.
        captured = CapturedMessage(_without_payload(packet), message, client)
        self.messages.append(captured)
        if client is not None:
            self.clients[client].messages.append(packet.number)
            self._follow_lease(captured, client)
        return True

    def _client(self, message: Message) -> int | None:
        """Return whose message it is: by link-layer address, client identifier, or transaction."""
        identifier = message.options.get(CLIENT_IDENTIFIER, b"")
        address = (message.hardware, message.client_address)
        if any(message.client_address):
            known = self._by_address.get(address)
        elif identifier:
            known = self._by_identifier.get(identifier)
        else:
            return self._by_transaction.get(message.transaction or 0)
        if known is None:
            known = len(self.clients)
            self.clients.append(Client(message.client_address, message.hardware))
        if any(message.client_address):
            self._by_address[address] = known
        if identifier:
            self._by_identifier[identifier] = known
            self.clients[known].identifier = identifier
        if message.transaction:
            self._by_transaction[message.transaction] = known
        return known

    def _follow_lease(self, captured: CapturedMessage, client: int) -> None:
        message = captured.message
        address = message.yiaddr
        # Without a lease time it answers an INFORM, which leases nothing.
        if captured.kind == "ACK" and address and address != _NOWHERE and message.lease_s is not None:
            key = (client, address)
            lease = self._open.get(key)
            if lease is None or lease.releases:
                self._open[key] = lease = Lease(client, address, [])
                self.leases.append(lease)
            lease.acks.append(captured)
        elif captured.kind == "RELEASE" and message.ciaddr is not None:
            lease = self._open.get((client, message.ciaddr))
            if lease is None:
                return
            if lease.has_ended(captured):
                # What is acknowledged after it is another lease.
                del self._open[client, message.ciaddr]
            else:
                lease.releases.append(captured)


def _without_payload(packet: Packet) -> Packet:
    values = {name: getattr(packet, name) for name in Packet.__slots__}
    return Packet(**(values | {"payload": b""}))
