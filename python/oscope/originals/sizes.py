"""Sizes of the files that the original reports measured with: experiments have them as levels."""

SMALL = (4, 107, 167, 207, 255, 383, 351, 507, 457, 577)
"""Bytes of the original report's small files, in its order."""
TARGET = 1_502_860
"""Bytes of its larger file."""
