"""The lab's answers, in the order of the questions: each a section, or none if its experiment was not run."""

from __future__ import annotations

from oscope.figures.analysed import Analysed
from oscope.labs.ipc import (
    calls,
    effect,
    faults,
    in_calls,
    knee,
    latency,
    performance,
    sizes,
    socket_buffer,
    switching,
    threads,
)
from oscope.model.document import Section
from oscope.model.samples import Results


def sections(results: Results) -> list[Section]:
    """Return the lab's answers."""
    analysed = Analysed.of(results)
    answers = (
        performance,
        latency,
        sizes,
        socket_buffer,
        in_calls,
        switching,
        knee,
        threads,
        calls,
        faults,
        effect,
    )
    return [found for answer in answers if (found := answer.section(analysed)) is not None]
