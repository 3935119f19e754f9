"""Network interfaces, their addresses, and what carries the default route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oscope.figures.words import counted, listed
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING

_FAMILIES = (4, 6)
_HIDDEN = (
    "The last bytes of link-layer addresses are hidden, also in IPv6 addresses that are made of them; "
    "`oscope interfaces` shows them."
)


def section(title: str, result: Mapping[str, Any]) -> Section:
    """Tell which interfaces there are, and which one carries the default route."""
    interfaces, routes = result["interfaces"], result["default_routes"]
    enabled = [one["name"] for one in interfaces if one["is_enabled"]]
    answer = f"{counted(len(interfaces), 'interface')}, switched on: {listed(enabled) or 'none'}."
    for family in _FAMILIES:
        carriers = [_route(one) for one in routes if one["family"] == family and one["is_carrier"]]
        through = listed(carriers) if carriers else "nothing"
        answer += f" The default route of IPv{family} is carried by {through}."
    return Section(title=title, answer=answer, text=[_HIDDEN], tables=[_table(interfaces, routes)])


def _route(route: Mapping[str, Any]) -> str:
    return f"{route['interface']} to {route['gateway']}" if route["gateway"] else str(route["interface"])


def _table(interfaces: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[str]] = []
    for interface in interfaces:
        name = interface["name"]
        gateways = dict.fromkeys(one["gateway"] or "the link" for one in routes if one["interface"] == name)
        own = [
            ", ".join(gateways) or MISSING,
            ", ".join(f"IPv{family}" for family in interface["carries_default"]) or MISSING,
            interface["link_address"] or MISSING,
            interface["state"].lower() if interface["is_enabled"] else "off",
            interface["kind"],
            str(interface["mtu"]),
        ]
        addresses = [(f"{one['address']}/{one['prefix']}", one["netmask"]) for one in interface["addresses"]]
        first, *others = addresses or [(MISSING, None)]
        rows.append([name, first[0], first[1] or MISSING, *own])
        # What belongs to the interface stands in the first of its rows.
        rows += [["", address, netmask or MISSING, *[""] * len(own)] for address, netmask in others]
    columns = ["interface", "address", "netmask", "gateway", "default of", "link layer", "state", "kind"]
    return Table("Network interfaces", [*columns, "MTU [B]"], rows, frozenset({8}))
