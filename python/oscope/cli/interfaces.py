"""`oscope interfaces`: the network interfaces, and which of them carries the default route."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oscope.cli.errors import DONE
from oscope.report.terminal import console, print_prose
from oscope.tools.inventory.interfaces import read_network

if TYPE_CHECKING:
    from rich.console import Console

    from oscope.tools.inventory.interfaces import Address, DefaultRoute, Interface, Network

SCHEMA = "oscope.interfaces/1"


def interfaces(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """List the network interfaces: addresses, netmasks, link-layer addresses, and the default routes.

    They are those of the network namespace that the command runs in.
    """
    network = read_network()
    if as_json:
        print(json.dumps(_to_object(network)))
    else:
        out = console()
        _print_interfaces(network, out)
        _print_defaults(network, out)
    return DONE


def _print_interfaces(network: Network, out: Console) -> None:
    """Print a paragraph for each: as a table, all of it would be wider than most terminals."""
    for interface in network.interfaces:
        out.print(Text(interface.name, style="bold"))
        link = f"link layer {interface.link_address}" if interface.link_address else "no link-layer address"
        print_prose(f"{_state(interface)}, {interface.kind}, {link}, MTU {interface.mtu} B", out, indent="  ")
        for address in interface.addresses:
            print_prose(", ".join(_descriptions(address)), out, indent="  ")
        gateways = _gateways(network, interface)
        if gateways:
            print_prose(f"gateway {', '.join(gateways)}", out, indent="  ")


def _descriptions(address: Address) -> Iterator[str]:
    yield f"{address.address}/{address.prefix}"
    if address.netmask:
        yield f"netmask {address.netmask}"
    if address.peer:
        yield f"peer {address.peer}"
    if address.scope != "global":
        yield f"scope {address.scope}"
    yield from address.notes


def _gateways(network: Network, interface: Interface) -> list[str]:
    """Return where the interface's default routes lead."""
    own = [one for one in network.defaults if one.interface == interface.name]
    return list(dict.fromkeys(one.gateway or "the link itself" for one in own))


def _state(interface: Interface) -> str:
    if not interface.is_enabled:
        return "off"
    return "up" if interface.state == "UNKNOWN" else interface.state.lower()


def _print_defaults(network: Network, out: Console) -> None:
    out.print()
    for family in (4, 6):
        carriers = network.carriers(family)
        own = [one for one in network.defaults if one.family == family]
        routes = ", ".join(_route(one) for one in carriers) or "none"
        print_prose(f"default route of IPv{family}: {routes}", out, style="bold")
        for other in own:
            if other not in carriers:
                why = "" if other.is_usable else ", whose link is down"
                table = "" if other.table == "main" else f", in the table {other.table}"
                print_prose(f"not taken: {_route(other)}{table}{why}", out, indent="  ")


def _route(route: DefaultRoute) -> str:
    gateway = f" to {route.gateway}" if route.gateway else ""
    return f"{route.interface}{gateway} (metric {route.metric})"


def _to_object(network: Network) -> dict[str, Any]:
    carriers = {family: network.carriers(family) for family in (4, 6)}
    found = [
        {
            **dataclasses.asdict(interface),
            "addresses": [
                {**dataclasses.asdict(address), "netmask": address.netmask} for address in interface.addresses
            ],
            "carries_default": [
                family
                for family, routes in carriers.items()
                if interface.name in {route.interface for route in routes}
            ],
        }
        for interface in network.interfaces
    ]
    defaults = [
        {**dataclasses.asdict(one), "is_carrier": one in carriers[one.family]} for one in network.defaults
    ]
    return {"schema": SCHEMA, "interfaces": found, "default_routes": defaults}
