"""What a comparison says of a side into which interference was injected on purpose."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.model.injection import injected_causes
from oscope.model.samples import ExperimentResults


def caveats(sides: Mapping[str, ExperimentResults]) -> list[str]:
    """Return a caveat for each side, given under its name, that was measured with injected interference."""
    return [
        f"{name} was measured with injected interference ({', '.join(injected_causes(injection))}): "
        "no clean measurement"
        for name, side in sides.items()
        if (injection := side.settings.get("injection"))
    ]
