"""Tables with the columns of a document: its own figures, then ours with mean, deviation and interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oscope.figures.analysed import Analysed, label, measured
from oscope.figures.tables import fixed_levels, shared_scale, uncertainty, unmeasured
from oscope.model.document import Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, Scale, format_count
from oscope.model.samples import ExperimentResults, Floats, PointSamples
from oscope.questions.quantity import derived
from oscope.statistics import Summary

NOT_MEASURED = "not measured"
NOT_IN_RUN = f"{NOT_MEASURED}: not in this run"
LISTED = 10
"""Runs listed one by one, at least."""
STATISTICS = ("mean", "std. dev.", "median", "95 % interval")


@dataclass(frozen=True)
class Source:
    """Where a figure comes from: a metric of the point of an experiment that has these levels."""

    experiment: str
    metric: str
    levels: Mapping[str, Level]
    per: str = ""
    """Another metric by which each value is divided; empty: none."""

    def find(self, results: Analysed) -> tuple[ExperimentResults, PointSamples] | None:
        """Return the experiment and its point, measured or skipped; None where the run has none."""
        experiment = results.get(self.experiment)
        point = None if experiment is None else experiment.point(**self.levels)
        return None if experiment is None or point is None else (experiment, point)

    def summary(self, results: Analysed) -> Summary | None:
        """Return the summary that `oscope show` has; None where no sample has a value."""
        found = self.find(results)
        if found is None or not len(measured(found[1], self.metric)[0]):
            return None
        if self.per:
            return derived(*found, lambda point: point.metrics[self.metric] / point.metrics[self.per])
        return results.summary(*found, self.metric)

    def values(self, results: Analysed) -> Floats:
        """Return the values of all samples that have one, in the order in which they were taken."""
        found = self.find(results)
        return np.zeros(0) if found is None else measured(found[1], self.metric)[0]

    def reason(self, results: Analysed) -> str:
        """Return why there is no figure, and what helps."""
        found = self.find(results)
        return NOT_IN_RUN if found is None else unmeasured(found[1], self.metric)


@dataclass(frozen=True)
class Unit:
    """The unit of a column: as the document has it, or with the prefix that suits the figures."""

    name: str
    factor: float = 1.0
    """Value of one in the metric's own unit."""
    base: str = ""
    """The metric's own unit; empty: `name`."""
    suited: bool = False
    """Whether another prefix may be chosen."""

    def scale(self, summaries: Sequence[Summary]) -> Scale:
        """Return the unit with the decimals that these figures share at least."""
        if self.suited:
            return shared_scale(summaries, self.name)
        return Scale(self.name, self.factor, 0, self.base or self.name)


@dataclass(frozen=True)
class Line:
    """A row of a table: what it is, the document's own figures, and where ours come from."""

    names: Sequence[str]
    cited: Sequence[str]
    sources: Sequence[Source]
    """One for each group of columns."""


@dataclass(frozen=True)
class Heads:
    """The headings of a table: names of rows, the document's columns, and our groups of columns."""

    names: Sequence[str]
    cited: Sequence[str]
    groups: Sequence[tuple[str, Unit]]
    """Each gives mean, deviation, median and interval."""


def table(results: Analysed, title: str, heads: Heads, lines: Sequence[Line], note: str = "") -> Table:
    """Return the document's figures beside ours; a row without any of ours says why in their place.

    A group of which the run has no figure at all has no columns, if another group has some: `gaps` says why.
    """
    groups, lines = _filled(results, heads.groups, lines)
    scales = []
    for index, (_, unit) in enumerate(groups):
        found = [line.sources[index].summary(results) for line in lines]
        scales.append(unit.scale([each for each in found if each is not None]))
    columns = [*heads.names, *(f"original: {name}" for name in heads.cited), "n"]
    for (group, _), scale in zip(groups, scales, strict=True):
        unit_text = f" [{scale.unit}]" if scale.unit else ""
        columns += [f"{group}: {name}{unit_text}" for name in STATISTICS]
    start = len(heads.names)
    rows = [[*line.names, *line.cited, *_ours(results, line, scales)] for line in lines]
    reasons = take_reasons(rows)
    notes = [note, *(f"{reason[0].upper()}{reason[1:]}." for reason in reasons)]
    return Table(title, columns, rows, frozenset(range(start, len(columns))), " ".join(filter(None, notes)))


def take_reasons(rows: Sequence[list[str]]) -> list[str]:
    """Return the reasons for no figure that several rows end with, which then only say that there is none."""
    ends = Counter(row[-1] for row in rows if row[-1].startswith(f"{NOT_MEASURED}: "))
    repeated = [reason for reason, rows_with_it in ends.items() if rows_with_it > 1]
    for row in rows:
        if row[-1] in repeated:
            row[-1] = NOT_MEASURED
    return repeated


def _filled(
    results: Analysed, groups: Sequence[tuple[str, Unit]], lines: Sequence[Line]
) -> tuple[Sequence[tuple[str, Unit]], Sequence[Line]]:
    kept = [
        index
        for index in range(len(groups))
        if any(line.sources[index].summary(results) is not None for line in lines)
    ]
    if not kept:
        kept = [0]
    narrowed = [replace(line, sources=[line.sources[index] for index in kept]) for line in lines]
    return [groups[index] for index in kept], narrowed


def _ours(results: Analysed, line: Line, scales: Sequence[Scale]) -> list[str]:
    found = [source.summary(results) for source in line.sources]
    known = [each for each in found if each is not None]
    if not known:
        return [line.sources[0].reason(results)]
    counts = dict.fromkeys(format_count(each.n) for each in known)
    cells = [" / ".join(counts)]
    for summary, scale in zip(found, scales, strict=True):
        cells += [MISSING] * len(STATISTICS) if summary is None else statistics(summary, scale)
    return cells


def statistics(summary: Summary, scale: Scale) -> list[str]:
    """Return mean, standard deviation, median and the median's interval, with the row's own decimals."""
    own = own_scale(scale, summary)
    return [
        own.text(summary.mean),
        own.text(summary.std),
        own.text(summary.median),
        own.span(summary.ci95),
    ]


def own_scale(scale: Scale, summary: Summary) -> Scale:
    """Return the decimals that the spread of these samples allows."""
    # Few processes give a wide interval; a mean and its deviation keep two digits of the deviation.
    spreads = [each for each in (uncertainty(summary), summary.std) if each]
    return scale.row(summary.median or summary.mean, min(spreads, default=None))


def gaps(results: Analysed, sources: Iterable[Source]) -> str:
    """Return each reason for which one of these has no figure, once, with the points that it holds for."""
    about: dict[str, list[str]] = {}
    for source in sources:
        if source.summary(results) is not None:
            continue
        found = source.find(results)
        where = "" if found is None else label(found[0], found[1].factors, found[0].varied())
        reason = source.reason(results).removeprefix(f"{NOT_MEASURED}: ")
        about.setdefault(reason, []).append(where or source.experiment)
    sentences = []
    for reason, places in about.items():
        first = list(dict.fromkeys(places))
        more = f" and {len(first) - 3} more" if len(first) > 3 else ""
        sentences.append(f"{'; '.join(first[:3])}{more}: {reason}.")
    return " ".join(sentences)


def guest(results: Analysed, name: str) -> str:
    """Say in which guest an experiment was measured, and whether its times are a machine's; else nothing."""
    experiment = results.get(name)
    found = {} if experiment is None else experiment.environment.get("guest") or {}
    if not found:
        return ""
    kernel = (found.get("kernel") or {}).get("name", "unknown")
    accelerator = found.get("accelerator")
    text = f"Guest: under the kernel {kernel} ({accelerator})."
    if accelerator == "tcg":
        text += " tcg emulates the processor: its times are the emulation's, not a machine's."
    return text


def sizes(results: Analysed, *names: str) -> str:
    """Return the levels that all points of an experiment share, as a note: what was measured here."""
    sentences = []
    for name in names:
        experiment = results.get(name)
        if experiment is None:
            continue
        same = [each for each in fixed_levels(experiment) if not each.startswith("directory")]
        profile = experiment.settings.get("profile")
        shared = ", ".join([f"profile {profile}", *same]) if profile else ", ".join(same)
        sentences.append(f"Here ({name}): {shared}.")
    return " ".join(sentences)


@dataclass(frozen=True)
class Cited:
    """A column of single runs as the document prints them, with its statistics by their name here."""

    name: str
    values: Sequence[float]
    statistics: Mapping[str, float]


@dataclass(frozen=True)
class Runs:
    """A column of single runs of ours."""

    name: str
    source: Source
    unit: Unit


def iterations(
    results: Analysed, title: str, cited: Sequence[Cited], runs: Sequence[Runs], note: str = ""
) -> Table:
    """Return single runs one by one and their statistics: the document's columns, then ours.

    Ours are the first samples as taken; the statistics are of all. A column without samples says so.
    """
    summaries = [each.source.summary(results) for each in runs]
    scales = [
        each.unit.scale([] if found is None else [found]) for each, found in zip(runs, summaries, strict=True)
    ]
    columns = ["", *(f"original: {each.name}" for each in cited)]
    for each, found, scale in zip(runs, summaries, scales, strict=True):
        columns.append(f"{each.name}: not measured" if found is None else f"{each.name} [{scale.unit}]")
    data = [each.source.values(results) for each in runs]
    rows = []
    for index in range(max(LISTED, *(len(each.values) for each in cited))):
        own = [_single(values, index, scale) for values, scale in zip(data, scales, strict=True)]
        rows.append([str(index + 1), *(_listed(each.values, index) for each in cited), *own])
    for name in (*STATISTICS, "n"):
        own = [_statistic(name, found, scale) for found, scale in zip(summaries, scales, strict=True)]
        rows.append([name, *(_known(each.statistics.get(name)) for each in cited), *own])
    return Table(title, columns, rows, frozenset(range(1, len(columns))), note)


def _single(values: Floats, index: int, scale: Scale) -> str:
    """Return one sample to five digits: more than its spread allows, so that the list can be checked."""
    if index >= len(values):
        return MISSING
    value = float(values[index]) / scale.factor
    if value.is_integer():
        return format_count(value)
    digits = 4 - (math.floor(math.log10(abs(value))) if value else 0)
    return Scale(scale.unit, 1.0, min(max(digits, 0), 4)).text(value)


def _listed(values: Sequence[float], index: int) -> str:
    return _known(values[index]) if index < len(values) else MISSING


def _known(value: float | None) -> str:
    """Return a figure of a document with the digits that it has."""
    if value is None:
        return MISSING
    text = f"{value:.6f}".rstrip("0").rstrip(".")
    whole, point, rest = text.partition(".")
    return f"{format_count(int(whole))}{point}{rest}"


def _statistic(name: str, summary: Summary | None, scale: Scale) -> str:
    if summary is None:
        return MISSING
    if name == "n":
        return format_count(summary.n)
    return statistics(summary, scale)[STATISTICS.index(name)]
