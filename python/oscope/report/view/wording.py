"""How the commands word what the browser shows as well: one wording, one number of digits.

The commands' own modules have these functions; they are given to the application, which must not import them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oscope.model.document import Table
from oscope.model.samples import ExperimentResults

if TYPE_CHECKING:
    from oscope.analysis.history import Line, Series
    from oscope.statistics import Comparison


@dataclass(frozen=True)
class Wording:
    """Functions of the commands `compare` and `history`."""

    comparison: Callable[[ExperimentResults, ExperimentResults, Comparison], Table]
    """The table of a comparison of A and B, with all of its columns."""
    verdict: Callable[[Comparison], str]
    """What all rows of a comparison say together."""
    caveats: Callable[[Comparison], Iterable[str]]
    """The notes under a comparison."""
    name: Callable[[Line, Series], str]
    """What distinguishes a series from the others of its line."""
    series: Callable[[Line, Series], Table]
    """The runs of a series: median, interval, and what changed where."""
    changes: Callable[[Line], Iterable[str]]
    """A sentence for each change of a line, or why none can be found, and other remarks."""
