"""Where the spread of a metric comes from: causes by point, the slowest samples, as figures and tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, label, measured
from oscope.figures.tables import meaning
from oscope.model.document import Figure, Table
from oscope.model.formatting import MISSING, format_count, format_share, format_value
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.statistics.attribution import FEWEST_SAMPLES, LEAST_EXTREME, Attribution
from oscope.statistics.stepwise_selection import LEAST_SHARE
from oscope.statistics.tail import Tail, TailCause

NAMED = 6
"""Causes that get a colour of their own in the figure."""
PLAIN = {"process": "differences between processes", "drift": "a trend over the run"}
SLOW_ROWS = 15
SLOW_EACH = 3
"""Slow samples listed of one point at most, so that one point does not fill the list."""
TAIL_POINTS = 15
TAIL_EACH = 4
"""Covariates listed of one point's tail at most."""
OWN = "own CPU time, without a cause"


@dataclass(frozen=True)
class Attributed:
    """One point's metric with the covariates associated with its variance."""

    name: str
    unit: str
    values: Floats
    """The values that were measured."""
    found: Attribution
    units: Mapping[str, str] = field(default_factory=dict)
    """Of the covariates."""
    shared: frozenset[str] = frozenset()
    """Names of covariates that metrics have too, as of a program that was measured: another quantity."""

    def labelled(self, text: str) -> str:
        """Return a text with "(measuring thread)" behind each covariate that has a metric's name."""
        if not self.shared:
            return text
        return re.sub(rf"\b({'|'.join(sorted(self.shared))})\b", r"\1 (measuring thread)", text)

    @property
    def judged(self) -> bool:
        """Whether it had samples enough, and they vary."""
        return self.found.enough and bool(np.isfinite(self.found.unexplained))


def attributed(
    results: Analysed, experiment: ExperimentResults, point: PointSamples, metric: str, name: str
) -> Attributed:
    """Attribute the variation of one metric at one point, which figures and tables call `name`."""
    found = results.attribution(experiment, point, metric)
    units = {name: column.unit or "" for name, column in experiment.covariates.items()}
    shared = frozenset(experiment.metrics) & frozenset(units)
    return Attributed(name, experiment.metrics[metric].unit, measured(point, metric)[0], found, units, shared)


def of_experiment(results: Analysed, experiment: ExperimentResults, metric: str) -> list[Attributed]:
    """Return the attribution of every point that has values, named by the factors that vary."""
    names = experiment.varied()
    return [
        attributed(results, experiment, point, metric, label(experiment, point.factors, names) or metric)
        for point in experiment.points
        if len(measured(point, metric)[0])
    ]


def totals(every: Sequence[Attributed]) -> dict[str, float]:
    """Return the causes by their mean share over all points, the largest first."""
    found: dict[str, float] = {}
    for each in every:
        for cause in each.found.causes:
            found[cause.name] = found.get(cause.name, 0.0) + cause.share / len(every)
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def figure(every: Sequence[Attributed]) -> Figure | None:
    """Draw the shares of each point's causes, end to end; None where no point can be judged."""
    judged = [each for each in every if each.judged]
    if not judged:
        return None
    named = list(totals(judged))[:NAMED]

    def share(each: Attributed, name: str) -> float:
        return 100 * sum(cause.share for cause in each.found.causes if cause.name == name)

    series = [plots.Bars(judged[0].labelled(name), [share(each, name) for each in judged]) for name in named]
    others = [100 * sum(c.share for c in each.found.causes if c.name not in named) for each in judged]
    if any(others):
        series.append(plots.Bars("other covariates", others))
    own = [100 * own_share(each.found) for each in judged]
    if any(own):
        series.append(plots.Bars(OWN, own))
    rest = [100 * each.found.unexplained - mine for each, mine in zip(judged, own, strict=True)]
    series.append(plots.Bars("no cause named", rest, role="reference"))
    value_axis = plots.axis("share of the variance [%]", range=[0, 100])
    names = [each.name for each in judged]
    note = "Colours are causes beyond chance; grey is unexplained."
    if any(own):
        note = "Colours are causes beyond chance, but for own CPU time: that and grey are unexplained."
    return plots.stacked(plots.bars("Where the spread comes from", value_axis, names, series, note))


def own_share(found: Attribution) -> float:
    """Return the share associated with the measured code's own CPU time; 0 where it is unknown."""
    return found.own if np.isfinite(found.own) else 0.0


def mean_unexplained(judged: Sequence[Attributed]) -> float:
    """Return the mean share of the variance that no named cause accounts for."""
    return float(np.mean([each.found.unexplained for each in judged]))


def table(every: Sequence[Attributed]) -> Table:
    """Return a row for each cause of each point, and what stays unexplained."""
    rows = []
    for each in every:
        count = str(each.found.n)
        if not each.judged:
            rows.append([each.name, count, each.found.sentence.removeprefix("No cause named: ")])
            continue
        own = own_share(each.found)
        causes = sorted(each.found.causes, key=lambda cause: -cause.share)
        *percents, left = whole_percents([*(cause.share for cause in causes), each.found.unexplained])
        rows += [
            [
                each.name,
                count,
                each.labelled(cause.label),
                str(percent),
                f"{100 * cause.low:.0f} to {100 * cause.high:.0f}",
                cause.direction,
            ]
            for cause, percent in zip(causes, percents, strict=True)
        ]
        rows.append([each.name, count, "unexplained", str(left), MISSING, MISSING])
        if own >= LEAST_SHARE:
            rows.append([each.name, count, f"of that: {OWN}", _part(own, left), MISSING, "more"])
    columns = ["point", "n", "associated with", "share [%]", "95 % interval [%]", "direction"]
    note = (
        "The causes and what is unexplained add up to 100 %; what stands below as a part of that is in it. "
        "Direction: whether the metric rises or falls with the covariate."
    )
    return Table("Causes by point", columns, rows, frozenset({1, 3, 4}), note)


def whole_percents(shares: Sequence[float]) -> list[int]:
    """Round shares to whole percents that add up as the shares do (largest remainders)."""
    exact = [100 * share for share in shares]
    found = [math.floor(each) for each in exact]
    missing = round(sum(exact)) - sum(found)
    by_remainder = sorted(range(len(exact)), key=lambda at: found[at] - exact[at])
    for at in by_remainder[:missing]:
        found[at] += 1
    return found


def _part(share: float, whole: int) -> str:
    """Return a share of the variance in whole percents, at most those of what it is a part of."""
    return str(min(round(100 * share), whole))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def slow(every: Sequence[Attributed]) -> list[Table]:
    """List the slowest samples by how far they are from the median, and what was out of the ordinary."""
    found = []
    for each in every:
        median = float(np.median(each.values))
        # A slow sample of a rate is one below the median.
        found += [
            (max(one.value / median, median / one.value), one.value / median, one, each)
            for one in each.found.slow[:SLOW_EACH]
            if median > 0 < one.value
        ]
    found.sort(key=lambda item: (-item[0], item[3].name, item[2].index))
    rows = [
        [
            each.name,
            str(one.index + 1),
            format_value(one.value, one.value / 100, each.unit),
            f"{ratio:.3g}",
            each.labelled(", ".join(one.causes)) or f"{MISSING} nothing recorded was unusual",
        ]
        for _, ratio, one, each in found[:SLOW_ROWS]
    ]
    columns = ["point", "sample", "value", "times the median", "unusual in it"]
    title = "The slowest samples, with what was unusual in them"
    return [Table(title, columns, rows, frozenset({1, 3}))] if rows else []


def tails(every: Sequence[Attributed]) -> list[Table]:
    """List what differs in the upper tail of each point, the tails with most of the variance first.

    Tails that hold little of the variance, and in which nothing differs, are left out.
    """
    found = [
        (tail, each)
        for each in every
        if (tail := each.found.tail) is not None and (tail.causes or tail.share >= LEAST_EXTREME)
    ]
    found.sort(key=lambda pair: -pair[0].share)
    rows = [row for tail, each in found[:TAIL_POINTS] for row in _tail_rows(tail, each)]
    columns = ["point", "in the tail", "beyond", "of the variance [%]"]
    columns += ["covariate", "value in the tail", "value in the others", "odds ratio", "p"]
    note = (
        "The slowest samples, which the shares above leave out, compared with all others: how many have the "
        "covariate, or its median. p is corrected for the number of covariates."
    )
    title = "The upper tail, and what differs in it"
    return [Table(title, columns, rows, frozenset({1, 2, 3, 5, 6, 7, 8}), note)] if rows else []


def _tail_rows(tail: Tail, each: Attributed) -> list[list[str]]:
    start = [
        each.name,
        f"{format_count(tail.n)} of {format_count(tail.of)}",
        format_value(tail.limit, abs(tail.limit) / 100, each.unit),
        _percent(tail.share),
    ]
    if not tail.causes:
        return [[*start, "none beyond chance"]]
    return [
        [
            *start,
            each.labelled(cause.name),
            *_compared(cause, each.units),
            f"{cause.odds_ratio:.3g}",
            f"{cause.p:.2g}",
        ]
        for cause in tail.causes[:TAIL_EACH]
    ]


def _compared(cause: TailCause, units: Mapping[str, str]) -> tuple[str, str]:
    if cause.measure == "share":
        return f"{format_count(cause.having)} of {format_count(cause.known)}", format_share(cause.in_rest)
    unit = units.get(cause.name, "")
    if unit in ("", "count"):
        return f"{cause.in_tail:.4g}", f"{cause.in_rest:.4g}"
    size = max(abs(cause.in_tail), abs(cause.in_rest)) / 100
    return format_value(cause.in_tail, size, unit), format_value(cause.in_rest, size, unit)


def glossary(results: Analysed, every: Sequence[Attributed]) -> list[Table]:
    """Say what the covariates are that are named."""
    named = {name for each in every for cause in each.found.causes for name in cause.names}
    named |= {cause.name for each in every if each.found.tail for cause in each.found.tail.causes}
    known = {name: column for each in results.experiments for name, column in each.covariates.items()}
    rows = [[name, column.unit or MISSING, column.doc] for name, column in known.items() if name in named]
    return [Table("What the named covariates are", ["name", "unit", "meaning"], rows)] if rows else []


def gloss(results: Analysed, name: str) -> str:
    """Name a cause by what it means, with the covariate's own name in brackets, by which tables list it."""
    if name in PLAIN:
        return PLAIN[name]
    columns = [each.covariates[name] for each in results.experiments if name in each.covariates]
    text = meaning(columns[0]) if columns else name
    return name if text == name else f"{text[:1].lower()}{text[1:]} ({name})"


def in_brief(results: Analysed, every: Sequence[Attributed]) -> str:
    """Return a sentence with the covariates associated with the variance of these points, on average."""
    judged = [each for each in every if each.judged]
    if not judged:
        return (
            f"Not enough samples to say what makes the values vary: {FEWEST_SAMPLES} of a point are needed."
        )
    causes = totals(judged)
    *percents, left = whole_percents([*causes.values(), mean_unexplained(judged)])
    own = float(np.mean([own_share(each.found) for each in judged]))
    where = f"On average over {len(judged)} points" if len(judged) > 1 else f"Of {judged[0].name}"
    named = [f"{gloss(results, name)}: {n} %" for name, n in zip(causes, percents, strict=True)]
    parts = "; ".join(named) or "nothing recorded beyond chance"
    of_own = f" (of that the measured code's {OWN}: {_part(own, left)} %)" if own >= LEAST_SHARE else ""
    return f"{where}, the variance is associated with: {parts}; unexplained: {left} %{of_own}."
