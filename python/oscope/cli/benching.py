"""What `oscope bench` does once its options are read: try, measure, show, and write what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oscope.cli.errors import DONE, note
from oscope.cli.progress import display
from oscope.cli.targets import Output, check_distinct, is_standard_output
from oscope.cli.views.bench import print_findings
from oscope.model.errors import OscopeError, UsageError
from oscope.planning.plan import Plan
from oscope.programs import EXPERIMENT, Amount, Command, Conditions, Parameter, Surroundings, bench_plan, find
from oscope.programs.export import export, hyperfine_json
from oscope.report import terminal
from oscope.runner.execution import Outcome, execute
from oscope.storage import record
from oscope.storage.store import Store


@dataclass(frozen=True)
class Files:
    """Where the results go, beside the store and the terminal."""

    record: Output | None
    table: tuple[Literal["md", "json", "csv"], Output] | None
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

    @property
    def take_standard_output(self) -> bool:
        """Whether one of them is standard output, so that the summary has to go elsewhere."""
        return any(is_standard_output(target) for target in self.named().values())


def start(
    commands: Sequence[Command],
    parameters: Sequence[Parameter],
    surroundings: Surroundings,
    amount: Amount,
    *,
    metric: str | None,
    seed: int | None,
    conditions: Conditions,
    place: str | None,
    files: Files,
) -> int:
    """Measure `commands`; return the exit code."""
    plan, trials = bench_plan(
        commands, parameters, surroundings, amount, metric=metric, seed=seed, conditions=conditions
    )
    if amount.warmup is None:
        found = ", ".join(str(trial.warmup) for trial in trials)
        note(f"warm-up found: {found} runs before those of each block")
    with Store.open(place) as store:
        return _measure_into(store, plan, files)


def resume(run_id: str, place: str | None, files: Files) -> int:
    """Go on with an interrupted bench; return the exit code."""
    with Store.read(place) as store:
        full_id = store.resolve(run_id)
        plan = store.plan(full_id)
    if [experiment.name for experiment in plan.experiments] != [EXPERIMENT]:
        raise UsageError(f"run {full_id} is no bench", remedy=f"go on with oscope run --resume {full_id}")
    with Store.open(place) as store:
        return _measure_into(store, plan, files, resume=full_id)


def _measure_into(store: Store, plan: Plan, files: Files, *, resume: str | None = None) -> int:
    shown = display()
    try:
        with shown:
            outcome = execute(plan, store, shown, resume=resume)
    except KeyboardInterrupt:
        # The second Ctrl-C; the first one ends the run in good order.
        if shown.run_id is None:
            raise
        raise _interrupted(shown.run_id) from None
    if outcome.status == "interrupted":
        raise _interrupted(outcome.run_id)
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
    terminal.print_stored(outcome.run_id, out)
    if files.record is not None:
        files.record.write(record.to_json(results))
    if files.table is not None:
        kind, target = files.table
        target.write(export(findings, kind))
    if files.hyperfine is not None:
        files.hyperfine.write(hyperfine_json(findings))
    given_up = [row for row in findings.rows if row.point.skipped is not None]
    if given_up:
        raise OscopeError(f"{given_up[0].name}: {given_up[0].point.skipped}", remedy=given_up[0].point.remedy)


def _interrupted(run_id: str) -> OscopeError:
    return OscopeError(
        f"interrupted: run {run_id} keeps what was measured",
        remedy=f"go on with oscope bench --resume {run_id}",
    )
