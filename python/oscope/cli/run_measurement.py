"""What `oscope run` does once its options are read: measure, summarise, write what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oscope.cli.destinations import Destinations
from oscope.cli.errors import DONE
from oscope.cli.measure_with_progress import interrupted, measure_shown
from oscope.cli.options import Settings
from oscope.cli.progress import MOST_NAMED, display, note_if_complete
from oscope.cli.request import Selection
from oscope.cli.summary import print_results
from oscope.cli.views.survey import is_survey, print_survey
from oscope.figures.analysed import Analysed, shown_metrics
from oscope.labs import LABS, inspection
from oscope.model.errors import OscopeError
from oscope.report import encode, terminal
from oscope.report.figures import save
from oscope.storage import record
from oscope.storage.store import Store

if TYPE_CHECKING:
    from oscope.model.samples import Results
    from oscope.planning.plan import Plan
    from oscope.runner.execution import Outcome
    from oscope.storage.store import Store

_COMMAND = "oscope run"


def resume(run_id: str, settings: Settings, destinations: Destinations) -> int:
    """Continue an interrupted run; return the exit code."""
    with Store.read(settings.store) as store:
        full_id = store.resolve(run_id)
    with Store.open(settings.store) as store:
        plan = store.plan(full_id)
        names = [*(experiment.name for experiment in plan.experiments), *plan.inspections]
        note_if_complete(store, full_id, f"oscope run {' '.join(names[:MOST_NAMED])} …")
        return _measure_into(store, plan, Selection(), destinations, resume=full_id, verbose=settings.verbose)


def start(plan: Plan, settings: Settings, selection: Selection, destinations: Destinations) -> int:
    """Measure what `plan` asks for; return the exit code."""
    with Store.open(settings.store) as store:
        return _measure_into(store, plan, selection, destinations, verbose=settings.verbose)


def _measure_into(
    store: Store,
    plan: Plan,
    selection: Selection,
    destinations: Destinations,
    *,
    resume: str | None = None,
    verbose: bool = False,
) -> int:
    """Measure with a progress display, then write the results out; return the exit code."""
    # The summary has the notes on points, each once with its points.
    shown = display(remarks=verbose)
    for text in selection.left_out:
        shown.note(text)
    outcome = measure_shown(plan, store, shown, _COMMAND, resume=resume, find_inspection=inspection)
    if outcome.status == "interrupted":
        _leave(store, outcome, destinations)
        raise interrupted(outcome.run_id, store, _COMMAND)
    results = store.results(outcome.run_id)
    _write(store, results, outcome, destinations, verbose=verbose)
    _judge(results, outcome, selection.named)
    return DONE


def _leave(store: Store, outcome: Outcome, destinations: Destinations) -> None:
    """Name the run after Ctrl-C, and write its record if asked: a summary would take seconds to compute."""
    out = terminal.console(to_standard_error=destinations.take_standard_output)
    terminal.print_stored(outcome.run_id, out, store.option)
    if destinations.json is not None:
        destinations.json.write(record.to_json(store.results(outcome.run_id)))


def _write(
    store: Store, results: Results, outcome: Outcome, destinations: Destinations, *, verbose: bool
) -> None:
    """Print the summary, of a survey one screen, and write the files asked for."""
    # The summaries are computed once, for the terminal and for the report.
    results = Analysed.of(results)
    out = terminal.console(to_standard_error=destinations.take_standard_output)
    survey = is_survey(results)
    if not survey:
        print_results(results, out, verbose=verbose)
        terminal.print_stored(outcome.run_id, out, store.option)
    if destinations.json is not None:
        destinations.json.write(record.to_json(results))
    if destinations.report is not None:
        destinations.report.write(encode(results, LABS))
    if survey:
        print_survey(results, out, None if destinations.report is None else str(destinations.report))
    elif destinations.report is not None:
        terminal.print_written(destinations.report, out)
    if destinations.figures is not None:
        files = save(
            results, destinations.figures, LABS, choice="all" if destinations.every_figure else "headline"
        )
        terminal.print_written(f"{len(files)} files of figures in {destinations.figures}", out)


def _judge(results: Results, outcome: Outcome, named: Sequence[str]) -> None:
    """Raise the error that the run ended with, if it did; what was measured is stored and shown by then."""
    run_id = outcome.run_id
    if outcome.failures:
        more = f" (and {len(outcome.failures) - 1} more)" if len(outcome.failures) > 1 else ""
        raise OscopeError(
            f"run {run_id}: {outcome.failures[0]}{more}", remedy=f"the rest is kept: oscope show {run_id}"
        )
    empty = [e.experiment for e in results.experiments if not shown_metrics(e)]
    empty += [i.inspection for i in results.inspections if i.result is None]
    missed = [name for name in empty if name in named or len(empty) == len(results.parts)]
    if missed:
        raise OscopeError(
            f"nothing could be measured of {', '.join(missed)}",
            remedy="the summary above says why and how to fix it",
        )
