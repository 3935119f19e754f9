"""How the commands word what the browser shows as well: one wording, one number of digits.

The commands' own modules have these functions; they are given to the application, which must not import them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oscope.model.document import Table

if TYPE_CHECKING:
    from oscope.analysis.run_history import Line, Series


@dataclass(frozen=True)
class Wording:
    """Functions of the command `history`."""

    name: Callable[[Line, Series], str]
    """What distinguishes a series from the others of its line."""
    series: Callable[[Line, Series], Table]
    """The runs of a series: median, interval, and what changed where."""
    changes: Callable[[Line], Iterable[str]]
    """A sentence for each change of a line, or why none can be found, and other remarks."""
