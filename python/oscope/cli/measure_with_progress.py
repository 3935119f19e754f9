"""Measures a plan with a progress display; an error that ends the run says how to continue it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oscope.model.errors import OscopeError, UsageError
from oscope.runner.execution import execute

if TYPE_CHECKING:
    from oscope.cli.progress import Display
    from oscope.model.experiment import Inspection
    from oscope.planning.plan import Plan
    from oscope.runner.execution import Outcome
    from oscope.storage.store import Store


def measure_shown(
    plan: Plan,
    store: Store,
    shown: Display,
    command: str,
    *,
    resume: str | None = None,
    find_inspection: Callable[[str], Inspection] | None = None,
    then: str = "",
) -> Outcome:
    """Measure `plan`, and show the progress; the arguments are those of `execute` and of `interrupted`.

    Raises as `execute` does. The error names the run once the run is stored, also after a second Ctrl-C.
    """
    try:
        with shown:
            return execute(plan, store, shown, resume=resume, find_inspection=find_inspection)
    except KeyboardInterrupt:
        # The second Ctrl-C; the first one ends the run in good order.
        if shown.run_id is None:
            raise
        raise interrupted(shown.run_id, store, command, then) from None
    except OscopeError as error:
        if shown.run_id is not None and not isinstance(error, UsageError):
            error.message += f"; run {shown.run_id} keeps what was measured"
            first = f"{error.remedy}; then " if error.remedy else ""
            error.remedy = first + _remedy(shown.run_id, store, command, then)
        raise


def interrupted(run_id: str, store: Store, command: str, then: str = "") -> OscopeError:
    """Return the error of a run that a signal ended.

    `command` continues it, such as `oscope run`; `then` is a command that names the run, to call behind it.
    """
    return OscopeError(
        f"interrupted: run {run_id} keeps what was measured", remedy=_remedy(run_id, store, command, then)
    )


def raise_if_interrupted(outcomes: Sequence[Outcome]) -> None:
    """Raise OscopeError where a signal ended interleaved runs, which cannot be resumed."""
    if any(outcome.status == "interrupted" for outcome in outcomes):
        runs = " and ".join(outcome.run_id for outcome in outcomes)
        raise OscopeError(
            f"interrupted: the runs {runs} keep what was measured",
            remedy="compare as far as they go with oscope compare, or begin anew",
        )


def _remedy(run_id: str, store: Store, command: str, then: str) -> str:
    after = f", then {then} {run_id}{store.option}" if then else ""
    return f"continue with {command} --resume {run_id}{store.option}{after}"
