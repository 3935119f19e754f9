"""A client's conversation as a sequence figure in text: a column for it, for each relay and each server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oscope.tools.dhcp.conversation import NS_PER_S, CapturedMessage

_LEAST_GAP = 20
"""The label of an arrow, such as DISCOVER, and an address have to fit."""
_MOST_GAP = 48
_MARGIN = 22
"""Room for a packet's number and time."""
_EVERYBODY = "255.255.255.255"


def sequence(
    name: str, messages: Sequence[CapturedMessage], start_ns: int | None, width: int
) -> Iterator[str]:
    """Yield the lines of the figure of one client called `name`, `width` columns wide if that is enough.

    Times are seconds since `start_ns`.
    """
    lanes = _lanes(messages)
    labels = [name, *(f"{role} {address}" for address, role in lanes.items())]
    gap = _gap(labels, len(labels[-1]), width)
    if max(map(len, labels[:-1])) > gap - 2 or _MARGIN + gap * len(lanes) + len(labels[-1]) > width:
        # What each is stands above its address, which is never cut.
        gap = _gap(labels, max(map(len, lanes)), width)
        yield (" " * (_MARGIN + gap) + "".join(role.ljust(gap) for role in lanes.values())).rstrip()
        labels = [name, *lanes]
        if len(name) > gap - 2:
            yield " " * _MARGIN + name
            labels[0] = ""
    yield (" " * _MARGIN + "".join(label.ljust(gap) for label in labels)).rstrip()
    places = {address: index + 1 for index, address in enumerate(lanes)}
    for one in messages:
        yield _line(one, places, start_ns, gap)


def _gap(labels: Sequence[str], last: int, width: int) -> int:
    """Return how far the lanes are apart where the label of the last one takes `last` columns."""
    return min(max((width - _MARGIN - last) // (len(labels) - 1), _LEAST_GAP), _MOST_GAP)


def _lanes(messages: Sequence[CapturedMessage]) -> dict[str, str]:
    """Return the addresses other than the client's, relays first, and what each is."""
    relays = [one.message.relay for one in messages if one.message.relay]
    servers = [one.message.server or one.packet.source for one in messages if one.is_from_server]
    servers += [one.message.server for one in messages if one.kind == "RELEASE" and one.message.server]
    lanes = dict.fromkeys(relays, "relay") | {
        server: "server" for server in dict.fromkeys(servers) if server not in relays
    }
    return lanes or {_EVERYBODY: "everybody"}


def _line(one: CapturedMessage, places: dict[str, int], start_ns: int | None, gap: int) -> str:
    source, destination = _ends(one, places)
    left, right = sorted((source, destination))
    width = (right - left) * gap - 1
    label = f" {one.kind or '?'} "
    if source < destination:
        arrow = f"──{label}".ljust(width - 1, "─") + "▶"
    else:
        arrow = "◀" + f"{label}──".rjust(width - 1, "─")
    drawn = [" " * gap] * (len(places) + 1)
    cells = "".join(f"│{' ' * (gap - 1)}" for _ in drawn).rstrip()
    body = f"{cells[: left * gap]}│{arrow}{cells[right * gap :]}"
    return f"{_when(one, start_ns):<{_MARGIN}}{body}".rstrip()


def _when(one: CapturedMessage, start_ns: int | None) -> str:
    time = one.packet.time_ns
    since = "" if time is None or start_ns is None else f"{(time - start_ns) / NS_PER_S:.6f} s"
    return f"#{one.number} {since:>{_MARGIN - len(str(one.number)) - 4}}"


def _ends(one: CapturedMessage, places: dict[str, int]) -> tuple[int, int]:
    """Return the columns between which a message goes; the client's is 0."""
    last = max(places.values())
    if one.is_from_server:
        source = places.get(one.packet.source) or places.get(one.message.server or "", last)
        destination = places.get(one.packet.destination, 0)
    else:
        source = places.get(one.packet.source, 0)
        # What goes to everybody is drawn to whoever is next to answer.
        destination = places.get(one.packet.destination) or places.get(one.message.server or "", 0)
        if destination <= source:
            destination = source + 1 if source < last else last
    if source == destination:
        ends = (0, destination or last)
        return ends[::-1] if one.is_from_server else ends
    return source, destination
