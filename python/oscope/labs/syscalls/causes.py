"""What makes the times vary: attribution to the recorded covariates, and what that says of four guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oscope.digits import MISSING, format_share, format_value
from oscope.labs.syscalls import guesses
from oscope.labs.syscalls.words import judged_points
from oscope.labs.words import counted, listed
from oscope.report import plots
from oscope.report.analysis import Analysed, measured
from oscope.report.document import Figure, Section, Table
from oscope.report.tables import meaning
from oscope.samples import Floats
from oscope.statistics.attribution import FEWEST_SAMPLES, LEAST_EXTREME, Attribution, attribute

NAMED = 6
"""Causes that get a colour of their own in the figure."""
TOLD = 3
"""Causes named in the answer."""
PLAIN = {"process": "differences between processes", "drift": "a trend over the run"}
SLOW_ROWS = 15
SLOW_EACH = 3
"""Slow samples listed of one point at most, so that one point does not fill the list."""


@dataclass(frozen=True)
class Attributed:
    """One point's metric with what goes with its variation."""

    name: str
    unit: str
    values: Floats
    """The values that were measured."""
    found: Attribution


def section(results: Analysed) -> Section | None:
    """Answer B4's first question."""
    every = _attributed(results)
    if not every:
        return None
    return Section(
        title="What makes the times vary",
        answer=_answer(results, every),
        text=[
            (
                "For each point the variance of its samples is shared out among the covariates recorded "
                "with every sample (the mean gain in R² over all orders of entry), to differences "
                "between processes, and to drift over the run. Covariates that rise and fall together "
                "count as one, named after the one that goes most with the time; the others stand in "
                "brackets. The few most extreme samples of a point are drawn in, lest one decide. What "
                "goes together need not be cause and effect."
            ),
            *_inseparable(every),
            *_thin(every),
            *_extreme(every),
        ],
        figures=_figure(every),
        tables=[
            guesses.table(results, {each.name: each.found for each in every}),
            _table(every),
            *_slow(every),
            *_glossary(results, every),
        ],
    )


def _attributed(results: Analysed) -> list[Attributed]:
    found = []
    for experiment, point, metric, name in judged_points(results):
        attribution = attribute(
            point.metrics[metric],
            point.covariates,
            point.block,
            started_ns=point.started_ns,
            seed=experiment.seed,
        )
        found.append(
            Attributed(name, experiment.metrics[metric].unit, measured(point, metric)[0], attribution)
        )
    return found


def _totals(every: Sequence[Attributed]) -> dict[str, float]:
    """Return the causes by their mean share over all points, the largest first."""
    totals: dict[str, float] = {}
    for each in every:
        for cause in each.found.causes:
            totals[cause.name] = totals.get(cause.name, 0.0) + cause.share / len(every)
    return dict(sorted(totals.items(), key=lambda pair: (-pair[1], pair[0])))


def _answer(results: Analysed, every: Sequence[Attributed]) -> str:
    judged = [each for each in every if each.found.enough and np.isfinite(each.found.unexplained)]
    if not judged:
        return f"Too few samples to say what makes the times vary: {FEWEST_SAMPLES} of a point are needed."
    totals = _totals(judged)
    rest = float(np.mean([each.found.unexplained for each in judged]))
    if not totals:
        points = counted(len(judged), "point")
        return f"Nothing that was recorded goes with the variation beyond chance at any of {points}."
    told = [
        f"{_percent(share)} {'' if index else 'of the variance goes '}with {_gloss(results, name)}"
        for index, (name, share) in enumerate(list(totals.items())[:TOLD])
    ]
    where = f"On average over {len(judged)} points" if len(judged) > 1 else f"Of “{judged[0].name}”"
    return f"{where}, {listed(told)}; for {_percent(rest)} no cause could be named beyond chance."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _gloss(results: Analysed, name: str) -> str:
    """Name a cause, with its meaning in brackets, since covariates have short names."""
    if name in PLAIN:
        return PLAIN[name]
    columns = [each.covariates[name] for each in results.experiments if name in each.covariates]
    text = meaning(columns[0]) if columns else name
    return name if text == name else f"{name} ({text[:1].lower()}{text[1:]})"


def _inseparable(every: Sequence[Attributed]) -> list[str]:
    """Say of each cause what cannot be told from it at the points where it was found."""
    along: dict[str, set[str]] = {}
    for each in every:
        for cause in each.found.causes:
            along.setdefault(cause.name, set()).update(cause.along)
    told = [
        f"{listed(sorted(others))} cannot be told from {name}" for name, others in along.items() if others
    ]
    return [f"At some points {'; '.join(told)}: they rise and fall together."] if told else []


def _thin(every: Sequence[Attributed]) -> list[str]:
    few = [each.name for each in every if not each.found.enough]
    told = listed(few) if len(few) <= NAMED else f"{counted(len(few), 'point')} of {len(every)}"
    return [f"Too few samples to judge ({FEWEST_SAMPLES} are needed): {told}."] if few else []


def _extreme(every: Sequence[Attributed]) -> list[str]:
    """Name the points whose shares leave out much of the variance, that of the few most extreme samples."""
    much = [each for each in every if each.found.extreme >= LEAST_EXTREME]
    if not much:
        return []
    most = max(much, key=lambda each: each.found.extreme)
    return [
        (
            f"At {counted(len(much), 'point')} of {len(every)} drawing in took off "
            f"{format_share(LEAST_EXTREME)} of the variance or more, most at “{most.name}” "
            f"({format_share(most.found.extreme)}): there the shares are of what is left, and "
            "the slowest samples are listed one by one."
        )
    ]


def _figure(every: Sequence[Attributed]) -> list[Figure]:
    judged = [each for each in every if each.found.enough and np.isfinite(each.found.unexplained)]
    if not judged:
        return []
    named = list(_totals(judged))[:NAMED]

    def share(each: Attributed, name: str) -> float:
        return 100 * sum(cause.share for cause in each.found.causes if cause.name == name)

    series = [plots.Bars(name, [share(each, name) for each in judged]) for name in named]
    others = [100 * sum(c.share for c in each.found.causes if c.name not in named) for each in judged]
    if any(others):
        series.append(plots.Bars("other covariates", others))
    series.append(
        plots.Bars("no cause named", [100 * each.found.unexplained for each in judged], role="reference")
    )
    value_axis = plots.axis("share of the variance [%]", range=[0, 100])
    names = [each.name for each in judged]
    note = "Only causes beyond chance have a colour."
    return [plots.stacked(plots.bars("Where the spread comes from", value_axis, names, series, note))]


def _table(every: Sequence[Attributed]) -> Table:
    rows = []
    for each in every:
        if not each.found.causes:
            rows.append([each.name, str(each.found.n), "nothing recorded, beyond chance"])
        for cause in each.found.causes:
            interval = f"{100 * cause.low:.0f} to {100 * cause.high:.0f}"
            rows.append(
                [
                    each.name,
                    str(each.found.n),
                    cause.label,
                    f"{100 * cause.share:.0f}",
                    interval,
                    cause.direction,
                ]
            )
    columns = ["point", "n", "goes with", "share [%]", "95 % interval [%]", "direction"]
    return Table(
        "Causes by point",
        columns,
        rows,
        frozenset({1, 3, 4}),
        "Direction: whether the time rises or falls with the covariate.",
    )


def _slow(every: Sequence[Attributed]) -> list[Table]:
    """List the slowest samples by their excess over the median, and what was out of the ordinary in them."""
    found = []
    for each in every:
        middle = float(np.median(each.values))
        found += [(slow.excess / middle, slow, each) for slow in each.found.slow[:SLOW_EACH] if middle > 0]
    found.sort(key=lambda item: (-item[0], item[2].name, item[1].index))
    rows = [
        [
            each.name,
            str(slow.index + 1),
            format_value(slow.value, slow.value / 100, each.unit),
            f"{1 + excess:.3g}",
            ", ".join(slow.causes) or f"{MISSING} nothing recorded was unusual",
        ]
        for excess, slow, each in found[:SLOW_ROWS]
    ]
    columns = ["point", "sample", "time", "times the median", "unusual in it"]
    return (
        [Table("The slowest samples, with what was unusual in them", columns, rows, frozenset({1, 3}))]
        if rows
        else []
    )


def _glossary(results: Analysed, every: Sequence[Attributed]) -> list[Table]:
    """Say what the covariates are that the answer names."""
    named = {name for each in every for cause in each.found.causes for name in cause.names}
    known = {name: column for each in results.experiments for name, column in each.covariates.items()}
    rows = [[name, column.unit or MISSING, column.doc] for name, column in known.items() if name in named]
    return [Table("What the named covariates are", ["name", "unit", "meaning"], rows)] if rows else []
