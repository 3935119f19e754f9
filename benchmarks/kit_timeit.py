#!/usr/bin/env python3
"""A checksum, by the Python kit's loop and by timeit's: only the loops differ.

It takes the same time for all data and wherever they lie. Sorting a shuffled list does not: what the CPU
learns of its branches makes 10 % between one loop and another.
"""

import timeit
import zlib
from collections.abc import Callable
from typing import Any

import oscope.workload as kit

DEFAULT_SIZE = kit.Size(16384)


def checksum(size: int) -> Callable[[], Any]:
    """Return what one iteration is."""
    data = bytes(size)
    return lambda: zlib.crc32(data)


@kit.workload("crc.kit")
def by_the_kit(size: kit.Size = DEFAULT_SIZE) -> Callable[[], Any]:
    """Compute a checksum; the kit loops."""
    return checksum(size)


@kit.workload("crc.timeit", metrics={"timeit_ns": kit.Metric("ns")}, loops=True)
def by_timeit(size: kit.Size = DEFAULT_SIZE) -> Callable[[int], dict[str, float]]:
    """Compute a checksum; timeit loops and reads its clock."""
    timer = timeit.Timer("iteration()", globals={"iteration": checksum(size)})
    return lambda iterations: {"timeit_ns": 1e9 * timer.timeit(iterations) / iterations}


kit.main()
