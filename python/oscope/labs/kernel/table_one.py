"""The original report's table: the new call and fork in one guest, with mean, median, standard deviation."""

from __future__ import annotations

from dataclasses import dataclass

from oscope.figures.analysed import Analysed
from oscope.figures.tables import uncertainty
from oscope.figures.words import iteration
from oscope.labs.engine.table import TableOf, count, stat
from oscope.labs.engine.table import text as text_of
from oscope.labs.engine.words import cautions
from oscope.labs.kernel import clocked
from oscope.labs.kernel.clocked import Side
from oscope.labs.syscalls import reference
from oscope.labs.syscalls.reference import Cited, cited
from oscope.model.document import Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import Scale
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.probe.instructions import translate_names
from oscope.statistics import Summary

TITLE = "The new call and fork in one table"
CLOCKS = (("kernel.precious-wall", "kernel.fork-wall"), ("kernel.precious", "kernel.fork"))
"""The experiments of each clock, which count or time the call and fork in guests of one kernel."""
FORK: dict[str, Level] = {"how": "fork", "resident": 0}
NOTE = (
    "The original report's figures are of 10 iterations each, one call each, on another machine. The "
    "interval is that of the median."
)
LOOPS = (
    "The standard deviation of means of many calls is smaller than that of single calls: `oscope run {name} "
    "--set style=single` times each call by itself, as the original report did."
)


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    name: str
    point: PointSamples
    metric: str
    summary: Summary
    document: Cited | None


def section(results: Analysed) -> Section | None:
    """Answer B3: the call and fork in one table for each clock, all of it of one guest."""
    tables, said, missing = [], [], []
    every = [each for names in CLOCKS for name in names if (each := results.get(name)) is not None]
    text = clocked.apart(every)
    for precious, fork in CLOCKS:
        both = [found for name in (precious, fork) if (found := results.get(name)) is not None]
        if not both:
            continue
        if len(both) == 1 or not _same_guest(*both):
            absent = fork if both[0].experiment == precious else precious
            missing.append(
                f"`oscope run {precious} {fork}` measures both in one guest ({absent} is not of it)."
            )
            continue
        unit, rows = _rows(results, *both)
        if rows:
            tables.append(_table(both[0], unit, rows))
            said.append(_answer(both[0], unit, rows))
        if any("mean of" in iteration(row.point) for row in rows if row.document is reference.MY_PRECIOUS):
            text.append(LOOPS.format(name=precious))
    if not tables and not missing:
        return None
    text = [*said[1:], *text, *dict.fromkeys(caution for each in every for caution in cautions(each))]
    return Section(TITLE, "".join(said[:1]), text=text, tables=tables, missing=" ".join(missing))


def _same_guest(a: ExperimentResults, b: ExperimentResults) -> bool:
    """Say whether both were measured in guests that are set up alike."""
    return a.environment.get("guest") == b.environment.get("guest")


def _rows(results: Analysed, precious: ExperimentResults, fork: ExperimentResults) -> tuple[str, list[Row]]:
    """Return the unit that all rows have, cycles if all do, and the rows."""
    found: list[Row] = []
    for unit in ("cycles", "ns"):
        rows = [
            (
                f"{call} ({iteration(point)})",
                precious,
                point,
                "cycles" if unit == "cycles" else "time_ns",
                document,
            )
            for call, document in (("my_precious_logged", reference.MY_PRECIOUS), ("my_precious", None))
            # The original report timed each call by itself.
            if (point := precious.point(call=call, style="single") or precious.point(call=call)) is not None
        ]
        rows += [
            (f"fork, {end} (one call each)", fork, point, f"{who}_{unit}", document)
            for who, end, document in (
                ("child", "until the child's first instruction", reference.FORK_CHILD),
                ("parent", "until the parent's return", reference.FORK_PARENT),
            )
            if (point := fork.point(**FORK)) is not None
        ]
        found = [row for each in rows if (row := _row(results, *each)) is not None]
        if len(found) == len(rows):
            break
    metrics = {**precious.metrics, **fork.metrics}
    return (metrics[found[0].metric].unit if found else ""), found


def _row(
    results: Analysed,
    name: str,
    experiment: ExperimentResults,
    point: PointSamples,
    metric: str,
    document: Cited | None,
) -> Row | None:
    """Return a row; None where no sample has the metric. By the instructions clock it has another name."""
    known = next((each for each in (metric, *translate_names((metric,))) if each in experiment.metrics), None)
    side = None if known is None else Side(experiment, known)
    summary = None if side is None else side.summary(results, **point.factors)
    return None if side is None or summary is None else Row(name, point, side.metric, summary, document)


def _answer(precious: ExperimentResults, unit: str, rows: list[Row]) -> str:
    guest = precious.environment.get("guest") or {}
    kernel = (guest.get("kernel") or {}).get("name", "one kernel")
    by = {row.document: row.summary for row in rows if row.document is not None}
    call, child, parent = (
        by.get(each) for each in (reference.MY_PRECIOUS, reference.FORK_CHILD, reference.FORK_PARENT)
    )
    if call is None or child is None or parent is None:
        return ""
    texts = [
        Scale.choose([each.mean], [uncertainty(each)], unit).with_unit(each.mean)
        for each in (call, child, parent)
    ]
    return (
        f"In a guest under {kernel}, on average, my_precious with its line in the log takes {texts[0]}, fork "
        f"{texts[1]} until the child's first instruction and {texts[2]} until the parent's return."
    )


def _table(precious: ExperimentResults, unit: str, rows: list[Row]) -> Table:
    guest = precious.environment.get("guest") or {}
    what = "instructions" if precious.clock == "instructions" else "time"
    table: TableOf[Row] = TableOf(
        f"Mean, median and standard deviation, {what} in a guest ({guest.get('accelerator', 'unknown')})",
        (
            text_of("", lambda row: row.name),
            count("n", lambda row: row.summary.n),
            # Without a prefix: a fork takes a thousand times what the silent call does.
            stat("{}", lambda row: row.summary, unit, "mean", "median", "95 %", "std. dev.", prefix=False),
            *cited(lambda row: row.document),
        ),
        NOTE,
    )
    return table.of(rows)
