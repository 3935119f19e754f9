"""The messages of a DHCP scenario as a sequence: clients and server, in the order of their times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from oscope.figures.answer_text import counted
from oscope.figures.sequence import Message, sequence
from oscope.model.document import Figure
from oscope.tools.dhcp.lab.plan import CLIENT, SECOND, SERVER

_LANES = (CLIENT.name, SERVER.name, SECOND.name)
"""The server stands between its clients."""
_MOST_ALIKE = 2
"""Messages of one kind and client in a row that are drawn one by one."""


def draw(scenario: Mapping[str, Any], hosts: Mapping[str, str]) -> Figure:
    """Draw the messages of a scenario between the hosts, which are given with their addresses."""
    messages = scenario["messages"]
    present = {name for one in messages for name in (one["source"], one["client"])}
    lanes = [name for name in _LANES if name in present]
    note = f"In the order of their times, not to scale: {scenario['about']}. # is the server's packet."
    if any(_is_lost(one) for one in messages):
        note += " What is lost is as the client's end sent it."
    named = [f"{name} {hosts[name]}" for name in lanes]
    return sequence(f"Scenario {scenario['name']}", named, list(_drawn(messages, lanes)), note)


def _is_lost(message: Mapping[str, Any]) -> bool:
    return SERVER.name not in message["packets"]


def _drawn(messages: Sequence[Mapping[str, Any]], lanes: Sequence[str]) -> Iterator[Message]:
    """Yield the arrows; of many alike in a row the first, and how many follow."""
    for _, group in groupby(messages, key=lambda one: (one["kind"], one["client"], _is_lost(one))):
        alike = list(group)
        shown = alike if len(alike) <= _MOST_ALIKE else alike[:1]
        for one in shown:
            yield _arrow(one, lanes, f"{one['kind']}{' (lost)' if _is_lost(one) else ''}")
        if len(alike) > len(shown):
            more = counted(len(alike) - 1, "more time")
            yield _arrow(alike[-1], lanes, f"{alike[-1]['kind']}, {more}")


def _arrow(one: Mapping[str, Any], lanes: Sequence[str], text: str) -> Message:
    number = one["packets"].get(SERVER.name)
    packet = "" if number is None else f"#{number}  "
    to = one["client"] if one["source"] == SERVER.name else SERVER.name
    ends = lanes.index(one["source"]), lanes.index(to)
    return Message(f"{packet}{one['t_s']:.3f} s", *ends, text, _is_lost(one))
