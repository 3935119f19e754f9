"""The lab's answers, in the order of the questions: each a section, or none if its experiment was not run."""

from __future__ import annotations

from oscope.labs.transfer import (
    content,
    device,
    integrity,
    large,
    meeting,
    network,
    pairs,
    small,
    traced,
    where,
)
from oscope.report.analysis import Analysed
from oscope.report.document import Section
from oscope.samples import Results


def sections(results: Results) -> list[Section]:
    """Return the lab's answers."""
    analysed = Analysed.of(results)
    answers = (large, small, content, where, traced, meeting, device, pairs, network, integrity)
    return [found for answer in answers if (found := answer.section(analysed)) is not None]
