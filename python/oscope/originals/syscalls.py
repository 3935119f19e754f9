"""Figures of the original reports, cited as theirs: for shape and order of magnitude, never targets."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.questions.cited_iterations import Cited

MY_PRECIOUS = Cited.of(9082, 8491, 12096, 11904, 8368, 8038, 9738, 12284, 8099, 8275)
FORK_CHILD = Cited.of(441178, 372276, 331146, 1637624, 364679, 264381, 295363, 334424, 877629, 306909)
FORK_PARENT = Cited.of(308194, 208966, 176359, 212812, 277028, 138237, 145741, 255372, 136247, 154925)
"""Table 1 of the report on a new system call (Linux 5.0), in cycles."""

CALLS_PER_SECOND: Mapping[str, float] = {
    "read": 1.03041e6,
    "lseek": 1.51284e6,
    "getpid": 1.19449e6,
    "gethostid": 130980.0,
}
"""Calls a second, from the report on disk reads; it counts each call as one byte."""
