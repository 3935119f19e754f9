"""`oscope devices`: the device files that processes hold open."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oscope.cli.errors import DONE, note
from oscope.report.terminal import aligned, console, print_columns
from oscope.tools.inventory.open_devices import find_open_devices

if TYPE_CHECKING:
    from oscope.tools.inventory.open_devices import Device, OpenDevice, OpenDevices

SCHEMA = "oscope.devices/1"
LONGEST_PATH = 36
"""Of a longer path, only the end is shown; --json has all."""
MOST_PROCESSES = 4
"""Processes named in a row."""


def devices(
    everything: Annotated[
        bool, typer.Option("--all", help="A row for each descriptor, instead of one for each device.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """List the device files that processes hold open, and what each device is.

    Devices mapped into memory are listed as well. Only root can inspect the processes of other users: the
    number of processes that could not be inspected is printed.
    """
    found = find_open_devices()
    if as_json:
        print(json.dumps(_to_object(found)))
    else:
        _print(found, everything=everything)
    if found.unreadable:
        remedy = "run it as root" if os.geteuid() else "they are kept from root as well"
        note(f"processes that could not be looked at: {found.unreadable}: {remedy}")
    return DONE


def _grouped(open_devices: Iterable[OpenDevice]) -> dict[Device, list[OpenDevice]]:
    """Return the holdings of each device, devices in the order of their kinds and numbers."""
    found: dict[Device, list[OpenDevice]] = {}
    for open_device in open_devices:
        found.setdefault(open_device.device, []).append(open_device)
    order = sorted(found, key=lambda one: (one.kind == "block", one.major, one.minor, one.path))
    return {device: found[device] for device in order}


def _print(found: OpenDevices, *, everything: bool) -> None:
    out = console()
    grouped = _grouped(found.open_devices)
    if not grouped:
        out.print("no device file is held open")
        return
    rows = [
        (device, open_devices)
        for device, all_of_it in grouped.items()
        for open_devices in ([[one] for one in all_of_it] if everything else [all_of_it])
    ]
    columns = [
        ["device", *(_path(device) for device, _ in rows)],
        aligned(["number", *(f"{device.major}:{device.minor}" for device, _ in rows)]),
        ["mode", *(_modes(open_devices) for _, open_devices in rows)],
        ["what it is", *(device.identity.purpose for device, _ in rows)],
        ["processes and descriptors", *(_holders(open_devices) for _, open_devices in rows)],
    ]
    print_columns(columns, out, wrap_last=True)


def _path(device: Device) -> str:
    name = device.identity.name
    shown = "".join(letter if letter.isprintable() else "?" for letter in device.path)
    usual = f"/dev/{name}"
    other = "" if shown in (usual, f"/{name}") else f" = {name}"
    if len(shown) > LONGEST_PATH:
        shown = f"…{shown[1 - LONGEST_PATH :]}"
    return f"{shown}{' (deleted)' if device.is_deleted else ''}{other}"


def _modes(open_devices: Sequence[OpenDevice]) -> str:
    return ", ".join(dict.fromkeys(open_device.mode for open_device in open_devices))


def _holders(open_devices: Sequence[OpenDevice]) -> str:
    """Tell who holds a device: `bash 1234: 0 1 2`."""
    holders = []
    grouped = _by_process(open_devices)
    for (pid, command), descriptors in list(grouped.items())[:MOST_PROCESSES]:
        name = "".join(letter if letter.isprintable() else "?" for letter in command)
        holders.append(f"{name} {pid}: {' '.join(descriptors)}")
    if (left := len(grouped) - MOST_PROCESSES) > 0:
        holders.append(f"and {left} more")
    return "; ".join(holders)


def _by_process(open_devices: Iterable[OpenDevice]) -> Mapping[tuple[int, str], list[str]]:
    found: dict[tuple[int, str], list[str]] = {}
    for open_device in open_devices:
        shown = "mapped" if open_device.descriptor is None else str(open_device.descriptor)
        found.setdefault((open_device.pid, open_device.command), []).append(shown)
    return found


def _to_object(found: OpenDevices) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "processes": found.processes,
        "unreadable": found.unreadable,
        "devices": [
            {
                "path": device.path,
                "deleted": device.is_deleted,
                "kind": device.kind,
                "major": device.major,
                "minor": device.minor,
                "name": device.identity.name,
                "what": device.identity.purpose,
                "held": [
                    {
                        "pid": one.pid,
                        "command": one.command,
                        "descriptor": one.descriptor,
                        "mapped": one.descriptor is None,
                        "mode": one.mode,
                    }
                    for one in open_devices
                ],
            }
            for device, open_devices in _grouped(found.open_devices).items()
        ],
    }
