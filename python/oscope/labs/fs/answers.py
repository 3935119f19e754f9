"""The lab's answers, in the order of the questions: each a section, or none if its experiment was not run."""

from __future__ import annotations

from oscope.figures.analysed import Analysed
from oscope.labs.fs import choice, fuse, local, times, trips, wins
from oscope.model.document import Section
from oscope.model.samples import Results


def sections(results: Results) -> list[Section]:
    """Return the lab's answers."""
    analysed = Analysed.of(results)
    found = [
        wins.section(analysed),
        trips.section(analysed),
        choice.section(analysed),
        times.section(analysed),
        *local.sections(analysed),
        fuse.section(analysed),
    ]
    return [section for section in found if section is not None]
