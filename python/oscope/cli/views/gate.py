"""What a gate found, on a terminal: a table, worst first, what it could not have seen, and a line in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from rich.console import Console
from rich.text import Text

from oscope.analysis import launcher_size
from oscope.analysis.calibration import certificate
from oscope.analysis.gate import MOST_CLUSTERS, Gate, GateRow, Tail, each_quantity_once
from oscope.analysis.missing import Missing
from oscope.figures import mde
from oscope.figures.analysed import levels
from oscope.model import formatting
from oscope.model.clocks import clock_of
from oscope.model.units import format_share
from oscope.programs.spec import EXPERIMENT as OWN_PROGRAMS
from oscope.report.comparison_verdict import detectable_text
from oscope.report.terminal import (
    aligned,
    print_columns,
    print_prose,
    row_room,
    table_room,
    table_width,
    without,
)
from oscope.statistics.advice import beyond_blocks, instead_of_blocks, is_thin, of_imports
from oscope.statistics.comparison_text import tail_sentence
from oscope.statistics.estimating import FEWEST_CLUSTERS

_MOST_NAMED = 5
"""Rows that are named where no minimum detectable effect is known of them."""


def print_gate(gate: Gate, out: Console) -> None:
    """Print the rows, worst first, what is missing, slow tails, what stays open, and the sum of all."""
    title = f": {', '.join(gate.runs)} against {', '.join(gate.baseline)}, limit {format_share(gate.limit)}"
    out.print(Text.assemble(("gate", "bold"), title))
    gate, others = each_quantity_once(gate)
    # All that needs a person's eye, however many; of the others as many as there is room for.
    eyed = sum(judged.verdict in ("regressed", "not proven") for judged in gate.rows)
    shown = gate.rows[: max(eyed, row_room(out))]
    columns, hidden = _columns(shown, gate.limit, table_room(out))
    print_columns(columns, out)
    if len(shown) < len(gate.rows):
        more = f"{len(gate.rows) - len(shown)} more rows, within the limit or improved: --json has them all"
        print_prose(more, out, style="dim")
    if hidden:
        print_prose(without(hidden), out, style="dim")
    for missing in gate.missing:
        print_prose(f"missing in the run: {missing_name(missing)}", out)
    for tail in gate.tails:
        print_prose(f"slow tail of {tail_name(tail)}: {tail_sentence(tail.found)}", out)
    for caveat in (*gate.caveats, *others):
        print_prose(f"note: {caveat}", out)
    if (known := _certificate(gate)) is not None:
        print_prose(f"certificate: {known}", out)
    if gate.blind:
        print_prose(_blindness(gate), out, style="bold red")
    print_prose(_power_of_all(gate), out)
    print_prose(summary(gate), out, style="bold")


def summary(gate: Gate) -> str:
    """Tell in a line how many rows have which verdict."""
    counts = Counter(judged.verdict for judged in gate.rows)
    parts = [
        f"{counts['regressed']} of {len(gate.rows)} worse by more than {format_share(gate.limit)}",
        *(f"{counts[name]} {name}" for name in ("not proven", "within", "improved") if counts[name]),
    ]
    return ", ".join(parts)


def _power_of_all(gate: Gate) -> str:
    """Say what the gate would have seen in every row."""
    known = [judged for judged in gate.rows if isfinite(judged.row.detectable)]
    if not known:
        return "the minimum detectable effect is unknown"
    largest = replace(gate, rows=tuple(known))
    found, failed = (detectable_text(share) for share in (largest.detectable, largest.provable))
    unknown = [row_name(judged) for judged in gate.rows if not isfinite(judged.row.detectable)]
    more = ", …" if len(unknown) > _MOST_NAMED else ""
    without = f"; unknown of {', '.join(unknown[:_MOST_NAMED])}{more}" if unknown else ""
    return (
        f"minimum detectable effect, the largest of {len(known) if unknown else 'all'} rows: {found}; "
        f"smallest regression that fails the gate: {failed}{without}"
    )


def take_more(found: Gate) -> str:
    """Say what would let the gate tell.

    Half an interval is about a third of the difference that is found with 80 % power.
    """
    measured = tuple(judged for judged in found.blind if judged.row.method != launcher_size.METHOD)
    if not measured and not any(is_thin(judged.row) for judged in found.blind):
        return "the baseline has no size to compare with: judge other metrics with --metric"
    if measured and len(measured) < len(found.blind):
        return take_more(replace(found, rows=measured))
    rows, first = [judged.row for judged in found.blind], found.blind[0].experiment
    if (advice := of_imports(judged.experiment for judged in found.blind)) is not None:
        return advice
    counts = [judged.enough for judged in found.blind]
    if (text := beyond_blocks(rows, first)) is not None:
        return text
    if any(map(is_thin, rows)):
        amount = f"{FEWEST_CLUSTERS} blocks a side or more"
    elif None in counts:
        return f"it would take more than {MOST_CLUSTERS} blocks a side, {instead_of_blocks(rows, first)}"
    else:
        amount = f"about {max(filter(None, counts))} blocks a side"
    names = list(dict.fromkeys(judged.experiment.experiment for judged in found.blind))
    precision = format_share(float(f"{found.limit / 3:.1g}")).replace(" ", "")
    command = "oscope bench" if names == [OWN_PROGRAMS] else f"oscope run {' '.join(names)}"
    return f"take {amount}, such as by {command} --precision {precision} with the other options of these runs"


def row_name(judged: GateRow) -> str:
    """Return `syscall.cost getppid loop time_ns`."""
    levels = " ".join(str(level) for level in judged.row.factors.values())
    return " ".join(filter(None, [judged.experiment.experiment, levels, judged.row.metric]))


def tail_name(tail: Tail) -> str:
    """Return `syscall.cost getppid loop time_ns`."""
    levels = " ".join(str(level) for level in tail.found.factors.values())
    return " ".join(filter(None, [tail.experiment.experiment, levels, tail.found.metric]))


def missing_name(missing: Missing) -> str:
    """Return `syscall.cost getppid loop`, with the metric if only that is missing."""
    levels = " ".join(str(level) for level in (missing.factors or {}).values())
    return " ".join(filter(None, [missing.experiment, levels, missing.metric or ""]))


def _certificate(gate: Gate) -> str | None:
    """Say how small a difference the machine shows; None where instructions are counted: they repeat."""
    if all(clock_of(judged.experiment.environment) == "instructions" for judged in gate.rows):
        return None
    entries = certificate.from_object((gate.calibrated or {}).get("certificate", ()))
    if gate.calibrated is None or not entries:
        return "not known for this machine: oscope calibrate --quick makes it in two minutes"
    return f"{mde.sentence(entries)} Calibrated {gate.calibrated['ended']}."


def _blindness(gate: Gate) -> str:
    limit = format_share(gate.limit)
    return (
        f"CANNOT TELL for {len(gate.blind)} of {len(gate.rows)}: a regression of {limit} could not have been "
        f"seen there: {take_more(gate)}"
    )


def _columns(rows: Sequence[GateRow], limit: float, room: int) -> tuple[list[list[str]], list[str]]:
    """Return the columns that have room, and the headings of the others.

    What varies, the metric, the ratio and the verdict are always there. Then the smallest difference that
    would have been found gets room first, then the interval; the limit is the same in all rows.
    """
    names = dict.fromkeys(name for judged in rows for name in judged.row.factors)
    varied = [name for name in names if len({judged.row.factors.get(name) for judged in rows}) > 1]
    written = [levels(judged.experiment, judged.row.factors) for judged in rows]
    columns = [[name, *(each.get(name, formatting.MISSING) for each in written)] for name in varied]
    experiments = [judged.experiment.experiment for judged in rows]
    if len(set(experiments)) > 1:
        columns.insert(0, ["experiment", *experiments])
    columns.append(["metric", *(judged.row.metric for judged in rows)])
    columns.append(aligned(["ratio", *(_ratio(judged, judged.row.ratio) for judged in rows)]))
    columns.append(["verdict", *(judged.verdict for judged in rows)])
    # As it was asked for; the sign says in which direction the metric is worse.
    limits = [format_share(limit if judged.better == "less" else -limit) for judged in rows]
    interval = ["95 % interval", *map(_interval, rows)]
    same = aligned(["limit", *limits])
    detectable = aligned(["mde", *(_power(judged) for judged in rows)])
    chosen: list[list[str]] = []
    for column in (detectable, interval, same):
        if table_width([*columns, *chosen, column]) <= room:
            chosen.append(column)
    further = (interval, same, detectable)
    shown = [column for column in further if column in chosen]
    return [*columns, *shown], [column[0] for column in further if column not in chosen]


def _interval(judged: GateRow) -> str:
    if not isfinite(judged.row.ratio):
        return formatting.MISSING
    return " to ".join(_ratio(judged, side) for side in judged.row.ci95)


def _ratio(judged: GateRow, value: float) -> str:
    low, high = judged.row.ci95
    return formatting.format_value(value, min(high - low, 1.0) / 2 if isfinite(high - low) else None, "")


def _power(judged: GateRow) -> str:
    share = judged.row.detectable
    return detectable_text(share) if isfinite(share) else formatting.MISSING
