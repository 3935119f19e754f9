"""What `oscope bench` does once its options are read: try, measure, show, and write what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oscope.cli.destinations import Output, check_distinct, is_standard_output
from oscope.cli.errors import DONE, note
from oscope.cli.measure_with_progress import interrupted, measure_shown
from oscope.cli.progress import display, note_if_complete
from oscope.cli.views.bench import print_findings
from oscope.model import streams
from oscope.model.errors import OscopeError, UsageError
from oscope.model.samples import Results
from oscope.planning.plan import Plan
from oscope.programs.experiment import bench_plan
from oscope.programs.export import Format as Form
from oscope.programs.export import export, hyperfine_json
from oscope.programs.findings import find
from oscope.programs.spec import EXPERIMENT, BenchSpec
from oscope.report import terminal
from oscope.runner.execution import Outcome
from oscope.storage import record
from oscope.storage.store import Store

COMMAND = "oscope bench"
FAILED_BY_ITSELF = "the command ended with exit code"
"""In the probe's reason where a command ran, and failed."""


@dataclass(frozen=True)
class Files:
    """Where the results go, beside the store and the terminal."""

    record: Output | None
    table: tuple[Form, Output] | None
    hyperfine: Output | None

    def named(self) -> dict[str, Output | None]:
        """Return what each option names."""
        return {
            "--json": self.record,
            "--export": None if self.table is None else self.table[1],
            "--hyperfine-json": self.hyperfine,
        }

    def check(self) -> None:
        """Raise UsageError where two of them are one file."""
        check_distinct(self.named())

    def write(self, results: Results, table: Callable[[Form], bytes]) -> None:
        """Write those that were asked for; `table` returns the table in a format."""
        if self.record is not None:
            self.record.write(record.to_json(results))
        if self.table is not None:
            kind, target = self.table
            target.write(table(kind))
        if self.hyperfine is not None:
            self.hyperfine.write(hyperfine_json(find(results)))

    @property
    def take_standard_output(self) -> bool:
        """Whether one of them is standard output, so that the summary has to go elsewhere."""
        return any(is_standard_output(target) for target in self.named().values())


def start(spec: BenchSpec, place: str | None, files: Files) -> int:
    """Measure commands; return the exit code."""
    # The trials take a while, and run the commands.
    Store.check(place)
    try:
        plan, trials = bench_plan(spec)
    except OscopeError as error:
        raise _without_input(error, spec) from None
    if spec.amount.warmup is None:
        found = ", ".join(str(trial.warmup) for trial in trials)
        note(f"warm-up found: {found} runs before those of each block")
    with Store.open(place) as store:
        return measure_into(store, plan, files)


def _without_input(error: OscopeError, spec: BenchSpec) -> OscopeError:
    """Return the error of a command's trial; of one that failed, with what became of a redirected input."""
    if (
        isinstance(error, UsageError)
        or FAILED_BY_ITSELF not in error.message
        or spec.context.input is not None
    ):
        return error
    if not streams.is_input_redirected():
        return error
    return OscopeError(
        f"{error.message}; its standard input was empty, not that of oscope",
        remedy=f"write --input FILE if it reads that; else {error.remedy}",
    )


def interrupted_plan(run_id: str, place: str | None) -> tuple[str, Plan]:
    """Return the whole id of a bench, and its plan; UsageError where the run is none."""
    with Store.read(place) as store:
        full_id = store.resolve(run_id)
        plan = store.plan(full_id)
    if [experiment.name for experiment in plan.experiments] != [EXPERIMENT]:
        raise UsageError(f"run {full_id} is no bench", remedy=f"continue with oscope run --resume {full_id}")
    return full_id, plan


def measure(store: Store, plan: Plan, *, resume: str | None = None) -> Outcome:
    """Measure what `plan` asks for, and show the progress; OscopeError where a signal ended it early."""
    outcome = measure_shown(plan, store, display(), COMMAND, resume=resume)
    if outcome.status == "interrupted":
        raise interrupted(outcome.run_id, store, COMMAND)
    return outcome


def measure_into(store: Store, plan: Plan, files: Files, *, resume: str | None = None) -> int:
    """Measure what `plan` asks for, show what was found, and write the files; return the exit code."""
    if resume is not None:
        note_if_complete(store, resume, "oscope bench …")
    outcome = measure(store, plan, resume=resume)
    _write(store, outcome, files)
    if outcome.failures:
        raise OscopeError(outcome.failures[0], remedy=f"the rest is kept: oscope show {outcome.run_id}")
    return DONE


def _write(store: Store, outcome: Outcome, files: Files) -> None:
    """Print what was found, and write the files asked for; OscopeError where a command was given up."""
    results = store.results(outcome.run_id)
    findings = find(results)
    out = terminal.console(to_standard_error=files.take_standard_output)
    print_findings(findings, out)
    terminal.print_stored(outcome.run_id, out, store.option)
    files.write(results, lambda kind: export(findings, kind))
    given_up = [row for row in findings.rows if row.point.skipped is not None]
    if given_up:
        raise OscopeError(f"{given_up[0].name}: {given_up[0].point.skipped}", remedy=given_up[0].point.remedy)
