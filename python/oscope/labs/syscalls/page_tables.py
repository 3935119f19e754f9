"""What the parent's page tables cost: the time of making a process against the memory it has touched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, block_medians, levels
from oscope.figures.experiments import dot
from oscope.figures.tables import shared_scale
from oscope.figures.words import excludes_zero, listed
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, count, text
from oscope.labs.engine.table import value as value_of
from oscope.labs.engine.words import reasons, value
from oscope.model.document import Figure, Section
from oscope.model.factors import Level
from oscope.model.formatting import format_interval
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
    run = Run.of(results, "process.create")
    lines = _lines(run.experiment) if run else []
    if run is None or not lines:
        return None
    return Section(
        title="What page tables cost",
        answer=_headline(lines),
        text=[
            (
                "fork copies a page-table entry for each page that the parent has touched; a huge page has "
                "one for 2 MiB instead of 512. vfork, posix_spawn and threads share the parent's tables."
            )
        ],
        tables=[TABLE.of((run, line) for line in lines)],
        figures=[_figure(results, run.experiment, lines)],
        missing=reasons(run.experiment),
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


def _headline(lines: list[Line]) -> str:
    rising = sorted(_rising(lines), key=lambda line: (line.how != "fork", -line.slope.median))
    flat = _named(_flat(lines), lines)
    none = f"; {listed(flat)} {'does' if len(flat) == 1 else 'do'} not" if flat else ""
    if rising:
        others = [line.how for line in rising[1:] if line.pages == rising[0].pages]
        too = f"; so {'does' if len(others) == 1 else 'do'} {listed(others)}" if others else ""
        return (
            f"{rising[0].name} slows down by {value(rising[0].slope, 'ns')} for each MiB resident{too}{none}."
        )
    if flat:
        return f"No cost of resident memory was found for {listed(flat)}."
    return "One block is too few to say what resident memory costs."


def _rising(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.slope.ci95 is not None and line.slope.ci95[0] > 0]


def _flat(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.slope.ci95 is not None and not excludes_zero(line.slope)]


def _verdict(line: Line) -> str:
    """Say what the slope shows."""
    if line.slope.ci95 is None:
        return "one block is too few to decide"
    if not excludes_zero(line.slope):
        return "no cost found"
    return "slower" if line.slope.median > 0 else "faster, which page tables cannot explain"


def _named(some: list[Line], lines: list[Line]) -> list[str]:
    """Name lines, by the way alone where those of all page sizes are among them."""
    names = []
    for line in some:
        whole = sum(each.how == line.how for each in some) == sum(each.how == line.how for each in lines)
        names.append(line.how if whole else line.name)
    return list(dict.fromkeys(names))


TABLE: TableOf[tuple[Run, Line]] = TableOf(
    "Time until the parent goes on, against resident memory",
    (
        text("how", lambda row: row[1].how),
        text("pages", lambda row: row[1].pages),
        text("resident memory", lambda row: _span(*row)),
        value_of("parent returns, least memory", lambda row: row[0].summary(row[1].points[0], METRIC), "ns"),
        value_of("most memory", lambda row: row[0].summary(row[1].points[-1], METRIC), "ns"),
        count("blocks", lambda row: row[1].slope.n),
        text("for each MiB (95 %)", lambda row: _slope_text(row[1].slope)),
        text("verdict", lambda row: _verdict(row[1])),
    ),
    "The slope is fitted in each block by itself; its interval is over the blocks.",
)


def _span(run: Run, line: Line) -> str:
    return " to ".join(levels(run.experiment, line.points[end].factors)["resident"] for end in (0, -1))


def _slope_text(slope: Summary) -> str:
    low, high = slope.ci95 or (None, None)
    return format_interval(slope.median, low, high, "ns")


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
