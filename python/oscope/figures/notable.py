"""What is notable in some results: at most five short sentences, the most surprising first.

Each candidate is a contrast of two points of one experiment that differ in one or two factors, with what one
expects of it: that both are equal, or that the second is not slower. The rule is the same for all of them:

1. The ratio, paired by block, and its 95 % interval are those of every comparison of Oscope.
2. A contrast counts if its p, corrected over all candidates (Holm), is below 5 %, the medians of all samples
   differ in the same direction, and its interval lies beyond what was expected.
3. The rank is the logarithm of the least ratio that the interval allows: a large effect with a wide interval
   comes after a smaller one with a narrow interval.
4. Of each section the first one is kept.

Where no experiment has a candidate (a run of one's own workload), each factor's first and last level make
one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from oscope.figures.analysed import label, measured, paired_difference
from oscope.figures.answer_text import listed
from oscope.figures.contrasts import CONTRASTS, Expected, NotableContrast
from oscope.figures.tables import meaning
from oscope.model.factors import Level
from oscope.model.formatting import Scale, format_value
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.model.units import MEBIBYTE
from oscope.statistics import ComparedMetric, compare_points
from oscope.statistics.multiplicity import holm
from oscope.statistics.summary import summarise_point

MOST = 5
LEVEL = 0.05
FEWEST_BLOCKS = 3
"""Fewer blocks on a side do not show how much a median varies."""
WORTH_TELLING = 1.1
"""A smaller ratio surprises nobody."""
FLAT = 0.1
"""Share of a contrast's difference within which that of a companion counts as none."""


@dataclass(frozen=True)
class Value:
    """A side of the contrast, for a small figure: a median with its interval, in the metric's own unit."""

    name: str
    median: float
    ci95: tuple[float, float] | None


@dataclass(frozen=True)
class Notable:
    """A finding in one sentence."""

    sentence: str
    experiment: str
    run_id: str
    section: str
    """Title of the lab's section that answers it; empty where no lab does."""
    metric: str
    unit: str
    values: tuple[Value, ...]
    """Both sides, as measured."""
    ratio: float
    """The second side over the first."""
    ci95: tuple[float, float]
    rank: float
    """Logarithm of the least ratio beyond what was expected that the interval allows."""


@dataclass(frozen=True)
class _Judged:
    contrast: NotableContrast
    experiment: ExperimentResults
    a: PointSamples
    b: PointSamples
    row: ComparedMetric


def notable(results: Results, most: int = MOST) -> list[Notable]:
    """Return at most `most` findings of `results`, the most surprising first."""
    judged = list(_judged(results))
    if not judged:
        return []
    p = holm(np.array([each.row.p for each in judged]))
    found = []
    for each, corrected in zip(judged, p, strict=True):
        rank = beyond(each.row.ci95, each.contrast.expected)
        # The figures beside the sentence are the medians of all samples: they must not say the contrary.
        if corrected < LEVEL and rank > math.log(WORTH_TELLING) and each.row.different == "yes":
            found.append((rank, each))
    found.sort(key=lambda one: -one[0])
    by_section: dict[str, tuple[float, _Judged]] = {}
    for one in found:
        by_section.setdefault(one[1].contrast.section or one[1].contrast.experiment, one)
    return [_notable(each, rank) for rank, each in list(by_section.values())[:most]]


def beyond(ci95: tuple[float, float], expected: Expected) -> float:
    """Return the logarithm of the least ratio that an interval of a slowness ratio allows; 0: as expected."""
    low, high = ci95
    slower = math.log(low) if low > 1 else 0.0
    faster = -math.log(high) if 0 < high < 1 else 0.0
    return slower if expected == "not slower" else max(slower, faster)


def _judged(results: Results) -> Iterator[_Judged]:
    own = {contrast.experiment for contrast in CONTRASTS}.isdisjoint(results.names)
    for name in dict.fromkeys(each.experiment for each in results.experiments):
        experiment = results.get(name)
        if experiment is None or experiment.clock != "wall":
            continue
        contrasts = (
            _of_factors(experiment) if own else [each for each in CONTRASTS if each.experiment == name]
        )
        for contrast in contrasts:
            pair = _points(experiment, contrast)
            if pair is not None:
                yield _Judged(contrast, experiment, *pair, _slowness(experiment, contrast.metric, *pair))


def _slowness(experiment: ExperimentResults, metric: str, a: PointSamples, b: PointSamples) -> ComparedMetric:
    """Compare B with A by a metric of which more is slower; of a rate, A with B."""
    column = experiment.metrics[metric]
    first, second = (b, a) if column.better == "more" else (a, b)
    return compare_points(first, second, column, same_run=True)


def _points(
    experiment: ExperimentResults, contrast: NotableContrast
) -> tuple[PointSamples, PointSamples] | None:
    """Return the first two points that the contrast names and that else have equal levels."""
    if contrast.metric not in experiment.metrics or experiment.metrics[contrast.metric].better is None:
        return None
    changed = {*contrast.a, *contrast.b}
    for a in experiment.points:
        if not _has(a, {**contrast.fixed, **contrast.a}) or not _enough(a, contrast.metric):
            continue
        rest = {name: level for name, level in a.factors.items() if name not in changed}
        for b in experiment.points:
            same = all(b.factors.get(name, level) == level for name, level in rest.items())
            if same and _has(b, {**contrast.fixed, **contrast.b}) and _enough(b, contrast.metric):
                return a, b
    return None


def _has(point: PointSamples, levels: Mapping[str, Level]) -> bool:
    return all(point.factors.get(name) == level for name, level in levels.items())


def _enough(point: PointSamples, metric: str) -> bool:
    values, keep = measured(point, metric)
    return len(np.unique(point.block[keep])) >= FEWEST_BLOCKS and float(values.min()) > 0


def _of_factors(experiment: ExperimentResults) -> Iterator[NotableContrast]:
    """Give a contrast for each factor: its first level against its last one."""
    metric = experiment.headline
    if experiment.metrics[metric].better is None:
        return
    more, less = "higher by a factor of {times}", "lower by a factor of {times}"
    slower, faster = (more, less) if experiment.metrics[metric].better == "less" else (less, more)
    what = f"{experiment.title or experiment.experiment}: {meaning(experiment.metrics[metric])}"
    for name in experiment.varied():
        levels = experiment.levels(name)
        first, last = (label(experiment, {name: levels[index]}, [name]) for index in (0, len(levels) - 1))
        yield NotableContrast(
            experiment.experiment,
            "",
            metric,
            {name: levels[0]},
            {name: levels[-1]},
            slower=f"{what} is {slower} with {name} = {last} than with {first}.",
            faster=f"{what} is {faster} with {name} = {last} than with {first}.",
        )


def _notable(judged: _Judged, rank: float) -> Notable:
    contrast, experiment, row = judged.contrast, judged.experiment, judged.row
    slower = row.ratio > 1
    text = contrast.slower if slower else contrast.faster
    names = contrast.names or tuple(
        label(experiment, point.factors, [*contrast.b]) for point in (judged.a, judged.b)
    )
    values = []
    for name, point in zip(names, (judged.a, judged.b), strict=True):
        found = summarise_point(experiment, point, contrast.metric)
        values.append(Value(name, found.median, found.ci95))
    medians = [each.median for each in values]
    sentence = text.format(
        # Of the medians that stand beside it: block by block the ratio may be another one.
        times=_times(max(medians) / min(medians)),
        per_mib=_per_mib(judged) if "{per_mib}" in text else "",
        companions=_companions(judged) if "{companions}" in text else "",
    )
    return Notable(
        sentence=sentence,
        experiment=contrast.experiment,
        run_id=experiment.run_id,
        section=contrast.section,
        metric=contrast.metric,
        unit=experiment.metrics[contrast.metric].unit,
        values=tuple(values),
        ratio=row.ratio,
        ci95=row.ci95,
        rank=rank,
    )


def _times(ratio: float) -> str:
    """Return a ratio as a sentence has it: two digits, and no more than it needs."""
    return Scale.of(ratio, 10 ** math.floor(math.log10(ratio)), "").text(ratio)


def _difference(
    judged: _Judged, a: PointSamples, b: PointSamples
) -> tuple[float, tuple[float, float]] | None:
    found = paired_difference(judged.experiment, a, b, judged.contrast.metric)
    return None if found is None or found.ci95 is None else (found.median, found.ci95)


def _per_mib(judged: _Judged) -> str:
    """Return what each MiB of the factor that is varied adds, such as `19 µs`."""
    [name] = judged.contrast.b
    more = (float(judged.b.factors[name]) - float(judged.a.factors[name])) / MEBIBYTE
    found = _difference(judged, judged.a, judged.b)
    value = (judged.row.difference if found is None else found[0]) / more
    unit = judged.experiment.metrics[judged.contrast.metric].unit
    return format_value(value, 10 ** math.floor(math.log10(abs(value))), unit)


def _companions(judged: _Judged) -> str:
    """Name the other levels of a factor at which the same change makes (next to) no difference."""
    found = _difference(judged, judged.a, judged.b)
    factor = judged.contrast.companions
    if found is None or not factor:
        return ""
    limit, flat = FLAT * abs(found[0]), []
    for level in judged.experiment.levels(factor):
        a, b = (judged.experiment.point(**{**point.factors, factor: level}) for point in (judged.a, judged.b))
        if level == judged.a.factors[factor] or a is None or b is None:
            continue
        if not (_enough(a, judged.contrast.metric) and _enough(b, judged.contrast.metric)):
            continue
        other = _difference(judged, a, b)
        if other is not None and -limit < other[1][0] and other[1][1] < limit:
            flat.append("threads" if level == "thread" else str(level))
    return (
        ""
        if not flat
        else f"; {listed(flat)} {'do' if len(flat) > 1 or flat[0] == 'threads' else 'does'} not"
    )
