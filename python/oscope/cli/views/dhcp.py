"""What `oscope dhcp` prints: tables, figures and answers, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from oscope.cli.errors import DONE, note
from oscope.model.errors import OscopeError
from oscope.model.formatting import MISSING, format_count
from oscope.model.units import format_duration
from oscope.report.terminal import aligned, console, print_columns, print_prose, table_room, table_width
from oscope.tools.dhcp.answers import NOT_SHOWN, Answer, answer_all
from oscope.tools.dhcp.conversation import (
    FOREVER,
    MOST,
    NS_PER_S,
    CapturedMessage,
    Conversation,
    not_supported,
    read,
)
from oscope.tools.dhcp.message import CLIENT_IDENTIFIER, HOST_NAME
from oscope.tools.dhcp.redaction import Addresses, addresses_of
from oscope.tools.dhcp.sequence import sequence

SCHEMA = "oscope.dhcp/1"
MOST_MESSAGES = 100
"""Rows of the table, and messages in figures, unless all are asked for."""
MOST_FIGURES = 5
MOST_PARTS = 8
"""Statements of an answer on a terminal."""
MOST_NUMBERS = 12
LEAST_REMARK = 20
"""Columns of characters that remarks have, else addresses stand under each other."""
_NOWHERE = "0.0.0.0"  # noqa: S104 (an address that is compared with, not bound)


def show(path: Path | None, *, is_hidden: bool, everything: bool, as_json: bool) -> int:
    """Print what a capture shows; None is standard input.

    Raises OscopeError, once that is printed, where it is cut or damaged.
    """
    conversation = read(path)
    addresses = addresses_of(conversation, is_hidden=is_hidden)
    answers = answer_all(conversation, addresses)
    if as_json:
        print(json.dumps(_to_object(conversation, addresses, answers)))
    else:
        out = console()
        limit = len(conversation.messages) if everything else MOST_MESSAGES
        _print_messages(conversation, addresses, limit, out)
        _print_figures(conversation, addresses, limit, out)
        print_answers(answers, out)
    return _finish(conversation)


def _finish(conversation: Conversation) -> int:
    """Tell what was not read."""
    end = conversation.end
    if end is None:
        last = conversation.messages[-1].number
        note(f"{conversation.name} has more: only the first {MOST} DHCP messages were read, up to #{last}")
        return DONE
    for counted in end.not_read:
        count = format_count(counted.packets)
        text = f"{count} packets not understood ({counted.why}), the first is #{counted.first}"
        note(f"{conversation.name}: {text}")
    for counted in end.not_supported:
        note(f"{conversation.name}: {not_supported(counted)}, the first is #{counted.first}")
    if end.error:
        raise OscopeError(
            f"{conversation.name} is {end.error}",
            remedy="what is before that was read; capture it anew for the rest",
        )
    return DONE


def _start_ns(conversation: Conversation) -> int | None:
    return next((one.packet.time_ns for one in conversation.messages if one.packet.time_ns is not None), None)


def _print_messages(conversation: Conversation, addresses: Addresses, limit: int, out: Console) -> None:
    start = _start_ns(conversation)
    packets = "" if conversation.end is None else f" in {format_count(conversation.end.packets)} packets"
    when = "" if start is None else f", from {_clock(start)} on"
    print_prose(f"{_counted(len(conversation.messages), 'DHCP message')}{packets}{when}", out, style="bold")
    shown = conversation.messages[:limit]
    columns = [
        aligned(["#", *(str(one.number) for one in shown)]),
        aligned(["s", *(_since(one, start) for one in shown)]),
        ["message", *(one.kind or "?" for one in shown)],
        ["from", *(one.packet.source for one in shown)],
        ["to", *(one.packet.destination for one in shown)],
        ["client", *(_client(conversation, addresses, one) for one in shown)],
        ["address", *(_address(one) or MISSING for one in shown)],
        ["remarks", *("; ".join(_remarks(one, addresses)) for one in shown)],
    ]
    if table_width(columns[:-1]) + LEAST_REMARK > table_room(out):
        # No address is cut: two stand under each other.
        number, since, kind, source, destination, client, address, remark = columns
        pairs = [
            [f"{first}\n{second}" for first, second in zip(*two, strict=True)]
            for two in ((source, destination), (client, address))
        ]
        columns = [number, since, kind, *pairs, remark]
    print_columns(columns, out, wrap_last=True)
    if left := len(conversation.messages) - len(shown):
        print_prose(f"{_counted(left, 'more message')}: --all prints all", out, style="dim")


def _print_figures(conversation: Conversation, addresses: Addresses, limit: int, out: Console) -> None:
    start = _start_ns(conversation)
    figures = len(conversation.clients) if limit > MOST_MESSAGES else MOST_FIGURES
    for index in range(len(conversation.clients))[:figures]:
        messages = [one for one in conversation.messages if one.client == index][:limit]
        out.print()
        for line in sequence(addresses.client(conversation, index), messages, start, out.width):
            out.print(Text(line), soft_wrap=True)
    if (left := len(conversation.clients) - figures) > 0:
        print_prose(f"{_counted(left, 'more client')}: --all draws all", out, style="dim")


def print_answers(answers: Sequence[Answer], out: Console) -> None:
    """Print each question, and its answer with the numbers of the packets."""
    for answer in answers:
        out.print()
        print_prose(f"({answer.letter}) {answer.question}", out, style="bold")
        if not answer.parts:
            print_prose(f"{NOT_SHOWN}: {answer.why_not}", out, indent="    ")
        for part in answer.parts[:MOST_PARTS]:
            print_prose(f"{part.text} [{_numbers(part.packets)}]", out, indent="    ")
        if (left := len(answer.parts) - MOST_PARTS) > 0:
            print_prose(f"and {format_count(left)} more: --json has all", out, indent="    ", style="dim")


def _numbers(packets: Sequence[int]) -> str:
    text = ", ".join(f"#{number}" for number in packets[:MOST_NUMBERS])
    left = len(packets) - MOST_NUMBERS
    return f"{text} and {format_count(left)} more" if left > 0 else text


def _counted(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def _clock(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, NS_PER_S)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d} UTC"
    except (OverflowError, ValueError, OSError):
        return "a time beyond all calendars"


def _since(one: CapturedMessage, start_ns: int | None) -> str:
    time = one.packet.time_ns
    return MISSING if time is None or start_ns is None else f"{(time - start_ns) / NS_PER_S:.6f}"


def _client(conversation: Conversation, addresses: Addresses, one: CapturedMessage) -> str:
    return MISSING if one.client is None else addresses.client(conversation, one.client)


def _address(one: CapturedMessage) -> str | None:
    """Return the address that a message is about: given, had, or asked for."""
    message = one.message
    first = (message.yiaddr, message.ciaddr) if one.is_from_server else (message.ciaddr, message.yiaddr)
    known = next((address for address in first if address not in (None, _NOWHERE)), None)
    return known or message.requested


def _remarks(one: CapturedMessage, addresses: Addresses) -> Iterator[str]:
    message, packet = one.message, one.packet
    if message.lease_s is not None:
        yield "lease for ever" if message.lease_s == FOREVER else f"lease {format_duration(message.lease_s)}"
    if message.server not in (None, packet.source, packet.destination):
        yield f"server {message.server}"
    if message.relay:
        yield f"relay {message.relay}"
    name = _name(one, addresses)
    if name:
        yield f"name {name}"
    if packet.vlans:
        yield f"VLAN {' in '.join(str(vlan) for vlan in reversed(packet.vlans))}"
    if packet.tunnels:
        yield f"in {' in '.join(reversed(packet.tunnels))}"
    if packet.interface:
        yield f"interface {packet.interface}"
    if packet.ip_options:
        yield f"{packet.ip_options} B of IPv4 options"
    yield from one.problems


def _name(one: CapturedMessage, addresses: Addresses) -> str | None:
    value = one.message.options.get(HOST_NAME)
    if value is None:
        return None
    # Whatever a stranger sent: no control characters to a terminal.
    text = value.rstrip(b"\0").decode(errors="replace")
    return addresses.text("".join(letter if letter.isprintable() else "?" for letter in text))


def _to_object(conversation: Conversation, addresses: Addresses, answers: Sequence[Answer]) -> dict[str, Any]:
    end = conversation.end
    return {
        "schema": SCHEMA,
        "file": "-" if conversation.path is None else str(conversation.path),
        "format": None if end is None else end.format,
        "packets": None if end is None else end.packets,
        "complete": end is not None and end.error is None,
        "error": None if end is None else end.error,
        "not_understood": []
        if end is None
        else [{"why": one.why, "packets": one.packets, "first": one.first} for one in end.not_read],
        "not_supported": []
        if end is None
        else [{"what": one.why, "packets": one.packets, "first": one.first} for one in end.not_supported],
        "addresses_hidden": addresses.is_hidden,
        "clients": [
            {
                "address": addresses.link(client.address) if client.address else None,
                "hardware_type": client.hardware,
                "identifier": addresses.identifier(client.identifier) or None,
                "packets": client.messages,
            }
            for client in conversation.clients
        ],
        "servers": list(conversation.servers),
        "leases": [
            {
                "client": lease.client,
                "address": lease.address,
                "server": lease.server,
                "lease_s": lease.acks[-1].message.lease_s,
                "ends_ns": lease.ends_ns,
                "acks": [ack.number for ack in lease.acks],
                "releases": [release.number for release in lease.releases],
            }
            for lease in conversation.leases
        ],
        "messages": [_message_object(one, addresses) for one in conversation.messages],
        "tcp_packets": list(conversation.tcp),
        "answers": [
            {
                "letter": answer.letter,
                "question": answer.question,
                "shown": bool(answer.parts),
                "why_not": answer.why_not,
                "parts": [{"text": part.text, "packets": part.packets} for part in answer.parts],
                "packets": answer.packets,
            }
            for answer in answers
        ],
    }


def _message_object(one: CapturedMessage, addresses: Addresses) -> dict[str, Any]:
    packet, message = one.packet, one.message
    identifier = message.options.get(CLIENT_IDENTIFIER, b"")
    return {
        "packet": one.number,
        "time_ns": packet.time_ns,
        "kind": one.kind,
        "client": one.client,
        "interface": packet.interface,
        "captured": packet.captured,
        "length": packet.length,
        "link_source": None if packet.link_source is None else addresses.link(packet.link_source),
        "link_destination": None
        if packet.link_destination is None
        else addresses.link(packet.link_destination),
        "vlans": packet.vlans,
        "tunnels": packet.tunnels,
        "source": packet.source,
        "destination": packet.destination,
        "source_port": packet.source_port,
        "destination_port": packet.destination_port,
        "ip_options": packet.ip_options,
        "fragment": packet.fragment,
        "transaction": message.transaction,
        "client_address": addresses.link(message.client_address) if message.client_address else None,
        "client_identifier": addresses.identifier(identifier) or None,
        "host_name": _name(one, addresses),
        "ciaddr": message.ciaddr,
        "yiaddr": message.yiaddr,
        "siaddr": message.siaddr,
        "giaddr": message.giaddr,
        "hops": message.hops,
        "seconds": message.seconds,
        "requested": message.requested,
        "server": message.server,
        "lease_s": message.lease_s,
        # Several hold link-layer addresses, in forms of their makers.
        "options": None
        if addresses.is_hidden
        else {str(code): value.hex() for code, value in message.options.items()},
        "problems": one.problems,
    }
