"""DHCP for IPv4 (RFC 2131) as a packet capture shows it: messages, clients and servers, and six answers."""

from __future__ import annotations

from oscope.tools.dhcp.conversation import Conversation, read

__all__ = ["Conversation", "read"]
