"""How fast memory is read, written and copied, by one core and by all."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures import plots
from oscope.figures.analysed import Analysed, label
from oscope.figures.experiments import dot
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median, with_samples
from oscope.labs.curve import RATE, RATE_UNIT, cells, narrowing, ratio_text, unmeasured
from oscope.labs.memory.sides import Quantity, compared, first, plain, row_of, shown, told
from oscope.model.document import Figure, Section, Table
from oscope.model.samples import ExperimentResults
from oscope.statistics import ComparedMetric

TITLE = "Bandwidth"
ONE, ALL = 1, 0
OPERATIONS = ("read", "write", "copy")
SPEED: Quantity = plain("throughput", RATE, RATE_UNIT)
KNOWN = ("operation", "threads", "window", "tracer")


def section(results: Analysed) -> Section | None:
    """Tell the limits that other labs quote."""
    experiment = results.get("memory.bandwidth")
    if experiment is None:
        return None
    missing = unmeasured(experiment)
    if not any(SPEED.summary(experiment, point) for point in shown(experiment)):
        return Section(TITLE, "", missing=missing) if missing else None
    rows = compared(experiment, [SPEED], "threads", (ONE, ALL))
    return Section(
        title=TITLE,
        answer=" ".join(_answer(experiment, rows)),
        text=[
            (
                "Bytes are counted once, though a copy reads and writes, and an ordinary store reads its "
                "line first. A window is the buffer into which a copy goes again and again, as a read from "
                "the page cache does; a small one stays in a cache."
            ),
            *narrowing(experiment, KNOWN),
        ],
        tables=[_table(results, experiment, rows)],
        figures=[_figure(results, experiment)],
        missing=missing,
    )


def _answer(experiment: ExperimentResults, rows: Sequence[ComparedMetric]) -> list[str]:
    told_points = []
    for operation in OPERATIONS:
        parts = []
        for threads, word in ((ONE, "one core"), (ALL, "all cores")):
            point = first(experiment, operation=operation, threads=threads, window=0)
            summary = None if point is None else SPEED.summary(experiment, point)
            if summary is not None:
                parts.append(f"{median(summary, RATE_UNIT)} by {word}")
        if parts:
            row = row_of(rows, SPEED, operation=operation, window=0)
            ratio = f": all / one {told(row)}" if row is not None else ""
            told_points.append(f"{operation.capitalize()}: {listed(parts)}{ratio}.")
    return told_points


def _table(results: Analysed, experiment: ExperimentResults, rows: Sequence[ComparedMetric]) -> Table:
    found = [(point, results.summary(experiment, point, RATE)) for point in shown(experiment)]
    scale = shared_scale([each for _, each in found if each is not None], RATE_UNIT)
    lines = []
    for point, summary in found:
        factors = point.factors
        alone = factors.get("threads") != ALL
        row = None if alone else row_of(rows, SPEED, operation=factors["operation"], window=factors["window"])
        window = (
            "as large as the memory" if not factors.get("window") else label(experiment, factors, ("window",))
        )
        lines.append(
            [
                str(factors.get("operation")),
                "all" if factors.get("threads") == ALL else str(factors.get("threads")),
                window if factors.get("operation") == "copy" else "",
                *cells(summary, scale),
                ratio_text(row) if row is not None else "",
            ]
        )
    columns = [
        "operation",
        "cores",
        "window",
        f"median [{scale.unit}]",
        f"95 % [{scale.unit}]",
        "all / one (95 %)",
    ]
    note = "Medians; the ratio is paired by block, p corrected (Holm) for the operations."
    return Table("Reading, writing and copying memory", columns, lines, frozenset({3}), note)


def _figure(results: Analysed, experiment: ExperimentResults) -> Figure:
    found = [
        pair
        for pair in with_samples(results, experiment, RATE)
        if any(pair[0] is each for each in shown(experiment))
    ]
    scale = shared_scale([each for _, each in found], RATE_UNIT)
    names = [name for name in KNOWN if name in experiment.varied() and name != "tracer"]
    dots = [
        dot(
            results,
            experiment,
            (point, RATE),
            scale,
            name=label(experiment, point.factors, names) or experiment.experiment,
            colour=OPERATIONS.index(str(point.factors.get("operation"))),
        )
        for point, _ in found
    ]
    note = "Faint: single repetitions. Diamond: median with its 95 % interval. 0 threads: one for each CPU."
    return plots.strips("Throughput of memory", f"throughput [{scale.unit}]", dots, note)
