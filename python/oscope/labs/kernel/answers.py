"""The lab's answers, in the order of the questions: each a section, or none if its experiment was not run."""

from __future__ import annotations

from oscope.figures.analysed import Analysed
from oscope.labs.kernel import fork, precious, reclaim, table_one
from oscope.model.document import Section
from oscope.model.samples import Results


def sections(results: Results) -> list[Section]:
    """Return the lab's answers."""
    analysed = Analysed.of(results)
    found = [
        precious.section(analysed),
        fork.section(analysed),
        table_one.section(analysed),
        *reclaim.sections(analysed),
    ]
    return [section for section in found if section is not None]
