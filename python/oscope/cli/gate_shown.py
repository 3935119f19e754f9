"""What a gate found, on a terminal: a table, worst first, what it could not have seen, and a line in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite

from rich.console import Console
from rich.text import Text

from oscope import digits
from oscope.calibration import certificate
from oscope.cli.gate import missing_name, tail_name, take_more
from oscope.clocks import clock_of
from oscope.gating import Gate, Judged
from oscope.labs.trust import reach
from oscope.report.analysis import levels
from oscope.statistics.wording import tail_sentence
from oscope.terminal import MOST_ROWS, aligned, grid, print_prose, table_width
from oscope.units import format_share


def print_gate(gate: Gate, out: Console) -> None:
    """Print the rows, worst first, what is missing, slow tails, what cannot be told, and the sum of all."""
    title = f": {', '.join(gate.runs)} against {', '.join(gate.baseline)}, limit {format_share(gate.limit)}"
    out.print(Text.assemble(("gate", "bold"), title))
    # All that needs a person's eye, however many; of the others as many as there is room for.
    eyed = sum(judged.verdict in ("regressed", "not proven") for judged in gate.rows)
    shown = gate.rows[: max(eyed, MOST_ROWS)]
    out.print(grid(_columns(shown, gate.limit, out.width)))
    if len(shown) < len(gate.rows):
        hidden = f"{len(gate.rows) - len(shown)} more rows, within the limit or improved: --json has them all"
        print_prose(hidden, out, style="dim")
    for missing in gate.missing:
        print_prose(f"missing in the run: {missing_name(missing)}", out)
    for tail in gate.tails:
        print_prose(f"slow tail of {tail_name(tail)}: {tail_sentence(tail.found)}", out)
    for caveat in gate.caveats:
        print_prose(f"note: {caveat}", out)
    if (known := _certificate(gate)) is not None:
        print_prose(f"certificate: {known}", out)
    if gate.blind:
        print_prose(_blindness(gate), out, style="bold red")
    print_prose(summary(gate), out, style="bold")


def summary(gate: Gate) -> str:
    """Tell in a line how many rows have which verdict, and what the gate would have seen."""
    counts = Counter(judged.verdict for judged in gate.rows)
    told = [
        f"{counts['regressed']} of {len(gate.rows)} worse by more than {format_share(gate.limit)}",
        *(f"{counts[name]} {name}" for name in ("not proven", "within", "improved") if counts[name]),
    ]
    power = "what would have been found cannot be told"
    if isfinite(gate.detectable):
        power = (
            f"power: a difference of {digits.format_share(gate.detectable)} would have been found in each, "
            f"a regression of {digits.format_share(gate.provable)} would have failed"
        )
    return f"{', '.join(told)}; {power}"


def _certificate(gate: Gate) -> str | None:
    """Say how small a difference the machine shows; None where instructions are counted: they repeat."""
    if all(clock_of(judged.experiment.environment) == "instructions" for judged in gate.rows):
        return None
    entries = certificate.from_object((gate.calibrated or {}).get("certificate", ()))
    if gate.calibrated is None or not entries:
        return "not known for this machine: oscope calibrate --quick makes it in two minutes, for later runs"
    return f"{reach.sentence(entries)} Calibrated {gate.calibrated['ended']}."


def _blindness(gate: Gate) -> str:
    limit = format_share(gate.limit)
    return (
        f"CANNOT TELL for {len(gate.blind)} of {len(gate.rows)}: a regression of {limit} could not have been "
        f"seen there: {take_more(gate)}"
    )


def _columns(rows: Sequence[Judged], limit: float, width: int) -> list[list[str]]:
    names = dict.fromkeys(name for judged in rows for name in judged.row.factors)
    varied = [name for name in names if len({judged.row.factors.get(name) for judged in rows}) > 1]
    written = [levels(judged.experiment, judged.row.factors) for judged in rows]
    columns = [[name, *(each.get(name, digits.MISSING) for each in written)] for name in varied]
    experiments = [judged.experiment.experiment for judged in rows]
    if len(set(experiments)) > 1:
        columns.insert(0, ["experiment", *experiments])
    columns.append(["metric", *(judged.row.metric for judged in rows)])
    columns.append(aligned(["ratio", *(_ratio(judged, judged.row.ratio) for judged in rows)]))
    columns.append(["verdict", *(judged.verdict for judged in rows)])
    interval = [" to ".join(_ratio(judged, side) for side in judged.row.ci95) for judged in rows]
    limits = [f"{1 + limit if judged.better == 'less' else 1 - limit:.4g}" for judged in rows]
    further = [
        ["95 % interval", *interval],
        aligned(["limit", *limits]),
        aligned(["detectable", *(_power(judged) for judged in rows)]),
    ]
    for column in further:
        if table_width([*columns, column]) <= width:
            columns.append(column)
    return columns


def _ratio(judged: Judged, value: float) -> str:
    low, high = judged.row.ci95
    return digits.format_value(value, min(high - low, 1.0) / 2 if isfinite(high - low) else None, "")


def _power(judged: Judged) -> str:
    share = judged.row.detectable
    return digits.format_share(share) if isfinite(share) else digits.MISSING
