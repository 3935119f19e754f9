"""The original report's table: the new call and fork in one guest, with mean, median, standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures.tables import uncertainty
from oscope.figures.words import iteration
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import TableOf, count, stat, text
from oscope.labs.engine.words import cautions
from oscope.labs.kernel import clocked
from oscope.labs.syscalls import reference
from oscope.labs.syscalls.reference import Cited, cited
from oscope.model.document import Table
from oscope.model.formatting import Scale
from oscope.model.samples import ExperimentResults

CLOCKS = (("kernel.precious-wall", "kernel.fork-wall"), ("kernel.precious", "kernel.fork"))
"""The experiments of each clock, which count or time the call and fork in guests of one kernel."""
CALLS = (("my_precious_logged", reference.MY_PRECIOUS), ("my_precious", None))
FORK = (
    ("child", "until the child's first instruction", reference.FORK_CHILD),
    ("parent", "until the parent's return", reference.FORK_PARENT),
)
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
    point: Point
    original: Cited | None

    @property
    def unit(self) -> str:
        """Unit of its figures."""
        return self.point.run.experiment.metrics[self.point.metric].unit


Rows = Sequence[Row]
"""The table of one clock."""


def _runs(run: Run) -> list[list[Run]]:
    return [[own for name in names if (own := run.beside(name))] for names in CLOCKS]


def _experiments(run: Run) -> list[ExperimentResults]:
    return [own.experiment for both in _runs(run) for own in both]


def _same_guest(both: Sequence[Run]) -> bool:
    """Say whether both were measured, in guests that are set up alike."""
    guests = [each.experiment.environment.get("guest") for each in both]
    return len(guests) == 2 and guests[0] == guests[1]


def _tables(run: Run) -> list[Rows]:
    made = (_rows(*both) for both in _runs(run) if _same_guest(both))
    return [rows for rows in made if rows]


def _rows(precious: Run, fork: Run) -> Rows:
    """Return the rows: in cycles if all have them, else in time, or in instructions."""
    found: list[Row] = []
    for unit in ("cycles", "ns"):
        found, asked = [], 0
        metric = "cycles" if unit == "cycles" else "time_ns"
        for call, original in CALLS:
            # The original report timed each call by itself.
            style = "single" if precious.experiment.point(call=call, style="single") else None
            levels = {"call": call, **({"style": style} if style else {})}
            asked += precious.experiment.point(**levels) is not None
            for point in _first(precious, metric, **levels):
                found.append(Row(f"{call} ({iteration(point.samples)})", point, original))
        for who, end, original in FORK:
            asked += fork.experiment.point(how="fork", resident=0) is not None
            for point in _first(fork, f"{who}_{unit}", how="fork", resident=0):
                found.append(Row(f"fork, {end} (one call each)", point, original))
        if len(found) == asked:
            break
    return found


def _first(run: Run, metric: str, **levels: str | int) -> list[Point]:
    """Return the point, if a sample has the metric. By the instructions clock it has another name."""
    known = clocked.known_name(run.experiment, metric)
    return run.points(known, **levels)[:1] if known else []


def _missing(run: Run) -> str:
    said = []
    for (precious, fork), both in zip(CLOCKS, _runs(run), strict=True):
        if both and not _same_guest(both):
            absent = fork if both[0].experiment.experiment == precious else precious
            said.append(f"`oscope run {precious} {fork}` measures both in one guest ({absent} is not of it).")
    return " ".join(said)


def _answer(rows: Rows) -> str:
    guest = rows[0].point.run.experiment.environment.get("guest") or {}
    kernel = (guest.get("kernel") or {}).get("name", "one kernel")
    by = {row.original: row.point.summary for row in rows if row.original is not None}
    if len(by) < len(FORK) + 1:
        return ""
    call, child, parent = (
        Scale.choose([each.mean], [uncertainty(each)], rows[0].unit).with_unit(each.mean)
        for each in map(by.__getitem__, (reference.MY_PRECIOUS, reference.FORK_CHILD, reference.FORK_PARENT))
    )
    return (
        f"In a guest under {kernel}, on average, my_precious with its line in the log takes {call}, fork "
        f"{child} until the child's first instruction and {parent} until the parent's return."
    )


def _loops(_: Run, tables: Sequence[Rows]) -> list[str]:
    return [
        LOOPS.format(name=row.point.run.experiment.experiment)
        for rows in tables
        for row in rows
        if row.original is reference.MY_PRECIOUS and "mean of" in iteration(row.point.samples)
    ]


def _table(rows: Rows) -> Table:
    experiment = rows[0].point.run.experiment
    guest = experiment.environment.get("guest") or {}
    what = "instructions" if experiment.clock == "instructions" else "time"
    table: TableOf[Row] = TableOf(
        f"Mean, median and standard deviation, {what} in a guest ({guest.get('accelerator', 'unknown')})",
        (
            text("", lambda row: row.name),
            count("n", lambda row: row.point.summary.n),
            # Without a prefix: a fork takes a thousand times what the silent call does.
            stat(
                "{}",
                lambda row: row.point.summary,
                rows[0].unit,
                *("mean", "median", "95 %", "std. dev."),
                prefix=False,
            ),
            *cited(lambda row: row.original),
        ),
        NOTE,
    )
    return table.of(rows)


section = Question(
    title="The new call and fork in one table",
    experiment=tuple(name for names in CLOCKS for name in names),
    rows=_tables,
    headline=lambda _, tables: _answer(tables[0]),
    text=(
        lambda _, tables: map(_answer, tables[1:]),
        lambda run, _: clocked.apart(_experiments(run)),
        _loops,
        lambda run, _: dict.fromkeys(text for each in _experiments(run) for text in cautions(each)),
    ),
    tables=lambda _, tables: map(_table, tables),
    missing=_missing,
)
