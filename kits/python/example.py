#!/usr/bin/env python3
"""Two workloads: sorting, and writing a file to a disk.

oscope run --workload ./example.py sort.list --set size=1000,100000 --set order=random,sorted
"""

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Literal

import oscope.workload as kit

PAGE = kit.Size(4096)


@kit.workload("sort.list")
def sort_list(size: int = 1000, order: Literal["random", "sorted"] = "random") -> Callable[[], Any]:
    """Sort a list of numbers."""
    numbers = list(range(size))
    if order == "random":
        random.Random(1).shuffle(numbers)  # noqa: S311 - the same order in each process
    return lambda: sorted(numbers)


@kit.workload("file.sync", metrics={"written_bytes": kit.Metric("B", doc="Bytes that an iteration wrote.")})
def sync_file(size: kit.Size = PAGE) -> Iterator[Callable[[], dict[str, float]]]:
    """Write a file and wait for the disk."""
    data = bytes(size)
    with tempfile.TemporaryFile(dir=".") as file:

        def iterate() -> dict[str, float]:
            written = os.pwrite(file.fileno(), data, 0)
            os.fsync(file.fileno())
            if written != size:
                raise kit.Failed(f"{written} of {size} bytes were written")
            return {"written_bytes": written}

        yield iterate


kit.main()
