"""Guests: virtual machines under a kernel of choice, in which the same probe measures as on this machine.

Importing this is cheap; booting is in `oscope.guest.place` and `oscope.guest.boot`.
"""

from oscope.guest.guest import CPUS, MEMORY_BYTES, Guest

__all__ = ["CPUS", "MEMORY_BYTES", "Guest"]
