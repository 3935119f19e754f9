"""Groups of values: parts of them that lie further apart than the values of one part do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def parted(values: Sequence[float], gap: float) -> list[list[float]]:
    """Return `values` in rising order, parted where two neighbours are more than `gap` apart."""
    ordered = sorted(values)
    found = [ordered[:1]]
    for low, high in pairwise(ordered):
        if high - low > gap:
            found.append([])
        found[-1].append(high)
    return [each for each in found if each]
