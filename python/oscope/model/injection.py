"""What was injected into a run on purpose, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def injected_causes(injection: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the causes of an injection as a plan has it, as `--inject` takes them, such as `delay=2us`."""
    delay_ns, drift_ns_per_s = injection["delay_ns"], injection["drift_ns_per_s"]
    found = (
        *injection["causes"],
        *((f"delay={_duration(delay_ns)}",) if delay_ns else ()),
        # By this much in each second of the run.
        *((f"drift={_duration(drift_ns_per_s)}",) if drift_ns_per_s else ()),
    )
    # Nothing, injected by the code that injects: what a delay is compared with.
    return found or (("delay=0ns",) if injection["steady"] else ())


def _duration(ns: float) -> str:
    """Return nanoseconds as an option takes them, in the largest unit that is not above them."""
    factor, unit = next(((f, u) for f, u in ((1e9, "s"), (1e6, "ms"), (1e3, "us")) if ns >= f), (1.0, "ns"))
    return f"{ns / factor:.12g}{unit}"
