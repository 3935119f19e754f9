"""What is looked at by one of Oscope's own commands: a program's start, devices, interfaces."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from oscope.model.factors import Profile
from oscope.tools.inspections.link_addresses import hide
from oscope.tools.inspections.own_command import ask, carry_out

EXPLAINED = ("cat", "/etc/os-release")
"""A program with a loader and a library, that reads a file in which nothing is personal."""


def explain(profile: Profile) -> dict[str, Any]:
    """Return what `oscope explain` prints of a small program: an object of `oscope.explain/1`."""
    del profile
    with tempfile.TemporaryDirectory(prefix="oscope-") as folder:
        path = Path(folder, "explained.json")
        # Of the languages of the person's own, dozens of files would be looked for.
        carry_out("explain", "--json", str(path), "--", *EXPLAINED, environment={"LC_ALL": "C"})
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found


def devices(profile: Profile) -> dict[str, Any]:
    """Return the device files held open: an object of `oscope.devices/1`."""
    del profile
    return ask("devices")


def interfaces(profile: Profile) -> dict[str, Any]:
    """Return the network interfaces: an object of `oscope.interfaces/1`, with link-layer addresses hidden."""
    del profile
    found: dict[str, Any] = hide(ask("interfaces"))
    return found
