"""What makes the times vary: attribution to the recorded covariates, and what that says of four guesses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.figures import variation
from oscope.figures.analysed import Analysed
from oscope.figures.variation import NAMED, Attributed
from oscope.figures.words import counted, listed
from oscope.labs.engine.words import capital
from oscope.labs.syscalls import guesses
from oscope.labs.syscalls.judged import judged_points
from oscope.model.document import Section
from oscope.model.formatting import format_share
from oscope.statistics.attribution import FEWEST_SAMPLES, LEAST_EXTREME


def section(results: Analysed) -> Section | None:
    """Answer B4's first question."""
    every = _attributed(results)
    if not every:
        return None
    drawn = variation.figure(every)
    return Section(
        title="What makes the times vary",
        answer=_answer(results, every),
        text=[
            (
                "Variance is shared out among the covariates recorded with every sample (mean gain in R² "
                "over all orders of entry), processes and drift. Covariates that rise and fall together "
                "count as one."
            ),
            (
                "Each share comes from samples that did not select the covariate; the most extreme samples "
                "are winsorized. An association need not be cause and effect."
            ),
            *_thin(every),
            *_extreme(every),
        ],
        figures=[] if drawn is None else [drawn],
        tables=[
            guesses.table(results, {each.name: each.found for each in every}),
            variation.table(every),
            *variation.tails(every),
            *variation.slow(every),
            *variation.glossary(results, every),
        ],
    )


def _attributed(results: Analysed) -> list[Attributed]:
    return [
        variation.attributed(results, point.run.experiment, point.samples, point.metric, name)
        for name, point in judged_points(results)
    ]


def _answer(results: Analysed, every: Sequence[Attributed]) -> str:
    judged = [each for each in every if each.judged]
    if not judged:
        return f"Too few samples to say what makes the times vary: {FEWEST_SAMPLES} of a point are needed."
    totals = variation.totals(judged)
    rest = float(np.mean([each.found.unexplained for each in judged]))
    if not totals:
        points = counted(len(judged), "point")
        return f"No recorded covariate is associated with the variance beyond chance at any of {points}."
    name, share = next(iter(totals.items()))
    where = f"on average over {len(judged)} points" if len(judged) > 1 else f"at “{judged[0].name}”"
    return (
        f"{capital(where)}, {_percent(share)} of the variance is associated with "
        f"{variation.gloss(results, name)}; for {_percent(rest)} no cause was found."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _thin(every: Sequence[Attributed]) -> list[str]:
    few = [each.name for each in every if not each.found.enough]
    which = listed(few) if len(few) <= NAMED else f"{counted(len(few), 'point')} of {len(every)}"
    return [f"Too few samples to judge ({FEWEST_SAMPLES} are needed): {which}."] if few else []


def _extreme(every: Sequence[Attributed]) -> list[str]:
    """Name the points whose shares leave out much of the variance, that of the few most extreme samples."""
    much = [each for each in every if each.found.extreme >= LEAST_EXTREME]
    if not much:
        return []
    most = max(much, key=lambda each: each.found.extreme)
    return [
        (
            f"At {counted(len(much), 'point')} of {len(every)} winsorizing took off "
            f"{format_share(LEAST_EXTREME)} of the variance or more, most at “{most.name}” "
            f"({format_share(most.found.extreme)}): there the shares are of what is left, and the tail is "
            "explained by itself."
        )
    ]
