"""The lab's answers, in the order of the questions: each a section, or none if its experiment was not run."""

from __future__ import annotations

from oscope.figures.analysed import Analysed
from oscope.labs.disk import caches, checksum, drift, drop_caches, engines, sweep, time_breakdown, writing
from oscope.labs.syscalls import throughput
from oscope.model.document import Section
from oscope.model.samples import Results


def sections(results: Results) -> list[Section]:
    """Return the lab's answers."""
    analysed = Analysed.of(results)
    answers = (sweep, caches, time_breakdown, engines, drift, checksum, writing, drop_caches, throughput)
    return [found for answer in answers if (found := answer.section(analysed)) is not None]
