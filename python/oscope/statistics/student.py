"""Tests and limits by Student's t and the normal distribution.

By `scipy.special`, which has the functions alone: `scipy.stats` checks and broadcasts arguments at each call,
which takes longer than a comparison's arithmetic, and takes a second to import.
"""

from __future__ import annotations

import scipy

LEVEL = 0.05


def limit(dof: float, level: float = LEVEL) -> float:
    """Return what |t| exceeds in a share `level` of cases; NaN without a degree of freedom."""
    return -float(scipy.special.stdtrit(dof, level / 2))


def two_sided(t: float, dof: float) -> float:
    """Return p of "no effect", for a `t` that is at least 0."""
    return 2 * float(scipy.special.stdtr(dof, -t))


def normal_limit(level: float = LEVEL) -> float:
    """Return what |z| exceeds in a share `level` of cases."""
    return -float(scipy.special.ndtri(level / 2))


def normal_two_sided(z: float) -> float:
    """Return p of "no effect", for a `z` that is at least 0."""
    return 2 * float(scipy.special.ndtr(-z))
