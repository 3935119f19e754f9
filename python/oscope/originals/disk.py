"""Figures of the original report, cited as its own: for shape and order of magnitude, never targets."""

from __future__ import annotations

from collections.abc import Mapping


def _over_blocks(*figures: int) -> Mapping[int, int]:
    """Return the figures by block size, of which the largest is 4 MiB."""
    return {1 << (23 - len(figures) + index): figure for index, figure in enumerate(figures)}


COLD = _over_blocks(439, 505, 405, 485, 472, 542, 462, 483, 527, 525, 494, 558, 692, 966, 837, 1052)
"""MiB/s by block size, caches dropped before each pass."""

WARM = _over_blocks(
    2321, 3141, 3512, 3778, 4145, 4471, 5292, 6400, 7393, 7557, 7907, 7847, 7939, 8098, 8102, 7200
)
"""MiB/s by block size, from the page cache."""

DD = _over_blocks(102, 167, 286, 371, 519, 373, 414, 419, 422, 380, 438, 455, 632, 852, 904, 849)
"""MiB/s of dd by block size, caches dropped before each pass."""

XOR_COLD = _over_blocks(24, 41, 18, 17, 24, 20, 16, 7, 12, 7, 12, 8, 9, 14, 2, 5, 12)
XOR_WARM = _over_blocks(19, 30, 16, 7, 12, 1, 0, 0, 0, 0, 0, 2, 0, 5, 0, 4, 3)
"""Whole seconds by block size, from 64 B on: an image of Ubuntu 21.04, four threads; each taken once."""
