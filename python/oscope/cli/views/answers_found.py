"""What a run found, in one sentence for each question that it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from oscope.figures.analysed import WORDS, Analysed, label
from oscope.figures.answer_text import median
from oscope.labs import LABS
from oscope.model.samples import ExperimentResults
from oscope.programs.findings import answers
from oscope.report.build import headlines

MOST_ANSWERS = 12
"""Comparisons of a bench that get a sentence; its table has every command."""
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)\s+(?=[A-Z0-9(“‘])")


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence; a point within a number ends none."""
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]


def sentences(results: Analysed) -> list[str]:
    """Return the first sentences of the labs' answers, as many as there are experiments and inspections.

    Where no lab answers, a bench has its own answers, and another experiment is described by its extremes.
    """
    found = [first_sentence(answer) for answer in islice(headlines(results, LABS), len(results.parts))]
    return found or [
        text
        for experiment in results.experiments
        for text in answers(results, experiment)[:MOST_ANSWERS] or _extremes(results, experiment)
    ]


def _extremes(results: Analysed, experiment: ExperimentResults) -> Iterator[str]:
    """Yield what the headline metric is: at the only point, or where it is least and where it is most."""
    metric = experiment.headline
    if metric in WORDS:
        return
    found = [(point, results.summary(experiment, point, metric)) for point in experiment.points]
    known = [(point, summary) for point, summary in found if summary is not None]
    if not known:
        return
    unit, varied = experiment.metrics[metric].shown_unit, experiment.varied() or experiment.names
    low, high = (choose(known, key=lambda each: each[1].median) for choose in (min, max))
    texts = [
        " at ".join(filter(None, (median(s, unit), label(experiment, p.factors, varied))))
        for p, s in (low, high)
    ]
    what = experiment.title.removesuffix(".") or experiment.experiment
    yield f"{what}: {texts[0]}." if len(known) == 1 else f"{what}: from {texts[0]} to {texts[1]}."
