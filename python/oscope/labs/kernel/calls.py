"""The new system call and fork: what they cost under both clocks, and the original report's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oscope import questions as q
from oscope.labs.kernel import CALLS
from oscope.originals import syscalls as reference
from oscope.questions import clocked
from oscope.questions.cited_iterations import CitedRow, cited_columns, cited_statistics
from oscope.questions.clocked import Side

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
    return [side for side in found if any(side.at(call=call) for call in CALLS)]


def _what(_: q.Run, known: Sequence[Side]) -> str:
    points = [point.samples for side in known for call in CALLS if (point := side.at(call=call)) is not None]
    return WHAT.format(each=q.listed(list(dict.fromkeys(map(q.iteration, points)))).removesuffix(" each"))


def over_silent(side: Side) -> dict[str, q.ComparedMetric]:
    """Return how each call with values compares with the silent one, paired by boot: one family (Holm)."""
    rows = q.contrasts(side.run, side.metric, "call", *((SILENT, each) for each in CALLS if each != SILENT))
    return {str(each.ends[1]): each.row for each in rows}


def _silent_and_logged(_: q.Run, known: Sequence[Side]) -> str:
    words = {SILENT: "in silence", LOGGED: "with its line in the log"}
    found = ((known[0].at(call=call), how) for call, how in words.items())
    parts = [f"{point.value} {how}" for point, how in found if point is not None]
    return f"The call takes {q.listed(parts)}." if parts else ""


def _original(_: q.Run, known: Sequence[Side]) -> str | None:
    """Say what the ratio makes of the original report's figure; only of a ratio that is one."""
    theirs = reference.MY_PRECIOUS.median
    for side in known:
        row = over_silent(side).get(LOGGED)
        if row is None or row.different != "yes" or row.ratio <= 1:
            continue
        low, high = (theirs / end for end in reversed(row.ci95))
        rest = q.format_value(theirs / row.ratio, (high - low) / 2, "cycles")
        return (
            f"If printing has the share in the original report's call that it has here, {rest} of its "
            f"{theirs:.2f} cycles (median) are the call alone."
        )
    return None


def _cost(side: Side) -> q.Column[str]:
    """Return median and interval of each call, each side's in one unit."""

    def cost(call: str) -> q.Summary | None:
        return point.summary if (point := side.at(call=call)) else None

    return q.stat("", cost, side.unit, scale=side.metric)


def _over_silent(side: Side) -> list[q.Column[str]]:
    """Return the columns of how each call compares with the silent one, and the printing's share of it."""
    unit = "instructions" if side.unit == "instructions" else "time"
    rows = over_silent(side)

    def share(call: str) -> str | None:
        """Return the share that printing has of the call that prints, 1 - 1 / ratio, with its interval."""
        row = rows.get(LOGGED) if call == LOGGED else None
        if row is None or row.different != "yes" or not (row.ratio > 1 and min(row.ci95) > 0):
            return None
        low, high = (1 - 1 / end for end in row.ci95)
        return q.bounded_share(1 - 1 / row.ratio, low, high, FINEST)

    heading = f"{unit} / {SILENT}'s (95 %)"
    return [
        q.text(heading, lambda call: "1" if call == SILENT else q.ratio_text(rows.get(call))),
        q.text("different", lambda call: row.different if (row := rows.get(call)) else None),
        q.text(f"printing's share of the {unit} (95 %)", share),
    ]


PRECIOUS = q.Question(
    title="A new system call, and what its printing costs",
    experiment=("kernel.precious", "kernel.precious-wall"),
    rows=_known,
    headline=_silent_and_logged,
    text=(_what, _original, lambda _, known: clocked.conditions(side.experiment for side in known)),
    tables=lambda _, known: q.TableOf[str](
        "The new call beside others",
        q.text("call", str),
        *map(_cost, known),
        *(column for side in known if side.metric != "cycles" for column in _over_silent(side)),
        note="Medians of one call; intervals over the boots. Ratios are paired by boot, p corrected "
        "(Holm) for all calls of a clock.",
    ).of(CALLS),
    figures=lambda _, known: [
        q.strips(f"{side.what} of a call", "", ((call, side.at(call=call)) for call in CALLS))
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
    return [sides for sides in found if sides and sides[0].at(**WHERE)]


def later(child: Side, parent: Side) -> q.ComparedMetric | None:
    """Return how the child's figure compares with the parent's, of the same forks, paired by boot."""
    points = [each for side in (parent, child) if (each := side.at(**WHERE)) is not None]
    if len(points) < 2:
        return None
    column = replace(child.experiment.metrics[child.metric], name="figure")
    first, second = (
        replace(each.samples, metrics={"figure": each.samples.metrics[each.metric]}) for each in points
    )
    return q.compare_points(first, second, column, same_run=True)


def _child_and_parent(_: q.Run, measured: Sequence[Sides]) -> str:
    child, *parent = (each.value for side in measured[0][:2] if (each := side.at(**WHERE)) is not None)
    what = "counts" if measured[0][0].unit == "instructions" else "takes"
    text = f"fork {what} {child} until its child's first instruction"
    return f"{text} and {parent[0]} until its parent's return." if parent else f"{text}."


def _which_first(_: q.Run, measured: Sequence[Sides]) -> list[str]:
    def text(row: q.ComparedMetric) -> str:
        if row.different != "yes":
            return "Which of the two comes first is not decided."
        first = "parent returns" if row.ratio > 1 else "child runs"
        return f"The {first} first (child over parent {q.ratio_text(row)})."

    found = (later(sides[0], sides[1]) for sides in measured if len(sides) > 1)
    return [text(row) for row in found if row is not None]


def _fork_table(_: q.Run, measured: Sequence[Sides]) -> q.Table:
    def of(sides: Sides) -> q.Column[str]:
        points = {who: side.at(**WHERE) for who, side in zip(ENDS, sides, strict=False)}
        counted = "counted" if sides[0].unit == "instructions" else "timed"
        found = {who: q.figure(point.summary, point.unit) for who, point in points.items() if point}
        return q.text(f"{counted} (95 %)", found.get)

    return q.TableOf[str](
        "fork without resident memory",
        q.text("", ENDS.__getitem__),
        *map(of, measured),
        *cited_columns(ORIGINAL.get),
        note="Medians; intervals over the boots. The original report's figures are of 10 forks elsewhere.",
    ).of(ENDS)


def _fork_figures(_: q.Run, measured: Sequence[Sides]) -> list[q.Figure]:
    note = "Faint: single forks. Diamond: median with its 95 % interval."
    named = [
        (sides[0].what, [(end, side.at(**WHERE)) for end, side in zip(ENDS.values(), sides, strict=False)])
        for sides in measured
    ]
    return [q.strips(f"{what} of fork", "", rows, note=note) for what, rows in named]


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
NOTE = "The original report's figures are of 10 single calls on another machine."
LOOPS = "Means of many calls spread less than single ones: `oscope run {name} --set style=single` has those."


Rows = Sequence[CitedRow]
"""The table of one clock."""


def _experiments(run: q.Run) -> list[q.ExperimentResults]:
    return [own.experiment for names in CLOCKS for own in run.all(*names)]


def _guest(run: q.Run) -> dict[str, Any]:
    return run.experiment.environment.get("guest") or {}


def _same_guest(both: Sequence[q.Run]) -> bool:
    """Say whether both were measured, in guests that are set up alike."""
    return len(both) == 2 and _guest(both[0]) == _guest(both[1])


def _tables(run: q.Run) -> list[Rows]:
    runs = (run.all(*names) for names in CLOCKS)
    return [rows for both in runs if _same_guest(both) and (rows := _rows(*both))]


def _rows(precious: q.Run, fork: q.Run) -> Rows:
    """Return the rows: in cycles if all have them, else in time, or in instructions."""
    found: list[CitedRow] = []
    for metric, unit in (("cycles", "cycles"), ("time_ns", "ns")):
        found, asked = [], 0
        for call, original in TABLE_ONE_CALLS:
            # The original report timed each call by itself.
            style = "single" if precious.experiment.point(call=call, style="single") else None
            levels: dict[str, q.Level] = {"call": call, **({"style": style} if style else {})}
            asked += precious.experiment.point(**levels) is not None
            if point := _first(precious, metric, **levels):
                found.append(CitedRow(call, point, original))
        for who, original in ORIGINAL.items():
            asked += fork.experiment.point(**WHERE) is not None
            if point := _first(fork, f"{who}_{unit}", **WHERE):
                found.append(CitedRow(f"fork, {ENDS[who]}", point, original))
        if len(found) == asked:
            break
    return found


def _first(run: q.Run, metric: str, **levels: q.Level) -> q.Point | None:
    """Return the point, if a sample has the metric. By the instructions clock it has another name."""
    known = clocked.known_name(run.experiment, metric)
    return run.point(known, **levels) if known else None


def _missing(run: q.Run) -> str:
    tips = []
    for precious, fork in CLOCKS:
        both = run.all(precious, fork)
        if both and not _same_guest(both):
            absent = fork if both[0].experiment.experiment == precious else precious
            tips.append(f"`oscope run {precious} {fork}` measures both in one guest ({absent} is not of it).")
    return " ".join(tips)


def _points(rows: Rows) -> list[q.Point]:
    return [row.point for row in rows if row.point is not None]


def _answer(rows: Rows) -> str:
    """Say what the call and fork take on average until the child runs; the table has the parent's return."""
    first = _points(rows)[0]
    kernel = (_guest(first.run).get("kernel") or {}).get("name", "one kernel")
    by = {row.original: row.summary for row in rows if row.original and row.summary}
    if len(by) < len(ORIGINAL) + 1:
        return ""
    call, child = (
        q.Scale.choose([each.mean], [q.uncertainty(each)], first.unit).with_unit(each.mean)
        for each in (by[reference.MY_PRECIOUS], by[reference.FORK_CHILD])
    )
    return (
        f"In a guest under {kernel}, my_precious with its line in the log takes {call} on average, and fork "
        f"{child} until the child's first instruction."
    )


def _statistics(rows: Rows) -> q.Table:
    run, unit = _points(rows)[0].run, _points(rows)[0].unit
    what = "instructions" if run.experiment.clock == "instructions" else "time"
    where = f"{what} in a guest ({_guest(run).get('accelerator', 'unknown')})"
    return cited_statistics(f"Mean, median and standard deviation, {where}", rows, unit, NOTE)


def _loops(_: q.Run, tables: Sequence[Rows]) -> list[str]:
    logged = ([row for row in rows if row.original is reference.MY_PRECIOUS] for rows in tables)
    means = (point for rows in logged for point in _points(rows) if "mean of" in q.iteration(point.samples))
    return [LOOPS.format(name=point.run.experiment.experiment) for point in means]


TABLE_ONE = q.Question(
    title="The new call and fork in one table",
    experiment=tuple(name for names in CLOCKS for name in names),
    rows=_tables,
    headline=lambda _, tables: _answer(tables[0]),
    text=(
        lambda _, tables: map(_answer, tables[1:]),
        lambda run, _: clocked.apart(_experiments(run)),
        _loops,
        lambda run, _: dict.fromkeys(text for each in _experiments(run) for text in q.cautions(each)),
    ),
    tables=lambda _, tables: map(_statistics, tables),
    missing=_missing,
)
