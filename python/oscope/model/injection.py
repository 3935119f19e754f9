"""What was injected into a run on purpose, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def injected_causes(injection: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the causes of an injection as a plan has it, those in the measured region with amounts."""
    delay_ns, drift_ns_per_s = injection["delay_ns"], injection["drift_ns_per_s"]
    found = (
        *injection["causes"],
        *((f"delay={delay_ns:g} ns",) if delay_ns else ()),
        *((f"drift={drift_ns_per_s:g} ns/s",) if drift_ns_per_s else ()),
    )
    # Nothing, injected by the code that injects: what a delay is compared with.
    return found or (("delay=0 ns",) if injection["steady"] else ())
