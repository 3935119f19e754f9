"""Link-layer addresses as text, with their last bytes obscured where that is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oscope.tools.dhcp.message import ETHERNET

if TYPE_CHECKING:
    from oscope.tools.dhcp.conversation import Conversation

HIDDEN = 3
"""Bytes of an Ethernet address that tell one device of a maker from another."""
_BROADCAST = b"\xff" * 6


@dataclass(frozen=True)
class Addresses:
    """How link-layer addresses are written."""

    is_hidden: bool = False
    known: frozenset[bytes] = frozenset()
    """Addresses of the capture, which names may hold as well."""

    def link(self, address: bytes) -> str:
        """Return `02:00:5e:10:00:01`, or `02:00:5e:xx:xx:xx`."""
        if not self.is_hidden or address == _BROADCAST:
            return address.hex(":")
        kept = max(len(address) - HIDDEN, 0)
        return ":".join([*(f"{byte:02x}" for byte in address[:kept]), *["xx"] * (len(address) - kept)])

    def client(self, conversation: Conversation, index: int | None) -> str:
        """Return what a client is called; with its number where that alone would tell two apart."""
        if index is None:
            return "an unknown client"
        client = conversation.clients[index]
        description = (
            self.link(client.address)
            if client.address
            else f"identifier {self.identifier(client.identifier)}"
        )
        return (
            f"{description} (client {index + 1})"
            if self.is_hidden and len(conversation.clients) > 1
            else description
        )

    def identifier(self, identifier: bytes) -> str:
        """Return a client identifier (RFC 2132, 9.14): a type, then often a link-layer address."""
        if not identifier:
            return ""
        kind, rest = identifier[0], identifier[1:]
        if kind == ETHERNET and len(rest) == 6:
            return self.link(rest)
        # Others hold link-layer addresses in many places (RFC 4361, 6.1): all but the type is obscured.
        if self.is_hidden:
            return f"{kind:02x}:{':'.join(['xx'] * len(rest))}"
        if kind == 0 and rest.isascii() and rest.decode("ascii").isprintable():
            return rest.decode("ascii")
        return identifier.hex(":")

    def text(self, text: str) -> str:
        """Return a name, with what is obscured elsewhere obscured here: some devices are named after it."""
        if not self.is_hidden:
            return text
        for address in self.known:
            tail = [f"{byte:02x}" for byte in address[-HIDDEN:]]
            text = re.sub(r"[:._-]?".join(tail), "x" * (2 * HIDDEN), text, flags=re.IGNORECASE)
        return text


def addresses_of(conversation: Conversation, *, is_hidden: bool) -> Addresses:
    """Return how the addresses of `conversation` are written."""
    return Addresses(is_hidden, frozenset(_all(conversation)) if is_hidden else frozenset())


def _all(conversation: Conversation) -> Iterable[bytes]:
    for one in conversation.messages:
        for address in (one.packet.link_source, one.packet.link_destination, one.message.client_address):
            if address and len(address) > HIDDEN and address != _BROADCAST:
                yield address
