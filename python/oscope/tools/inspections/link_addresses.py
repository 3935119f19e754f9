"""Link-layer addresses in a JSON value, with the bytes obscured that tell one device from another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address
from typing import Any

from oscope.tools.dhcp.redaction import Addresses

_LINK = re.compile(r"(?:[0-9a-f]{2}:){5,}[0-9a-f]{2}", re.IGNORECASE)
_EUI = b"\xff\xfe"
"""In the middle of an IPv6 address that is made of a link-layer address (RFC 4291, appendix A)."""


def hide(value: Any) -> Any:
    """Return a JSON value, in which no link-layer address is whole, nor an IPv6 address made of one.

    Names that hold an address, as some interfaces have, are obscured as well. The addresses of loopback and
    broadcast are nobody's and stay.
    """
    known = frozenset(_links(value))
    return _hidden(value, Addresses(is_hidden=True, known=known))


def _links(value: Any) -> Iterable[bytes]:
    for text in _texts(value):
        if _LINK.fullmatch(text):
            address = bytes.fromhex(text.replace(":", ""))
            if any(address) and address != b"\xff" * len(address):
                yield address


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _hidden(value: Any, addresses: Addresses) -> Any:
    if isinstance(value, dict):
        return {key: _hidden(one, addresses) for key, one in value.items()}
    if isinstance(value, list):
        return [_hidden(one, addresses) for one in value]
    return _text(value, addresses) if isinstance(value, str) else value


def _text(text: str, addresses: Addresses) -> str:
    if _LINK.fullmatch(text):
        address = bytes.fromhex(text.replace(":", ""))
        return addresses.link(address) if address in addresses.known else text
    try:
        number = IPv6Address(text)
    except ValueError:
        return addresses.text(text)
    if number.packed[11:13] != _EUI:
        return text
    # With what is hidden filled up, which no zeros in front of it can run into.
    shown = str(IPv6Address(number.packed[:12] + b"\xff" * 4)).rsplit(":", 2)[0]
    return f"{shown}:{number.packed[12]:02x}xx:xxxx"
