"""The new system call and fork: what they cost under both clocks, and the original report's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from oscope.figures.tables import uncertainty
from oscope.figures.words import iteration, listed
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run
from oscope.labs.engine.table import Column, TableOf, count, stat, text
from oscope.labs.engine.words import bounded_share, cautions, ratio_text
from oscope.labs.kernel import CALLS, clocked
from oscope.labs.kernel.clocked import Side
from oscope.labs.syscalls import reference
from oscope.labs.syscalls.reference import Cited, cited
from oscope.model.document import Figure, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, Scale, format_value
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric, compare_points, compare_within

# ---- what the new call costs, with and without printing

SILENT, LOGGED = CALLS[:2]
FINEST = 0.001
"""Share to which the digits of a share go, however narrow its interval."""
PRECIOUS_EXPERIMENTS = (
    ("kernel.precious", "time_ns"),
    ("kernel.precious-wall", "time_ns"),
    ("kernel.precious-wall", "cycles"),
)
WHAT = (
    f"{SILENT} is a call that returns 0; as {LOGGED} it writes a line to the kernel's log, as the original "
    "report's does. A sample is {each}. The log is full after some 4000 lines: repetitions before cost less."
)


def _known(run: Run) -> list[Side]:
    """Return the sides with a point: a guest under the instructions clock, for one, has no cycles."""
    found = clocked.sides(run, *PRECIOUS_EXPERIMENTS)
    return [side for side in found if any(side.point(call=call) for call in CALLS)]


def _what(_: Run, known: Sequence[Side]) -> str:
    points = [point for side in known for call in CALLS if (point := side.point(call=call)) is not None]
    return WHAT.format(each=listed(list(dict.fromkeys(map(iteration, points)))).removesuffix(" each"))


def printed(side: Side, a: str = SILENT, b: str = LOGGED) -> ComparedMetric | None:
    """Return how the call `b` compares with `a`, paired by boot; None where either has no value."""
    if side.point(call=a) is None or side.point(call=b) is None:
        return None
    metrics = {side.metric: side.experiment.metrics[side.metric]}
    points = tuple(point for point in side.experiment.points if point.factors.get("call") in (a, b))
    narrow = replace(side.experiment, metrics=metrics, points=points)
    return compare_within(narrow, "call", a, b).rows[0]


def _silent_and_logged(_: Run, known: Sequence[Side]) -> str:
    side = known[0]
    silent, logged = (side.summary(call=call) for call in (SILENT, LOGGED))
    if silent is None or logged is None or printed(side) is None:
        alone, name = (logged, LOGGED) if silent is None else (silent, SILENT)
        return "" if alone is None else f"{name} takes {side.value(alone)}; its other form was not measured."
    return (
        f"The call takes {side.value(silent)} in silence and {side.value(logged)} with its line in the log."
    )


def _original(_: Run, known: Sequence[Side]) -> str | None:
    """Say what the ratio makes of the original report's figure; only of a ratio that is one."""
    theirs = reference.MY_PRECIOUS
    for side in known:
        row = printed(side)
        if row is None or row.different != "yes" or row.ratio <= 1:
            continue
        low, high = (theirs.median / end for end in reversed(row.ci95))
        rest = format_value(theirs.median / row.ratio, (high - low) / 2, "cycles")
        return (
            f"If printing has the share in the original report's call that it has here, {rest} of its "
            f"{theirs.median:.2f} cycles (median) are the call alone."
        )
    return None


def _over_silent(side: Side) -> list[Column[str]]:
    """Return the columns of how each call compares with the silent one, and the printing's share of it."""
    unit = "instructions" if side.unit == "instructions" else "time"

    def compared(read: Callable[[ComparedMetric], str | None]) -> Callable[[str], str | None]:
        def cell(call: str) -> str | None:
            row = None if call == SILENT else printed(side, SILENT, call)
            return None if row is None else read(row)

        return cell

    def share(call: str) -> str | None:
        """Return the share that printing has of the call that prints, 1 - 1 / ratio, with its interval."""
        row = printed(side) if call == LOGGED else None
        if row is None or row.different != "yes" or not (row.ratio > 1 and min(row.ci95) > 0):
            return None
        low, high = (1 - 1 / end for end in row.ci95)
        return bounded_share(1 - 1 / row.ratio, low, high, FINEST)

    ratio = compared(ratio_text)
    return [
        text(f"{unit} / {SILENT}'s (95 %)", lambda call: "1" if call == SILENT else ratio(call)),
        text("different", compared(lambda row: row.different)),
        text(f"printing's share of the {unit} (95 %)", share),
    ]


def _precious_table(_: Run, known: Sequence[Side]) -> Table:
    table: TableOf[str] = TableOf(
        "The new call beside others",
        (
            text("call", lambda call: call),
            *clocked.columns(known, lambda call: {"call": call}),
            *(column for side in known if side.metric != "cycles" for column in _over_silent(side)),
        ),
        "Medians of one call; intervals over the boots. Ratios are paired by boot.",
    )
    return table.of(CALLS)


def _precious_figures(_: Run, known: Sequence[Side]) -> list[Figure]:
    return [
        clocked.drawn(f"{side.what} of a call", [(call, side, side.point(call=call)) for call in CALLS])
        for side in known
        if side.metric != "cycles"
    ]


PRECIOUS = Question(
    title="A new system call, and what its printing costs",
    experiment=("kernel.precious", "kernel.precious-wall"),
    rows=_known,
    headline=_silent_and_logged,
    text=(_what, _original, lambda _, known: clocked.conditions(side.experiment for side in known)),
    tables=_precious_table,
    figures=_precious_figures,
    missing=lambda run: clocked.missing(run, "kernel.precious", "kernel.precious-wall"),
)


# ---- fork beside the new call

WHERE: dict[str, Level] = {"how": "fork", "resident": 0}
FORK_EXPERIMENTS = ("kernel.fork", "kernel.fork-wall")
ENDS = {
    "child": "until the child's first instruction",
    "parent": "until the parent's return",
    "total": "until the child was waited for",
}
ORIGINAL = {"child": reference.FORK_CHILD, "parent": reference.FORK_PARENT}

Sides = Sequence[Side]
"""The metrics of one experiment, in the order of `ENDS`."""


def _measured(run: Run) -> list[Sides]:
    found = (clocked.sides(run, *((name, f"{who}_ns") for who in ENDS)) for name in FORK_EXPERIMENTS)
    return [sides for sides in found if sides and sides[0].point(**WHERE)]


def later(child: Side, parent: Side) -> ComparedMetric | None:
    """Return how the child's figure compares with the parent's, of the same forks, paired by boot."""
    point = child.point(**WHERE)
    if point is None or parent.point(**WHERE) is None:
        return None
    column = replace(child.experiment.metrics[child.metric], name="figure")

    def only(metric: str) -> PointSamples:
        return replace(point, metrics={"figure": point.metrics[metric]})

    return compare_points(only(parent.metric), only(child.metric), column, same_run=True)


def _child_and_parent(_: Run, measured: Sequence[Sides]) -> str:
    found = [(side, each) for side in measured[0][:2] if (each := side.summary(**WHERE)) is not None]
    child, *parent = (side.value(each) for side, each in found)
    what = "counts" if measured[0][0].unit == "instructions" else "takes"
    text = f"fork {what} {child} until its child's first instruction"
    return f"{text} and {parent[0]} until its parent's return." if parent else f"{text}."


def _which_first(_: Run, measured: Sequence[Sides]) -> list[str]:
    """Say which of the two comes first."""
    said = []
    for row in (later(sides[0], sides[1]) for sides in measured if len(sides) > 1):
        if row is not None and row.different == "yes":
            first = "parent returns" if row.ratio > 1 else "child runs"
            said.append(f"The {first} first (child over parent {ratio_text(row)}).")
        elif row is not None:
            said.append("Which of the two comes first is not decided.")
    return said


def _fork_table(_: Run, measured: Sequence[Sides]) -> Table:
    def both(sides: Sides) -> Column[str]:
        """Return median and interval of each end, in a unit of its own."""

        def cells(who: str, _: Scale) -> list[str]:
            side = dict(zip(ENDS, sides, strict=False)).get(who)
            found = side.summary(**WHERE) if side else None
            if side is None or found is None:
                return [MISSING, MISSING]
            scale = Scale.of(found.median, uncertainty(found), side.unit)
            return [scale.with_unit(found.median), clocked.interval(found, scale)]

        return Column(("counted" if sides[0].unit == "instructions" else "timed", "95 %"), cells, True)

    table: TableOf[str] = TableOf(
        "fork without resident memory",
        (text("", ENDS.__getitem__), *map(both, measured), *cited(ORIGINAL.get)),
        "Medians; intervals over the boots. The original report's figures are of 10 forks on another "
        "machine, for their shape.",
    )
    return table.of(ENDS)


def _fork_figures(_: Run, measured: Sequence[Sides]) -> list[Figure]:
    """Draw the same point by several metrics, a row each."""
    note = "Faint: single forks. Diamond: median with its 95 % interval."
    return [
        clocked.drawn(
            f"{sides[0].what} of fork",
            [(end, side, side.point(**WHERE)) for end, side in zip(ENDS.values(), sides, strict=False)],
            note,
        )
        for sides in measured
    ]


FORK_BESIDE = Question(
    title="fork beside the new call",
    experiment=FORK_EXPERIMENTS,
    rows=_measured,
    headline=_child_and_parent,
    text=(
        _which_first,
        (
            "Under the instructions clock there is one CPU: whoever runs first delays the other. A guest "
            "under the wall clock has two."
        ),
        lambda _, measured: clocked.conditions(sides[0].experiment for sides in measured),
    ),
    tables=_fork_table,
    figures=_fork_figures,
    missing=lambda run: clocked.missing(run, *FORK_EXPERIMENTS),
)


# ---- the original report's table: the new call and fork in one guest

CLOCKS = (("kernel.precious-wall", "kernel.fork-wall"), ("kernel.precious", "kernel.fork"))
"""The experiments of each clock, which count or time the call and fork in guests of one kernel."""
TABLE_ONE_CALLS = (("my_precious_logged", reference.MY_PRECIOUS), ("my_precious", None))
NOTE = (
    "The original report's figures are of 10 iterations each, one call each, on another machine. The "
    "interval is that of the median."
)
LOOPS = (
    "The standard deviation of means of many calls is smaller than that of single calls: `oscope run {name} "
    "--set style=single` times each call by itself, as the original report did."
)


class Row(NamedTuple):
    """A row of the table."""

    name: str
    point: Point
    original: Cited | None


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
        for call, original in TABLE_ONE_CALLS:
            # The original report timed each call by itself.
            style = "single" if precious.experiment.point(call=call, style="single") else None
            levels: dict[str, Level] = {"call": call, **({"style": style} if style else {})}
            asked += precious.experiment.point(**levels) is not None
            for point in _first(precious, metric, **levels):
                found.append(Row(f"{call} ({iteration(point.samples)})", point, original))
        for who, original in ORIGINAL.items():
            asked += fork.experiment.point(**WHERE) is not None
            for point in _first(fork, f"{who}_{unit}", **WHERE):
                found.append(Row(f"fork, {ENDS[who]} (one call each)", point, original))
        if len(found) == asked:
            break
    return found


def _first(run: Run, metric: str, **levels: Level) -> list[Point]:
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
    if len(by) < len(ORIGINAL) + 1:
        return ""
    call, child, parent = (
        Scale.choose([each.mean], [uncertainty(each)], rows[0].point.unit).with_unit(each.mean)
        for each in map(by.__getitem__, (reference.MY_PRECIOUS, *ORIGINAL.values()))
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


def _statistics(rows: Rows) -> Table:
    experiment = rows[0].point.run.experiment
    guest = experiment.environment.get("guest") or {}
    what = "instructions" if experiment.clock == "instructions" else "time"
    unit, parts = rows[0].point.unit, ("mean", "median", "95 %", "std. dev.")
    table: TableOf[Row] = TableOf(
        f"Mean, median and standard deviation, {what} in a guest ({guest.get('accelerator', 'unknown')})",
        (
            text("", lambda row: row.name),
            count("n", lambda row: row.point.summary.n),
            # Without a prefix: a fork takes a thousand times what the silent call does.
            stat("{}", lambda row: row.point.summary, unit, *parts, prefix=False),
            *cited(lambda row: row.original),
        ),
        NOTE,
    )
    return table.of(rows)


TABLE_ONE = Question(
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
    tables=lambda _, tables: map(_statistics, tables),
    missing=_missing,
)
