"""A program of the user's own that tests measure: it sorts a list."""

from __future__ import annotations

import sys

from cli_driver import ROOT

PROGRAM = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT / "python")!r})
import oscope.workload as kit

@kit.workload("sort.list")
def sort_list(size: int = 100):
    "Sort a list of numbers."
    numbers = list(range(size, 0, -1))
    return lambda: sorted(numbers)

kit.main()
"""
