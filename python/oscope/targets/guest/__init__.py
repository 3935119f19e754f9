"""Guests: virtual machines under a kernel of choice, in which the same probe measures as on this machine.

Importing this is cheap; booting is in `oscope.targets.guest.target` and `oscope.targets.guest.boot`.
"""
