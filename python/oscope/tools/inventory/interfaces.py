"""Network interfaces, their addresses and the default routes, as rtnetlink(7) has them, printed by ip(8).

pyroute2 0.9 sees as much, but takes 350 ms to be imported; the three calls of ip take 26 ms in all.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError

_LIMIT_S = 10.0
_ETHERNET = "ether"
MAIN = "main"
_UNICAST = "unicast"


@dataclass(frozen=True)
class Address:
    """An address of an interface."""

    family: int
    """4 or 6."""
    address: str
    prefix: int
    """Bits of it that are the network's."""
    peer: str | None
    """The other end of a point-to-point link."""
    scope: str
    """`global`, `link`, `host`, …"""
    notes: tuple[str, ...]
    """Such as `tentative`, `deprecated`, `secondary`."""

    @property
    def netmask(self) -> str | None:
        """The network's bits as an address; None for IPv6, which has prefixes only."""
        return str(IPv4Network(f"0.0.0.0/{self.prefix}").netmask) if self.family == 4 else None


@dataclass(frozen=True)
class DefaultRoute:
    """A default route by one interface. A route over several gives several of them."""

    family: int
    gateway: str | None
    """None where the destinations are on the link itself. May be of the other family (RFC 5549)."""
    interface: str
    metric: int
    """The lowest is taken."""
    table: str
    """`main`, or another that rules lead to (ip-rule(8))."""
    is_usable: bool
    """Whether the link is there."""


@dataclass(frozen=True)
class Interface:
    """A network interface of this network namespace."""

    name: str
    index: int
    state: str
    """`UP`, `DOWN`, `UNKNOWN` for those that do not tell (RFC 2863)."""
    is_enabled: bool
    """Whether somebody switched it on."""
    kind: str
    """`ethernet`, `wireless`, `loopback`, or a virtual one such as `veth`, `bridge`, `vlan`."""
    link_address: str | None
    mtu: int
    """Bytes."""
    addresses: tuple[Address, ...]


@dataclass(frozen=True)
class Network:
    """What this network namespace has."""

    interfaces: tuple[Interface, ...]
    defaults: tuple[DefaultRoute, ...]

    def carriers(self, family: int) -> tuple[DefaultRoute, ...]:
        """Return what carries the default route: the usable ones of the least metric in the main table."""
        usable = [
            one for one in self.defaults if one.family == family and one.table == MAIN and one.is_usable
        ]
        least = min((one.metric for one in usable), default=0)
        return tuple(one for one in usable if one.metric == least)


def read_network() -> Network:
    """Return the interfaces and default routes of this network namespace.

    Raises OscopeError where ip is missing or fails.
    """
    links = _ask("-details", "address", "show")
    routes = [
        route
        for family in (4, 6)
        for entry in _ask(f"-{family}", "route", "show", "table", "all", "default")
        for route in _defaults(entry, family)
    ]
    return Network(tuple(_interface(link) for link in links), tuple(routes))


def _ask(*words: str) -> list[dict[str, Any]]:
    command = ["ip", "-json", *words]
    remedy = "install it: apt install iproute2"
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False)
    except FileNotFoundError as error:
        raise OscopeError("ip(8) is missing", remedy=remedy) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OscopeError(f"{' '.join(command)} failed ({error})", remedy="run it by hand") from error
    if done.returncode != 0:
        words_of_it = " ".join(done.stderr.decode(errors="replace").split())
        # Where the kernel has no IPv6, there is none to tell of.
        if "-6" in words and "not supported" in words_of_it:
            return []
        raise OscopeError(f"{' '.join(command)} failed ({words_of_it})", remedy="run it by hand")
    try:
        found = json.loads(done.stdout or b"[]")
    except ValueError as error:
        raise OscopeError(f"{' '.join(command)} printed no JSON ({error})", remedy=remedy) from error
    # Objects without contents stand for what was filtered out.
    return [one for one in found if one]


def _interface(link: Mapping[str, Any]) -> Interface:
    return Interface(
        name=link["ifname"],
        index=link["ifindex"],
        state=link.get("operstate", "UNKNOWN"),
        is_enabled="UP" in link.get("flags", ()),
        kind=_kind(link),
        link_address=link.get("address"),
        mtu=link["mtu"],
        addresses=tuple(_address(entry) for entry in link.get("addr_info", ()) if entry),
    )


def _kind(link: Mapping[str, Any]) -> str:
    virtual = link.get("linkinfo", {}).get("info_kind")
    if virtual:
        return str(virtual)
    if Path("/sys/class/net", link["ifname"], "wireless").exists():
        return "wireless"
    kind = str(link.get("link_type", "unknown"))
    return "ethernet" if kind == _ETHERNET else kind


def _address(entry: Mapping[str, Any]) -> Address:
    notes = ("tentative", "deprecated", "dadfailed", "secondary", "temporary", "dynamic")
    return Address(
        family=6 if entry["family"] == "inet6" else 4,
        address=entry["local"],
        prefix=entry["prefixlen"],
        peer=entry.get("address"),
        scope=str(entry.get("scope", "")),
        notes=tuple(name for name in notes if entry.get(name)),
    )


def _defaults(entry: Mapping[str, Any], family: int) -> list[DefaultRoute]:
    """Return the ways of a default route; none for one that refuses, such as `unreachable`."""
    if entry.get("type", _UNICAST) != _UNICAST or entry.get("dst") != "default":
        return []
    hops: Sequence[Mapping[str, Any]] = entry.get("nexthops") or [entry]
    return [
        DefaultRoute(
            family,
            hop.get("gateway") or hop.get("via", {}).get("host"),
            hop["dev"],
            int(entry.get("metric", 0)),
            str(entry.get("table", MAIN)),
            not {"dead", "linkdown"} & set(hop.get("flags", ())),
        )
        for hop in hops
        if "dev" in hop
    ]
