"""What `oscope fleet` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oscope.model.document import Table
from oscope.report import fleet as odd
from oscope.report import fleet_drift as changes
from oscope.report import forms, terminal
from oscope.report.comparison import comparison_table, print_comparison

if TYPE_CHECKING:
    from oscope.analysis.fleet import FleetFindings
    from oscope.analysis.fleet_drift import Drift
    from oscope.model.samples import ExperimentResults
    from oscope.model.table_form import Form
    from oscope.runner.fleet.engine import FleetOutcome, HostOutcome
    from oscope.runner.fleet.examination import Examined
    from oscope.statistics import Comparison


def _print_tables(tables: Sequence[Table], form: Form) -> None:
    if form != "text":
        print(forms.encode(tables, form), end="")
        return
    out = terminal.console()
    for table in tables:
        terminal.print_table(table, out)


def print_outcome(outcome: FleetOutcome) -> None:
    """Print how each host fared."""
    rows = [
        [
            host.host,
            f"{host.rounds}",
            f"{host.samples}",
            host.run_id,
            host.error or "; ".join(host.losses[:2]) or _unfinished(host, outcome),
        ]
        for host in outcome.hosts
    ]
    columns = ("host", "rounds", "samples", "run", "what went wrong")
    note = (
        f"rounds: of {outcome.rounds}, measured whole. Which host is odd: "
        f"oscope fleet outliers {outcome.fleet}"
    )
    _print_tables([Table(outcome.fleet, columns, rows, frozenset({1, 2}), note)], "text")


def _unfinished(host: HostOutcome, outcome: FleetOutcome) -> str:
    return "it was not its turn yet: interrupted" if host.rounds < outcome.rounds else ""


def _print_answer(headline: str, lines: Iterable[str], tables: Sequence[Table], form: Form) -> None:
    """Print tables; to a person first the answer, with a line for each finding."""
    if form == "text":
        out = terminal.console()
        terminal.print_prose(headline, out, style="bold")
        for line in lines:
            terminal.print_prose(line, out)
    _print_tables(tables, form)


def print_findings(findings: FleetFindings, form: Form) -> None:
    """Print which hosts are odd, by what, and the settings that go with it."""
    lines = (line for host in findings.odd for line in odd.describe(host))
    _print_answer(odd.headline(findings), lines, [*odd.tables(findings), odd.spread_table(findings)], form)


def print_comparisons(compared: Sequence[tuple[ExperimentResults, Comparison]], form: Form) -> None:
    """Print each experiment of two sides as `oscope compare` does."""
    if form != "text":
        print(
            forms.encode([comparison_table(*each, each_unit=form != "md") for each in compared], form), end=""
        )
        return
    out = terminal.console()
    for experiment, comparison in compared:
        print_comparison(experiment, comparison, out)


def print_drift(drift: Drift, form: Form) -> None:
    """Print which hosts changed, by what, and the settings that changed with them."""
    lines = (line for host in drift.changed for line in changes.describe(host))
    _print_answer(changes.headline(drift), lines, changes.tables(drift), form)


def print_examined(found: Sequence[Examined], form: Form, *, verbose: bool) -> None:
    """Print what each host is, and what cannot be recorded there; with `verbose` how to fix each."""
    rows = [_examined_row(each) for each in found]
    columns = (
        "host",
        "state",
        "kernel",
        "CPU",
        "CPUs",
        "clock",
        "ahead [ms]",
        "known to [ms]",
        "not recorded",
    )
    tables = [Table("Hosts", columns, rows, frozenset({4, 6, 7}), _unlike(found))]
    if verbose:
        reasons = [[each.host, name, why] for each in found for name, why in each.unavailable.items()]
        tables.append(Table("What is not recorded, and how to fix it", ("host", "what", "why"), reasons))
    _print_tables(tables, form)


def _examined_row(each: Examined) -> list[str]:
    if each.error is not None:
        return [each.host, "cannot be measured", *[""] * 7]
    environment = each.environment
    cpu = environment.get("cpu") or {}
    offset = "" if each.clock_offset_ms is None else f"{each.clock_offset_ms:.1f}"
    error = "" if each.clock_error_ms is None else f"{each.clock_error_ms:.1f}"
    return [
        *(each.host, "ok", str((environment.get("kernel") or {}).get("release")), str(cpu.get("model"))),
        *(str(cpu.get("logical")), str((environment.get("clock") or {}).get("kind")), offset, error),
        ", ".join(each.unavailable),
    ]


def _unlike(found: Sequence[Examined]) -> str:
    """Say in what the hosts differ, of what a plan depends on most."""
    parts: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "kernel": lambda e: (e.get("kernel") or {}).get("release"),
        "CPU model": lambda e: (e.get("cpu") or {}).get("model"),
        "microcode": lambda e: (e.get("cpu") or {}).get("microcode"),
        "SMT": lambda e: (e.get("cpu") or {}).get("smt"),
        "clock": lambda e: (e.get("clock") or {}).get("kind"),
    }
    reached = [each.environment for each in found if each.error is None]
    unlike = [name for name, read in parts.items() if len({str(read(each)) for each in reached}) > 1]
    return f"The hosts differ in: {', '.join(unlike)}." if unlike else ""
