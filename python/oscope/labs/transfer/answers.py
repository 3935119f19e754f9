"""The lab's answers, in the order of the questions: each a section, or none if its experiment was not run."""

from __future__ import annotations

from dataclasses import replace

from oscope.figures.analysed import Analysed
from oscope.labs.transfer import (
    content,
    device,
    inputs,
    integrity,
    large,
    network,
    pairs,
    rendezvous,
    small,
    time_breakdown,
    traced,
)
from oscope.labs.transfer.points import busy
from oscope.model.document import Section
from oscope.model.samples import ExperimentResults, Results


def sections(results: Results) -> list[Section]:
    """Return the lab's answers."""
    analysed = Analysed.of(results)
    answers = (
        (large.section, ("transfer.large",)),
        (inputs.section, ("transfer.inputs", "transfer.device-inputs")),
        (small.section, ("transfer.small",)),
        (content.section, ("transfer.large",)),
        (time_breakdown.section, ("transfer.large", "transfer.copy")),
        (traced.section, ("transfer.trace",)),
        (rendezvous.section, ("transfer.meeting",)),
        (device.section, ("transfer.device",)),
        (pairs.section, ("transfer.copy",)),
        (network.section, ("transfer.network",)),
        (integrity.section, ()),
    )
    found = []
    for answer, names in answers:
        section = answer(analysed)
        if section is not None:
            # The first that was measured is what the section is of.
            source = next((each for name in names if (each := results.get(name)) is not None), None)
            found.append(_cautioned(section, source))
    return found


def _cautioned(section: Section, source: ExperimentResults | None) -> Section:
    """Add to an answer that the machine was busy when its figures were taken."""
    caution = "" if source is None or not section.answer else busy(source)
    return replace(section, answer=f"{section.answer} {caution}") if caution else section
