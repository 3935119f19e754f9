"""The DHCP lab, played here and now, and what its captures show."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from oscope.model.factors import Profile
from oscope.tools.dhcp.lab import scenario_runner
from oscope.tools.dhcp.lab.result import Result, capture_name, to_object

QUICK = ("lease", "renew", "release")
FULL = (*QUICK, "t1", "lost")
"""The last one takes as long as the shortest lease that the server gives, the one before it half of that."""


def play(profile: Profile) -> dict[str, Any]:
    """Play the scenarios of `profile`: an object of `oscope.dhcp-lab/1`, without the folder of the captures.

    Raises OscopeError where they cannot be played here. The link-layer addresses are whole: the lab makes
    them up, from those for documentation.
    """
    scenario_runner.check()
    names = QUICK if profile == "quick" else FULL
    played = scenario_runner.play(names, _ignore, _ignore)
    with tempfile.TemporaryDirectory(prefix="oscope-") as name:
        folder = Path(name)
        for scenario in names:
            for end, content in played[scenario].captures.items():
                (folder / capture_name(scenario, end)).write_bytes(content)
        results = [Result(scenario, played[scenario], folder) for scenario in names]
        found = to_object(results, folder, scenario_runner.versions())
    del found["folder"]
    return found


def _ignore(*_: object) -> None:
    """Tell nobody how it comes along: the run's progress names the inspection."""
