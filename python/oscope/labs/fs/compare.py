"""How the file systems compare: which wins where, by how much, by the delay, and beside the local one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from oscope import questions as q
from oscope.labs.fs import LAB, LOCAL, NFS, OSCOPE, SSHFS
from oscope.labs.fs.fs_points import DELAY, NAMES, OPERATION, WORDS, Shown, delay_of, delay_text, notes

# ---- where oscope-fs wins over NFS and sshfs, and where they do

WINS_TITLE = "Where oscope-fs wins, and where NFS does"
NAME = "fs.compare"
HOW_TO = "It needs a guest, whose kernel serves NFS: `oscope kernel build`, then `oscope run fs.compare`."
OTHERS = (NFS, SSHFS)


def _wins(run: q.Run) -> list[q.Contrast]:
    return [row for other in OTHERS for row in Shown.of(run).against(other)]


def _other(row: q.Contrast) -> str:
    return NAMES[str(row.ends[0])]


def _most_won(_: q.Run, found: Sequence[q.Contrast]) -> str:
    """Say where either system is most faster than the other, of the first one that was compared."""
    name = _other(found[0])
    rows = sorted((each.row for each in q.apart(found) if _other(each) == name), key=lambda row: row.ratio)
    won = [row for row in rows[:1] if row.ratio < 1]
    lost = [row for row in rows[-1:] if row.ratio > 1]
    parts = [
        *(f"oscope-fs wins most over {name} at {_place(row)}, {_times_as_fast(row)}" for row in won),
        *(f"{name} wins most at {_place(row)}, {_times_as_fast(row)}" for row in lost),
        *(["nowhere was oscope-fs found faster"] if lost and not won else []),
        *([f"nowhere was {name} found faster"] if won and not lost else []),
    ]
    return f"{'; '.join(parts) or f'Nowhere was a difference between oscope-fs and {name} found'}."


def _times_as_fast(row: q.ComparedMetric) -> str:
    """Return `1.28 times [1.27, 1.29] as fast`: of the faster one over the slower one."""
    low, high = row.ci95
    inverse = replace(row, ratio=1 / row.ratio, ci95=(1 / high, 1 / low))
    return f"{q.times(inverse if row.ratio < 1 else row)} as fast"


def _place(row: q.ComparedMetric) -> str:
    return f"{row.factors['operation']} with {delay_text(delay_of(row.factors))}"


def _wins_tables(_: q.Run, found: Sequence[q.Contrast]) -> Iterator[q.Table]:
    for name, rows in q.grouped(found, _other).items():
        yield q.TableOf[q.Contrast](
            f"oscope-fs against {name}",
            OPERATION,
            DELAY,
            q.ratio(f"time of oscope-fs / {name}'s", lambda each: each.row, "different", "matters"),
            q.text("faster", _faster),
            note="Paired by block, p corrected (Holm) for all rows. Below 1 oscope-fs is faster.",
        ).of(rows)


def _faster(each: q.Contrast) -> str:
    if each.row.different != "yes":
        return "neither" if each.row.different == "no" else "cannot tell"
    return NAMES[OSCOPE] if each.row.ratio < 1 else _other(each)


def _wins_figures(_: q.Run, found: Sequence[q.Contrast]) -> Iterator[q.Figure]:
    note = "Left of 1 oscope-fs is faster. Ratios with their 95 % intervals."
    for name, rows in q.grouped(found, _other).items():
        dots = [(delay_text(delay_of(each.factors)), each.level("operation"), each.row) for each in rows]
        title, what = f"Time of oscope-fs against {name}", f"time of oscope-fs over {name}'s"
        yield q.logarithmic(q.dots(title, what, dots, note=note))


WINS = q.Question(
    title=WINS_TITLE,
    experiment=NAME,
    rows=_wins,
    headline=_most_won,
    text=notes,
    tables=_wins_tables,
    figures=_wins_figures,
    missing=lambda run: (
        q.reasons(run.experiment) or ("" if _wins(run) else f"Neither NFS nor sshfs has times. {HOW_TO}")
    ),
    unrun=q.beside_others(NAME, HOW_TO, LAB),
)


# ---- which file system for what

CHOICE_TITLE = "Which file system for what"


def _chosen(run: q.Run) -> dict[str, dict[float, list[str]]]:
    """Return by operation and delay the fastest system, then those not distinguished from it.

    One that was measured alone is not called the fastest of anything.
    """

    def make() -> dict[str, dict[float, list[str]]]:
        shown = Shown.of(run)
        rows = q.grouped(shown.rows, lambda row: row.level("operation"))
        return {
            name: {delay_of(row.factors): row.best(shown.far) for row in own} for name, own in rows.items()
        }

    return run.once("chosen", make)


def _choice_table(run: q.Run, operations: Sequence[str]) -> q.Table:
    def names(delay: float) -> Callable[[str], str | None]:
        return lambda name: ", ".join(NAMES[one] for one in _chosen(run)[name].get(delay, ())) or None

    return q.TableOf[str](
        "The fastest by operation and delay",
        q.text("operation", str),
        *(q.text(f"delay {q.format_duration(delay)}", names(delay)) for delay in Shown.of(run).delays),
        note="By the median time. Several names: the first is the fastest, the others are not distinguished "
        "from it (paired by block; Holm, for all pairs of a cell).",
    ).of(operations)


def _always_fastest(run: q.Run, _: object) -> str:
    """Say at which operations one system alone is the fastest at every delay."""
    shown, chosen = Shown.of(run), _chosen(run)
    alone: dict[str, list[str]] = {name: [] for name in shown.far}
    rest: list[str] = []
    never: list[str] = []
    whole = True
    for operation in shown.operations:
        cells = {tuple(chosen[operation].get(delay, ())) for delay in shown.delays}
        winners = cells - {()}
        one = next(iter(winners)) if len(winners) == 1 else ()
        sole = len(one) == 1
        whole &= not sole or cells == winners
        (alone[one[0]] if sole else rest if winners else never).append(operation)
    always = "; ".join(f"{NAMES[name]} at {q.listed(own)}" for name, own in alone.items() if own)
    parts = [f"Fastest at every delay{'' if whole else ' compared'}: {always}"] if always else []
    if rest:
        parts.append(f"at {q.listed(rest)} it depends on the delay, or several are not distinguished")
    if never:
        parts.append(f"at {q.listed(never)} nothing was compared")
    return f"{q.capital('; '.join(parts))}." if parts else ""


CHOICE = q.Question(
    title=CHOICE_TITLE,
    experiment=NAME,
    rows=lambda run: shown.operations if len((shown := Shown.of(run)).far) > 1 else [],
    headline=_always_fastest,
    text=(
        lambda run, _: (
            f"Compared are {q.listed([NAMES[name] for name in Shown.of(run).far])}; one that was left out is "
            "not among them."
        ),
        notes,
    ),
    tables=_choice_table,
    missing=lambda _: "",
)


# ---- the time of each operation by the delay of the line

TIMES_TITLE = "Time by the delay of the line"
SMALL = 300
"""Pixels of a figure's height: there is one for each operation."""


def _slower(run: q.Run) -> list[q.Contrast]:
    """Return how the longest delay compares with the shortest, on each file system but the local one."""
    shown = Shown.of(run)
    ends = (shown.delays[0], shown.delays[-1])
    rows = q.contrasts(shown.run, shown.time, "delay", ends) if ends[0] < ends[1] else []
    return [each for system in shown.far for each in rows if each.factors["system"] == system]


def _slowed_most(run: q.Run, _: object) -> str:
    delays = Shown.of(run).delays
    slower = [each for each in q.apart(_slower(run)) if each.row.ratio > 1]
    if not slower:
        longer = "a delay" if not delays or not delays[0] else f"a delay above {q.format_duration(delays[0])}"
        return "" if len(delays) < 2 else f"No file system is found slower with {longer}."
    most = max(slower, key=lambda each: each.row.ratio)
    base = f" as {_base(delays)}" if delays[0] else ""
    what = f"takes {q.times(most.row)} as long{base} at {most.level('operation')}"
    return f"With {delay_text(delays[-1])}, {NAMES[most.level('system')]} {what}."


def _base(delays: Sequence[float]) -> str:
    """Name the delay that the others are compared with: the shortest."""
    return f"with {delay_text(delays[0])}" if delays[0] else "without"


def _delayed(run: q.Run, _: object) -> q.Table:
    delays = Shown.of(run).delays
    return q.TableOf[q.Contrast](
        f"Time with {delay_text(delays[-1])} over that with {delay_text(delays[0])}",
        q.text("file system", lambda each: NAMES[each.level("system")]),
        OPERATION,
        q.ratio(f"time / time {_base(delays)}", lambda each: each.row, "different"),
        note="Paired by block, p corrected (Holm) for all rows.",
    ).of(_slower(run))


def _times_table(run: q.Run, _: object) -> q.Table:
    shown = Shown.of(run)
    columns = (OPERATION, DELAY, *shown.times())
    return q.TableOf("Time of each operation", *columns, note=q.INTERVALS).of(shown.rows)


OPERATIONS: q.TableOf[str] = q.TableOf(
    "The operations",
    q.text("operation", str),
    q.text("what the clock has", WORDS.__getitem__),
)


NOTES: q.TableOf[tuple[str, str]] = q.TableOf(
    "How it was mounted and served", *q.items("file system", "as the probe noted")
)


def mounted(run: q.Run, _: object) -> q.Table:
    """Return what the probe noted of each system: versions, and how it was mounted and served."""
    points = Shown.of(run).experiment.points
    noted = {(NAMES[str(point.factors["system"])], note): None for point in points for note in point.notes}
    return NOTES.of(sorted(noted, key=lambda row: list(NAMES.values()).index(row[0])))


def _times_figures(run: q.Run, _: object) -> Iterator[q.Figure]:
    shown = Shown.of(run)
    if len(shown.delays) < 2:
        return
    across = q.even_axis("delay, one way", list(map(q.format_duration, shown.delays)))
    for operation, rows in q.grouped(shown.rows, lambda row: row.level("operation")).items():
        found: dict[str, list[tuple[float, q.Summary]]] = {
            NAMES[system]: [
                (float(shown.delays.index(delay_of(row.factors))), one)
                for row in rows
                if (one := row.at(system))
            ]
            for system in shown.systems
        }
        scale = q.shared_scale([one for row in found.values() for _, one in row], shown.unit)
        axes = (across, q.plots.axis(f"time [{scale.unit}]", scale="log"))
        lines = q.median_lines(found, scale.factor)
        drawn = q.plots.lines(f"Time of {operation}", axes, lines, f"{WORDS[operation]}. {q.INTERVALS}")
        yield replace(drawn, layout={**drawn.layout, "height": SMALL})


TIMES = q.Question(
    title=TIMES_TITLE,
    experiment=NAME,
    rows=lambda run: Shown.of(run).systems,
    headline=_slowed_most,
    text=(
        "Client and server are two network namespaces; packets are late by the delay in each direction.",
        notes,
    ),
    tables=(_times_table, _delayed, lambda run, _: OPERATIONS.of(Shown.of(run).operations), mounted),
    figures=_times_figures,
    missing=lambda _: "",
)


# ---- beside the local file system, without delay

BASES = (LOCAL, SSHFS)
"""What oscope-fs is compared with here."""


def _title(run: q.Run) -> str:
    """Name the place: each has a kernel of its own."""
    where = "in a guest" if "guest" in run.experiment.environment else "on this machine"
    return f"Beside the local file system, {where} ({run.experiment.experiment})"


def _over(run: q.Run, base: str) -> list[q.Contrast]:
    rows = Shown.of(run).against(*BASES)
    return [each for each in rows if each.ends[0] == base and delay_of(each.factors) == 0]


def _nearest(_: q.Run, rows: Sequence[q.Contrast]) -> str:
    if not (apart := q.apart(rows)):
        return "oscope-fs was not found different from the local file system."
    least, most = (end(apart, key=lambda each: each.row.ratio) for end in (min, max))
    what = "as long as the local file system at"
    text = f"oscope-fs takes {q.times(least.row)} {what} {least.level('operation')}"
    return f"{text}." if most is least else f"{text}, {q.times(most.row)} at {most.level('operation')}."


def _local(run: q.Run) -> list[q.PivotRow]:
    return [row for row in Shown.of(run).rows if not delay_of(row.factors)]


def _local_table(run: q.Run, _: object) -> q.Table:
    def over(base: str) -> q.Column[q.PivotRow]:
        found = {each.level("operation"): each.row for each in _over(run, base)}
        return q.ratio(
            f"oscope-fs / {NAMES[base]}", lambda row: found.get(row.level("operation")), "different"
        )

    return q.TableOf[q.PivotRow](
        f"Time without delay ({run.experiment.experiment})",
        OPERATION,
        *Shown.of(run).times(),
        *map(over, BASES),
        note="Medians with their 95 % intervals. Ratios paired by block, p corrected (Holm).",
    ).of(_local(run))


def _local_figure(run: q.Run, _: object) -> q.Figure:
    shown = Shown.of(run)
    every = product(shown.systems, _local(run))
    rows = [(NAMES[name], row.level("operation"), one) for name, row in every if (one := row.at(name))]
    return q.dots(f"Time without delay ({run.experiment.experiment})", "time", rows, shown.unit)


def _question(name: str, *, own: bool) -> q.Question[q.Contrast]:
    """Return what is asked of one place; `own` where no other section shows its mounts and reasons."""
    return q.Question(
        title=_title,
        experiment=name,
        rows=lambda run: _over(run, LOCAL),
        headline=_nearest,
        text=(
            "Client, server and ssh share the processors; notes say whether there is FUSE passthrough.",
            notes,
        ),
        tables=(_local_table, mounted) if own else _local_table,
        figures=_local_figure,
        missing=lambda run: q.reasons(run.experiment) if own else "",
    )


HERE, COMPARE = _question("fs.here", own=True), _question(NAME, own=False)
