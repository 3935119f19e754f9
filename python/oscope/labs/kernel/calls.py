"""The new system call and fork: what they cost under both clocks, and the original report's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from oscope.labs import engine as q
from oscope.labs.kernel import CALLS, clocked
from oscope.labs.kernel.clocked import Side
from oscope.labs.syscalls import reference
from oscope.labs.syscalls.reference import Cited, cited

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


def _known(run: q.Run) -> list[Side]:
    """Return the sides with a point: a guest under the instructions clock, for one, has no cycles."""
    found = clocked.sides(run, *PRECIOUS_EXPERIMENTS)
    return [side for side in found if any(side.point(call=call) for call in CALLS)]


def _what(_: q.Run, known: Sequence[Side]) -> str:
    points = [point for side in known for call in CALLS if (point := side.point(call=call)) is not None]
    return WHAT.format(each=q.listed(list(dict.fromkeys(map(q.iteration, points)))).removesuffix(" each"))


def printed(side: Side, a: str = SILENT, b: str = LOGGED) -> q.ComparedMetric | None:
    """Return how the call `b` compares with `a`, paired by boot; None where either has no value."""
    if side.point(call=a) is None or side.point(call=b) is None:
        return None
    metrics = {side.metric: side.experiment.metrics[side.metric]}
    points = tuple(point for point in side.experiment.points if point.factors.get("call") in (a, b))
    narrow = replace(side.experiment, metrics=metrics, points=points)
    return q.compare_within(narrow, "call", a, b).rows[0]


def _silent_and_logged(_: q.Run, known: Sequence[Side]) -> str:
    side = known[0]
    words = {SILENT: "in silence", LOGGED: "with its line in the log"}
    found = ((side.summary(call=call), how) for call, how in words.items())
    said = [f"{side.value(each)} {how}" for each, how in found if each is not None]
    return f"The call takes {q.listed(said)}." if said else ""


def _original(_: q.Run, known: Sequence[Side]) -> str | None:
    """Say what the ratio makes of the original report's figure; only of a ratio that is one."""
    theirs = reference.MY_PRECIOUS
    for side in known:
        row = printed(side)
        if row is None or row.different != "yes" or row.ratio <= 1:
            continue
        low, high = (theirs.median / end for end in reversed(row.ci95))
        rest = q.format_value(theirs.median / row.ratio, (high - low) / 2, "cycles")
        return (
            f"If printing has the share in the original report's call that it has here, {rest} of its "
            f"{theirs.median:.2f} cycles (median) are the call alone."
        )
    return None


def _over_silent(side: Side) -> list[q.Column[str]]:
    """Return the columns of how each call compares with the silent one, and the printing's share of it."""
    unit = "instructions" if side.unit == "instructions" else "time"

    def compared(read: Callable[[q.ComparedMetric], str | None]) -> Callable[[str], str | None]:
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
        return q.bounded_share(1 - 1 / row.ratio, low, high, FINEST)

    ratio = compared(q.ratio_text)
    return [
        q.text(f"{unit} / {SILENT}'s (95 %)", lambda call: "1" if call == SILENT else ratio(call)),
        q.text("different", compared(lambda row: row.different)),
        q.text(f"printing's share of the {unit} (95 %)", share),
    ]


def _precious_table(_: q.Run, known: Sequence[Side]) -> q.Table:
    table: q.TableOf[str] = q.TableOf(
        "The new call beside others",
        (
            q.text("call", lambda call: call),
            *clocked.columns(known, lambda call: {"call": call}),
            *(column for side in known if side.metric != "cycles" for column in _over_silent(side)),
        ),
        "Medians of one call; intervals over the boots. Ratios are paired by boot.",
    )
    return table.of(CALLS)


PRECIOUS = q.Question(
    title="A new system call, and what its printing costs",
    experiment=("kernel.precious", "kernel.precious-wall"),
    rows=_known,
    headline=_silent_and_logged,
    text=(_what, _original, lambda _, known: clocked.conditions(side.experiment for side in known)),
    tables=_precious_table,
    figures=lambda _, known: [
        clocked.drawn(f"{side.what} of a call", [(call, side, side.point(call=call)) for call in CALLS])
        for side in known
        if side.metric != "cycles"
    ],
)


# ---- fork beside the new call

WHERE: dict[str, q.Level] = {"how": "fork", "resident": 0}
FORK_EXPERIMENTS = ("kernel.fork", "kernel.fork-wall")
ENDS = {
    "child": "until the child's first instruction",
    "parent": "until the parent's return",
    "total": "until the child was waited for",
}
ORIGINAL = {"child": reference.FORK_CHILD, "parent": reference.FORK_PARENT}

Sides = Sequence[Side]
"""The metrics of one experiment, in the order of `ENDS`."""


def _measured(run: q.Run) -> list[Sides]:
    found = (clocked.sides(run, *((name, f"{who}_ns") for who in ENDS)) for name in FORK_EXPERIMENTS)
    return [sides for sides in found if sides and sides[0].point(**WHERE)]


def later(child: Side, parent: Side) -> q.ComparedMetric | None:
    """Return how the child's figure compares with the parent's, of the same forks, paired by boot."""
    point = child.point(**WHERE)
    if point is None or parent.point(**WHERE) is None:
        return None
    column = replace(child.experiment.metrics[child.metric], name="figure")

    def only(metric: str) -> q.PointSamples:
        return replace(point, metrics={"figure": point.metrics[metric]})

    return q.compare_points(only(parent.metric), only(child.metric), column, same_run=True)


def _child_and_parent(_: q.Run, measured: Sequence[Sides]) -> str:
    found = [(side, each) for side in measured[0][:2] if (each := side.summary(**WHERE)) is not None]
    child, *parent = (side.value(each) for side, each in found)
    what = "counts" if measured[0][0].unit == "instructions" else "takes"
    text = f"fork {what} {child} until its child's first instruction"
    return f"{text} and {parent[0]} until its parent's return." if parent else f"{text}."


def _which_first(_: q.Run, measured: Sequence[Sides]) -> list[str]:
    def said(row: q.ComparedMetric) -> str:
        first = "parent returns" if row.ratio > 1 else "child runs"
        return f"The {first} first (child over parent {q.ratio_text(row)})."

    return [
        said(row) if row.different == "yes" else "Which of the two comes first is not decided."
        for sides in measured
        if len(sides) > 1 and (row := later(sides[0], sides[1])) is not None
    ]


def _fork_table(_: q.Run, measured: Sequence[Sides]) -> q.Table:
    def both(sides: Sides) -> q.Column[str]:
        """Return median and interval of each end, in a unit of its own."""

        def cells(who: str, _: q.Scale) -> list[str]:
            side = dict(zip(ENDS, sides, strict=False)).get(who)
            found = side.summary(**WHERE) if side else None
            if side is None or found is None:
                return [q.MISSING, q.MISSING]
            scale = q.Scale.of(found.median, q.uncertainty(found), side.unit)
            return [scale.with_unit(found.median), clocked.interval(found, scale)]

        return q.Column(("counted" if sides[0].unit == "instructions" else "timed", "95 %"), cells, True)

    table: q.TableOf[str] = q.TableOf(
        "fork without resident memory",
        (q.text("", ENDS.__getitem__), *map(both, measured), *cited(ORIGINAL.get)),
        "Medians; intervals over the boots. The original report's figures are of 10 forks elsewhere.",
    )
    return table.of(ENDS)


def _fork_figures(_: q.Run, measured: Sequence[Sides]) -> list[q.Figure]:
    note = "Faint: single forks. Diamond: median with its 95 % interval."
    return [
        clocked.drawn(
            f"{sides[0].what} of fork",
            [(end, side, side.point(**WHERE)) for end, side in zip(ENDS.values(), sides, strict=False)],
            note,
        )
        for sides in measured
    ]


FORK_BESIDE = q.Question(
    title="fork beside the new call",
    experiment=FORK_EXPERIMENTS,
    rows=_measured,
    headline=_child_and_parent,
    text=(
        _which_first,
        "Under the instructions clock one CPU runs both, and the first delays the other; else there are two.",
        lambda _, measured: clocked.conditions(sides[0].experiment for sides in measured),
    ),
    tables=_fork_table,
    figures=_fork_figures,
)


# ---- the original report's table: the new call and fork in one guest

CLOCKS = (("kernel.precious-wall", "kernel.fork-wall"), ("kernel.precious", "kernel.fork"))
"""The experiments of each clock, which count or time the call and fork in guests of one kernel."""
TABLE_ONE_CALLS = (("my_precious_logged", reference.MY_PRECIOUS), ("my_precious", None))
NOTE = "The original report's figures are of 10 single calls on another machine. The interval: the median's."
LOOPS = "Means of many calls spread less than single ones: `oscope run {name} --set style=single` has those."


class Row(NamedTuple):
    """A row of the table."""

    name: str
    point: q.Point
    original: Cited | None


Rows = Sequence[Row]
"""The table of one clock."""


def _runs(run: q.Run) -> list[list[q.Run]]:
    return [run.all(*names) for names in CLOCKS]


def _experiments(run: q.Run) -> list[q.ExperimentResults]:
    return [own.experiment for both in _runs(run) for own in both]


def _same_guest(both: Sequence[q.Run]) -> bool:
    """Say whether both were measured, in guests that are set up alike."""
    guests = [each.experiment.environment.get("guest") for each in both]
    return len(guests) == 2 and guests[0] == guests[1]


def _tables(run: q.Run) -> list[Rows]:
    made = (_rows(*both) for both in _runs(run) if _same_guest(both))
    return [rows for rows in made if rows]


def _rows(precious: q.Run, fork: q.Run) -> Rows:
    """Return the rows: in cycles if all have them, else in time, or in instructions."""
    found: list[Row] = []
    for unit in ("cycles", "ns"):
        found, asked = [], 0
        metric = "cycles" if unit == "cycles" else "time_ns"
        for call, original in TABLE_ONE_CALLS:
            # The original report timed each call by itself.
            style = "single" if precious.experiment.point(call=call, style="single") else None
            levels: dict[str, q.Level] = {"call": call, **({"style": style} if style else {})}
            asked += precious.experiment.point(**levels) is not None
            for point in _first(precious, metric, **levels):
                found.append(Row(f"{call} ({q.iteration(point.samples)})", point, original))
        for who, original in ORIGINAL.items():
            asked += fork.experiment.point(**WHERE) is not None
            for point in _first(fork, f"{who}_{unit}", **WHERE):
                found.append(Row(f"fork, {ENDS[who]} (one call each)", point, original))
        if len(found) == asked:
            break
    return found


def _first(run: q.Run, metric: str, **levels: q.Level) -> list[q.Point]:
    """Return the point, if a sample has the metric. By the instructions clock it has another name."""
    known = clocked.known_name(run.experiment, metric)
    return run.points(known, **levels)[:1] if known else []


def _missing(run: q.Run) -> str:
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
        q.Scale.choose([each.mean], [q.uncertainty(each)], rows[0].point.unit).with_unit(each.mean)
        for each in map(by.__getitem__, (reference.MY_PRECIOUS, *ORIGINAL.values()))
    )
    return (
        f"In a guest under {kernel}, on average, my_precious with its line in the log takes {call}, fork "
        f"{child} until the child's first instruction and {parent} until the parent's return."
    )


def _statistics(rows: Rows) -> q.Table:
    experiment = rows[0].point.run.experiment
    guest = experiment.environment.get("guest") or {}
    what = "instructions" if experiment.clock == "instructions" else "time"
    unit, parts = rows[0].point.unit, ("mean", "median", "95 %", "std. dev.")
    table: q.TableOf[Row] = q.TableOf(
        f"Mean, median and standard deviation, {what} in a guest ({guest.get('accelerator', 'unknown')})",
        (
            q.text("", lambda row: row.name),
            q.count("n", lambda row: row.point.summary.n),
            # Without a prefix: a fork takes a thousand times what the silent call does.
            q.stat("{}", lambda row: row.point.summary, unit, *parts, prefix=False),
            *cited(lambda row: row.original),
        ),
        NOTE,
    )
    return table.of(rows)


TABLE_ONE = q.Question(
    title="The new call and fork in one table",
    experiment=tuple(name for names in CLOCKS for name in names),
    rows=_tables,
    headline=lambda _, tables: _answer(tables[0]),
    text=(
        lambda _, tables: map(_answer, tables[1:]),
        lambda run, _: clocked.apart(_experiments(run)),
        lambda _, tables: [
            LOOPS.format(name=row.point.run.experiment.experiment)
            for rows in tables
            for row in rows
            if row.original is reference.MY_PRECIOUS and "mean of" in q.iteration(row.point.samples)
        ],
        lambda run, _: dict.fromkeys(text for each in _experiments(run) for text in q.cautions(each)),
    ),
    tables=lambda _, tables: map(_statistics, tables),
    missing=_missing,
)
