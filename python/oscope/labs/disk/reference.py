"""Figures of the original report, cited as its own: for shape and order of magnitude, never targets."""

from __future__ import annotations

from collections.abc import Mapping

_BLOCKS = tuple(1 << power for power in range(7, 23))


def _over_blocks(*figures: float) -> Mapping[int, float]:
    return dict(zip(_BLOCKS, figures, strict=True))


COLD = _over_blocks(439, 505, 405, 485, 472, 542, 462, 483, 527, 525, 494, 558, 692, 966, 837, 1052)
"""MiB/s by block size, caches dropped before each pass."""

WARM = _over_blocks(
    2321, 3141, 3512, 3778, 4145, 4471, 5292, 6400, 7393, 7557, 7907, 7847, 7939, 8098, 8102, 7200
)
"""MiB/s by block size, from the page cache."""

DD = _over_blocks(102, 167, 286, 371, 519, 373, 414, 419, 422, 380, 438, 455, 632, 852, 904, 849)
"""MiB/s of dd by block size, caches dropped before each pass."""

XOR_SECONDS: Mapping[int, tuple[int, int]] = {
    64: (24, 19),
    128: (41, 30),
    256: (18, 16),
    512: (17, 7),
    1024: (24, 12),
    2048: (20, 1),
    4096: (16, 0),
    8192: (7, 0),
    16384: (12, 0),
    32768: (7, 0),
    65536: (12, 0),
    131072: (8, 2),
    262144: (9, 0),
    524288: (14, 5),
    1048576: (2, 0),
    2097152: (5, 4),
    4194304: (12, 3),
}
"""Whole seconds (cold, warm) by block size, for an image of Ubuntu 21.04, four threads; each taken once."""
