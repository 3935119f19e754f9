"""Interference that was injected into a run on purpose: what it was, and what a comparison says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.model.samples import ExperimentResults


def causes(injection: Mapping[str, Any]) -> tuple[str, ...]:
    """Return every injected cause, those in the measured region with their amounts."""
    delay_ns, drift_ns_per_s = injection["delay_ns"], injection["drift_ns_per_s"]
    found = (
        *injection["causes"],
        *((f"delay={delay_ns:g} ns",) if delay_ns else ()),
        *((f"drift={drift_ns_per_s:g} ns/s",) if drift_ns_per_s else ()),
    )
    # Nothing, injected by the code that injects: what a delay is compared with.
    return found or (("delay=0 ns",) if injection["steady"] else ())


def caveats(sides: Mapping[str, ExperimentResults]) -> list[str]:
    """Return a caveat for each side, given under its name, that was measured with injected interference."""
    return [
        f"{name} was measured with injected interference ({', '.join(causes(injection))}): "
        "no clean measurement"
        for name, side in sides.items()
        if (injection := side.settings.get("injection"))
    ]
