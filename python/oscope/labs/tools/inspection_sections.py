"""What was looked at once: a cleaned session, device files held open, and network interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from oscope import questions as q

# ---- session

_NEW_LINE = "\r\n"


def session(title: str, result: Mapping[str, Any]) -> q.Section:
    """Show the recording line by line: all that it holds as escapes, and what is left."""
    recorded, cleaned = result["recorded"], result["cleaned"]
    raw, seen = recorded.removesuffix(_NEW_LINE).split(_NEW_LINE), cleaned.splitlines()
    lines = list(enumerate(zip_longest(raw, seen, fillvalue=""), 1))
    controls = sum(not character.isprintable() for character in recorded.replace(_NEW_LINE, ""))
    sent_characters, seen_characters = (q.format_count(sum(map(len, each))) for each in (raw, seen))
    answer = f"Of {sent_characters} characters that the terminal was sent, a person saw {seen_characters}."
    if "\x1b" in cleaned or "\b" in cleaned:
        answer = "The cleaned text still holds control characters: that is a bug in Oscope."
    rows = [[str(number), escaped(sent), shown] for number, (sent, shown) in lines]
    bars = (
        (end, f"line {number}", len(text))
        for number, line in lines
        for end, text in zip(("sent", "seen"), line, strict=True)
    )
    axis, note = q.plots.axis("characters"), "The ends of lines are not counted, here and above."
    kinds = (
        "of corrections, colours, a title and a progress bar. `oscope session clean` leaves what they led to"
    )
    columns = ["line", "what the terminal was sent", "what was seen"]
    return q.Section(
        title=title,
        answer=answer,
        text=[
            f"{q.format_count(controls)} are control characters: {kinds}.",
            f"The session is of `{' '.join(result['command'])}`, typed and recorded for this report.",
        ],
        tables=[q.Table("The recording and the text", columns, rows)],
        figures=[q.bars("Characters sent and seen, line by line", axis, bars, note)],
    )


def escaped(text: str) -> str:
    """Return `text` with what cannot be seen as Python writes it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# ---- devices

_MOST_NAMES = 5
_MOST_BARS = 20


def devices(title: str, result: Mapping[str, Any]) -> q.Section:
    """Tell which devices are held open, by how many processes."""
    devices, hidden = result["devices"], result["unreadable"]
    most = max(devices, key=_processes, default=None)
    holders = len({held["pid"] for device in devices for held in device["held"]})
    every = counted_processes(result["processes"])
    text = f"Of {every}, none holds a device open."
    if most is not None:
        text = f"{most['path']} is held by most: {q.format_count(_processes(most))} of {every}."
    return q.Section(
        title=title,
        answer=f"Held open: {q.counted(len(devices), 'device file')}, by {counted_processes(holders)}.",
        text=[
            text,
            "Processes are given by their names alone. Paths are as their processes see them.",
        ],
        tables=[DEVICES.of(devices)],
        figures=[_figure(devices)] if devices else [],
        missing=f"{counted_processes(hidden)} could not be looked at by this user" if hidden else "",
    )


def counted_processes(number: int) -> str:
    """Return `1 process`, `2 processes`."""
    return f"{q.format_count(number)} process{'' if number == 1 else 'es'}"


def _processes(device: Mapping[str, Any]) -> int:
    return len({held["pid"] for held in device["held"]})


def _names(device: Mapping[str, Any]) -> str:
    names = sorted({held["command"] for held in device["held"]})
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


DEVICES: q.TableOf[Mapping[str, Any]] = q.TableOf(
    "Device files held open",
    q.text("path", lambda device: f"{device['path']}{' (deleted)' if device['deleted'] else ''}"),
    q.text("what it is", lambda device: device["what"]),
    q.text("mode", lambda device: ", ".join(dict.fromkeys(held["mode"] for held in device["held"]))),
    q.count("processes", _processes),
    q.text("number", lambda device: f"{device['major']}:{device['minor']}"),
    q.text("device", lambda device: device["name"]),
    q.count("descriptors", lambda device: len(device["held"])),
    q.text("names", _names),
)


def _figure(devices: Sequence[Mapping[str, Any]]) -> q.Figure:
    shown = sorted(devices, key=_processes, reverse=True)[:_MOST_BARS]
    note = f"The {_MOST_BARS} held by most; the table has all." if len(devices) > _MOST_BARS else ""
    # Two mount namespaces may each have a device at the same path.
    names = [f"{each['path']} ({each['major']}:{each['minor']})" for each in shown]
    rows = (("processes", name, _processes(each)) for name, each in zip(names, shown, strict=True))
    return q.bars("Processes that hold a device open", q.plots.axis("processes"), rows, note)


# ---- interfaces

_FAMILIES = (4, 6)
_HIDDEN = "The last bytes of link-layer addresses are hidden, in IPv6 too; `oscope interfaces` shows them."


def interfaces(title: str, result: Mapping[str, Any]) -> q.Section:
    """Tell which interfaces there are, and which one carries the default route."""
    interfaces, routes = result["interfaces"], result["default_routes"]
    enabled = [one["name"] for one in interfaces if one["is_enabled"]]
    text = [f"Switched on: {q.listed(enabled) or 'none'}."]
    for family in _FAMILIES:
        carriers = [_route(one) for one in routes if one["family"] == family and one["is_carrier"]]
        text.append(f"The default route of IPv{family} is carried by {q.listed(carriers) or 'nothing'}.")
    first = dict.fromkeys(one["interface"] for one in routes if one["family"] == 4 and one["is_carrier"])
    carried = f"the default route of IPv4 is carried by {q.listed(list(first)) or 'none'}"
    return q.Section(
        title=title,
        answer=f"Of {q.counted(len(interfaces), 'interface')}, {carried}.",
        text=[*text, _HIDDEN],
        tables=[_interfaces_table(interfaces, routes)],
    )


def _route(route: Mapping[str, Any]) -> str:
    return f"{route['interface']} to {route['gateway']}" if route["gateway"] else str(route["interface"])


def _interfaces_table(
    interfaces: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]]
) -> q.Table:
    rows: list[list[str]] = []
    for interface in interfaces:
        name = interface["name"]
        gateways = dict.fromkeys(one["gateway"] or "the link" for one in routes if one["interface"] == name)
        carried = ", ".join(f"IPv{family}" for family in interface["carries_default"])
        known = (", ".join(gateways), carried, interface["link_address"])
        state = interface["state"].lower() if interface["is_enabled"] else "off"
        own = [*(each or q.MISSING for each in known), state, interface["kind"], str(interface["mtu"])]
        addresses = [(f"{one['address']}/{one['prefix']}", one["netmask"]) for one in interface["addresses"]]
        first, *others = addresses or [(q.MISSING, None)]
        rows.append([name, first[0], first[1] or q.MISSING, *own])
        # What belongs to the interface stands in the first of its rows.
        rows += [["", address, netmask or q.MISSING, *[""] * len(own)] for address, netmask in others]
    columns = ["interface", "address", "netmask", "gateway", "default of", "link layer", "state", "kind"]
    return q.Table("Network interfaces", [*columns, "MTU [B]"], rows, frozenset({8}))
