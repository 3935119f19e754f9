"""What the parent's page tables cost: the time of making a process against the memory it has touched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, block_medians, levels
from oscope.figures.experiments import dot
from oscope.figures.tables import shared_scale
from oscope.figures.words import excludes_zero, listed, median
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, format_count, format_interval, format_value
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import Summary, summarise

METRIC = "parent_ns"
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Line:
    """One way of making a process, over resident memory in pages of one size."""

    how: str
    pages: str
    points: tuple[PointSamples, ...]
    """By resident memory, ascending; at least two."""
    slope: Summary
    """ns for each MiB, a value a block."""

    @property
    def name(self) -> str:
        """The line's name in a figure."""
        return f"{self.how} with {self.pages} pages"


def section(results: Analysed) -> Section | None:
    """Answer what page tables cost."""
    experiment = results.get("process.create")
    if experiment is None:
        return None
    lines = _lines(experiment)
    if not lines:
        return None
    return Section(
        title="What page tables cost",
        answer=_answer(lines),
        text=[
            (
                "fork gives the child its own page tables, so the kernel copies an entry for each page "
                "that the parent has touched; a huge page has one entry for 2 MiB instead of 512. "
                "vfork, posix_spawn and threads share the parent's tables until they call exec or end."
            )
        ],
        tables=[_table(results, experiment, lines)],
        figures=[_figure(results, experiment, lines)],
        missing=_missing(experiment),
    )


def _lines(experiment: ExperimentResults) -> list[Line]:
    measured = [
        point for point in experiment.points if block_medians(point, METRIC) and "resident" in point.factors
    ]
    hows = dict.fromkeys(str(point.factors.get("how", "fork")) for point in measured)
    sizes = list(dict.fromkeys(str(point.factors.get("pages", "4K")) for point in measured))
    found = [_line(how, size, measured) for how in hows for size in sizes]
    return [line for line in found if line is not None]


def _line(how: str, pages: str, measured: list[PointSamples]) -> Line | None:
    """Return the points of one way and one page size; without resident memory it is in both."""
    own = {
        point.factors["resident"]: point
        for point in measured
        if point.factors.get("how", "fork") == how
        and (point.factors.get("pages", "4K") == pages or point.factors["resident"] == 0)
    }
    points = tuple(own[resident] for resident in sorted(own, key=_number))
    if len(points) < 2:
        return None
    slope = _slope(points)
    return None if slope is None else Line(how, pages, points, slope)


def _number(level: Level) -> float:
    return float(level)


def _slope(points: tuple[PointSamples, ...]) -> Summary | None:
    """Fit a line in each block (least squares over the medians of its points), and summarise the slopes."""
    sizes = np.array([_number(point.factors["resident"]) / MEBIBYTE for point in points])
    medians = [block_medians(point, METRIC) for point in points]
    blocks = sorted(set.intersection(*(set(each) for each in medians)))
    slopes = [float(np.polyfit(sizes, [each[block] for each in medians], 1)[0]) for block in blocks]
    return summarise(slopes, blocks, kind="difference") if slopes else None


def _answer(lines: list[Line]) -> str:
    rising = [line for line in lines if line.slope.ci95 is not None and line.slope.ci95[0] > 0]
    told = [f"{median(line.slope, 'ns')} to {line.name}" for line in rising]
    parts = [f"each MiB of the parent's resident memory adds {listed(told)}"] if told else []
    flat = [line for line in lines if line.slope.ci95 is not None and not excludes_zero(line.slope)]
    if flat:
        most = max(abs(end) for line in flat for end in line.slope.ci95 or ())
        within = format_value(most, most, "ns")
        parts.append(
            f"for {listed(_named(flat, lines))} no cost of resident memory was found (it is within {within} "
            "a MiB)"
        )
    unknown = [line for line in lines if line.slope.ci95 is None]
    if unknown:
        parts.append(f"for {listed(_named(unknown, lines))} one block is too few to tell")
    falling = [line for line in lines if line.slope.ci95 is not None and line.slope.ci95[1] < 0]
    if falling:
        told = [f"{line.name} by {median(line.slope, 'ns')} a MiB" for line in falling]
        parts.append(f"resident memory changed {listed(told)}, which page tables cannot explain")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def _named(some: list[Line], lines: list[Line]) -> list[str]:
    """Name lines, by the way alone where those of all page sizes are among them."""
    names = []
    for line in some:
        whole = sum(each.how == line.how for each in some) == sum(each.how == line.how for each in lines)
        names.append(line.how if whole else line.name)
    return list(dict.fromkeys(names))


def _missing(experiment: ExperimentResults) -> str:
    reasons = {
        (point.skipped, point.remedy or "") for point in experiment.points if point.skipped is not None
    }
    return " ".join(sorted(f"{reason}: {remedy}." if remedy else f"{reason}." for reason, remedy in reasons))


def _table(results: Analysed, experiment: ExperimentResults, lines: list[Line]) -> Table:
    rows = []
    for line in lines:
        first, last = (
            results.summary(experiment, point, METRIC) for point in (line.points[0], line.points[-1])
        )
        low, high = line.slope.ci95 or (None, None)
        span = " to ".join(levels(experiment, line.points[end].factors)["resident"] for end in (0, -1))
        rows.append(
            [
                line.how,
                line.pages,
                span,
                median(first, "ns") if first else MISSING,
                median(last, "ns") if last else MISSING,
                format_count(line.slope.n),
                format_interval(line.slope.median, low, high, "ns"),
            ]
        )
    columns = [
        "how",
        "pages",
        "resident memory",
        "parent returns, least memory",
        "most memory",
        "blocks",
        "for each MiB (95 % interval)",
    ]
    note = "The slope is fitted in each block by itself; its interval is over the blocks."
    return Table(
        "Time until the parent goes on, against resident memory", columns, rows, frozenset({5}), note
    )


def _figure(results: Analysed, experiment: ExperimentResults, lines: list[Line]) -> Figure:
    found = [results.summary(experiment, point, METRIC) for line in lines for point in line.points]
    scale = shared_scale([each for each in found if each is not None], "ns")
    hows, sizes = (
        list(dict.fromkeys(names)) for names in zip(*((line.how, line.pages) for line in lines), strict=True)
    )
    series = [
        plots.Line(
            line.name,
            [
                (
                    _number(point.factors["resident"]) / MEBIBYTE,
                    dot(results, experiment, (point, METRIC), scale, name=line.name),
                )
                for point in line.points
            ],
            hows.index(line.how),
            "dash" if sizes.index(line.pages) else "solid",
        )
        for line in lines
    ]
    axes = (
        plots.axis("resident memory of the parent [MiB]"),
        plots.axis(f"parent returns after [{scale.unit}]", rangemode="tozero"),
    )
    return plots.lines(
        "Time until the parent goes on, by its memory", axes, series, "Medians with their 95 % intervals."
    )
