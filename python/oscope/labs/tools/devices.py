"""Device files held open, by device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oscope.figures import plots
from oscope.figures.plots import Bars
from oscope.figures.words import counted
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import format_count

_MOST_NAMES = 5
_MOST_BARS = 20


def section(title: str, result: Mapping[str, Any]) -> Section:
    """Tell which devices are held open, by how many processes."""
    devices = result["devices"]
    most = max(devices, key=_processes, default=None)
    answer = f"Held open: {counted(len(devices), 'device file')}, by {counted_processes(_holders(devices))}"
    answer += f" of {counted_processes(result['processes'])}."
    if most is not None:
        answer += f" {most['path']} is held by most: {counted_processes(_processes(most))}."
    hidden = result["unreadable"]
    missing = f"{counted_processes(hidden)} could not be looked at by this user" if hidden else ""
    return Section(
        title=title,
        answer=answer,
        text=["Processes are given by their names alone. Paths are as their processes see them."],
        tables=[_table(devices)],
        figures=[_figure(devices)] if devices else [],
        missing=missing,
    )


def counted_processes(number: int) -> str:
    """Return `1 process`, `2 processes`."""
    return f"{format_count(number)} process{'' if number == 1 else 'es'}"


def _holders(devices: Sequence[Mapping[str, Any]]) -> int:
    return len({held["pid"] for device in devices for held in device["held"]})


def _processes(device: Mapping[str, Any]) -> int:
    return len({held["pid"] for held in device["held"]})


def _table(devices: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            f"{device['path']}{' (deleted)' if device['deleted'] else ''}",
            device["what"],
            ", ".join(dict.fromkeys(held["mode"] for held in device["held"])),
            format_count(_processes(device)),
            f"{device['major']}:{device['minor']}",
            device["name"],
            format_count(len(device["held"])),
            _names(device),
        ]
        for device in devices
    ]
    columns = ["path", "what it is", "mode", "processes", "number", "device", "descriptors", "names"]
    return Table("Device files held open", columns, rows, frozenset({3, 6}))


def _names(device: Mapping[str, Any]) -> str:
    names = sorted({held["command"] for held in device["held"]})
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


def _figure(devices: Sequence[Mapping[str, Any]]) -> Figure:
    shown = sorted(devices, key=_processes, reverse=True)[:_MOST_BARS]
    note = f"The {_MOST_BARS} held by most; the table has all." if len(devices) > _MOST_BARS else ""
    return plots.bars(
        "Processes that hold a device open",
        plots.axis("processes"),
        # Two mount namespaces may each have a device at the same path.
        [f"{device['path']} ({device['major']}:{device['minor']})" for device in shown],
        [Bars("processes", [float(_processes(device)) for device in shown])],
        note,
    )
