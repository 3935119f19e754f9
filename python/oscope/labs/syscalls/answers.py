"""The lab's answers, in the order of the questions: each a section, or none if its experiment was not run."""

from __future__ import annotations

from oscope.figures.analysed import Analysed
from oscope.labs.syscalls import causes, cost, estimator, page_tables, shape, table_one, throughput
from oscope.model.document import Section
from oscope.model.samples import Results


def sections(results: Results) -> list[Section]:
    """Return the lab's answers."""
    analysed = Analysed.of(results)
    answers = (cost, throughput, table_one, page_tables, shape, causes, estimator)
    return [found for answer in answers if (found := answer.section(analysed)) is not None]
