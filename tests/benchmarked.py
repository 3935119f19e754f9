"""Measures a benchmark module as short as can be."""

from __future__ import annotations

from bars import Effort
from module_run import parts_of, run


def measured(name: str) -> None:
    """Measure all parts of a module that have a short round, and see that there is a figure of every bar."""
    parts = parts_of(name)
    indices = [index for index, part in enumerate(parts) if part.seconds(Effort.SMOKE) is not None]
    assert indices
    events = list(run(parts, Effort.SMOKE, indices))
    assert [event["why"] for event in events if "failed" in event] == []
    lacking = {event["unmeasured"]: event["why"] for event in events if "unmeasured" in event}
    assert all(why.startswith(("install ", "needs root")) for why in lacking.values()), lacking
    bars = [bar for index in indices if index not in lacking for bar in parts[index].bars]
    figures = [event["bar"] for event in events if "bar" in event]
    assert sorted(figures) == sorted(bar.name for bar in bars if not bar.lacks)
