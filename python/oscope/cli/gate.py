"""`oscope gate`: for continuous integration, whether a run is proven to be worse than a baseline."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oscope.analysis.earlier_runs import earlier_runs
from oscope.analysis.gate import each_quantity_once, judge, to_object
from oscope.cli.chosen_runs import last_two
from oscope.cli.comparison import allowed
from oscope.cli.completion import run_ids
from oscope.cli.destinations import Output, check_not_read, is_standard_output, output_file
from oscope.cli.detect import calibration_of
from oscope.cli.errors import DONE
from oscope.cli.options import AllowOption, Settings
from oscope.cli.request import parse_share
from oscope.cli.stored import load
from oscope.cli.views.gate import missing_name, print_gate, row_name, take_more
from oscope.model.errors import OscopeError, UsageError
from oscope.model.units import format_share
from oscope.report import terminal
from oscope.statistics.pairing import match_points
from oscope.storage import record
from oscope.storage.store import Store

if TYPE_CHECKING:
    from oscope.analysis.gate import Gate
    from oscope.model.samples import ExperimentResults, Results

_MOST_NAMED = 5
"""Rows that an error names."""


# More parameters than other functions: it is the table of the command's options.
def gate(
    context: typer.Context,
    baseline: Annotated[
        str | None,
        typer.Argument(
            metavar="BASELINE",
            help="A run (id, its start, last or last~1), or a record file. "
            "[default: with RUN, the last two ended runs that may be compared]",
            autocompletion=run_ids,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="What is judged. [default: the newest run with samples of its experiments that has ended]",
            autocompletion=run_ids,
        ),
    ] = None,
    limit: Annotated[
        str, typer.Option("--max-regression", metavar="P", help="By how much anything may be worse.")
    ] = "3%",
    metrics: Annotated[
        list[str] | None, typer.Option("--metric", metavar="M", help="Judge this metric only; repeatable.")
    ] = None,
    allow: AllowOption = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail also where it cannot tell, and where something is missing.")
    ] = False,
    json: Annotated[
        Output | None, output_file("--json", help="Write the verdicts; - is standard output.")
    ] = None,
) -> int:
    """Exit with 1 if RUN is proven to be worse than BASELINE by more than the limit.

    Proven: the whole 95 % interval lies beyond the limit, and the difference is one after correction for all
    metrics and points. Where nothing is proven, it prints the smallest difference that would have been found.

    How much unchanged runs differ is taken from the other runs of this machine in the store. So the verdict
    depends on them; without any, 1.7 % is assumed at least, and a note says so.
    """
    share = parse_share("--max-regression", limit)

    check_not_read({"--json": json}, baseline, run)

    settings: Settings = context.obj
    if baseline is None:
        baseline, run = last_two(settings.store, allowed(allow or ()))
    before = load([baseline], settings.store, columns="metrics")
    after = _newest(before, settings.store) if run is None else load([run], settings.store, columns="metrics")
    known = partial(earlier_runs, settings.store)
    found = judge(before, after, share, metrics=metrics or (), allow=allowed(allow or ()), earlier=known)
    if found.calibrated is None:
        found = replace(found, calibrated=_calibration(after, settings.store))
    print_gate(found, terminal.console(to_standard_error=is_standard_output(json)))
    if json is not None:
        json.write(record.dump(to_object(found)))
    # What is left out has the verdict of a row that stays, so the exit code is the same.
    _fail(each_quantity_once(found)[0], strict=strict)
    return DONE


def _newest(baseline: Results, place: str | None) -> Results:
    """Return the newest run after the baseline that has ended and has all of its experiments, with samples.

    It has a point of the baseline's, or nothing could be judged. A run with injected interference is left
    out: it is no clean measurement.
    """
    own = {each.run_id for each in baseline.experiments}
    names = {each.experiment for each in baseline.experiments}
    with Store.read(place) as store:
        entries = [entry for entry in store.runs() if entry.has_ended or entry.id in own]
    places = [index for index, entry in enumerate(entries) if entry.id in own]
    if places:
        later = entries[places[-1] + 1 :]
    else:
        begun = max((_begun(each.started) for each in baseline.experiments), default=None)
        later = [entry for entry in entries if begun is None or entry.started >= begun]
    found = [entry for entry in later if names <= set(entry.experiments) and not entry.has_injection]
    # What this machine could not measure for the baseline may be missing in the run as well.
    sampled = {each.experiment for each in baseline.experiments if each.has_samples}
    for entry in reversed([entry for entry in found if names and entry.samples]):
        run = load([entry.id], place, columns="metrics")
        if sampled <= {each.experiment for each in run.experiments if each.has_samples} and _meets(
            baseline, run
        ):
            return run
    what = ", ".join(sorted(names)) or "an experiment"
    with_samples = " with samples" if names and found else ""
    raise UsageError(
        f"the store has no run{with_samples} of {what} after the baseline",
        remedy="measure one, or name the RUN",
    )


def _meets(baseline: Results, run: Results) -> bool:
    """Say whether the run has samples of a point of the baseline's, or the baseline has none."""
    sampled = [each for each in baseline.experiments if each.has_samples]
    return not sampled or any(_share_point(each, run.get(each.experiment)) for each in sampled)


def _share_point(a: ExperimentResults, b: ExperimentResults | None) -> bool:
    try:
        return b is not None and any(len(match.a) and len(match.b) for match in match_points(a, b)[0])
    except UsageError:
        return False


def _calibration(results: Results, place: str | None) -> dict[str, Any] | None:
    """Return the newest calibration of the machine of `results`, also one that came after the run."""
    machines = {each.environment.get("machine") for each in results.experiments} - {None}
    # Two record files are judged without a store, too.
    return calibration_of(machines.pop(), place) if len(machines) == 1 else None


def _begun(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise UsageError(
            f"the baseline does not say when it began ({text!r})", remedy="name the RUN"
        ) from None


def _fail(found: Gate, *, strict: bool) -> None:
    """Raise the error that the gate ends with, if it does."""
    limit = format_share(found.limit)
    if found.regressed:
        raise OscopeError(f"worse by more than {limit}: {_named([row_name(r) for r in found.regressed])}")
    if strict and found.blind:
        raise OscopeError(
            f"cannot tell whether anything is worse by more than {limit}: "
            f"{_named([row_name(r) for r in found.blind])}",
            remedy=take_more(found),
        )
    if strict and found.missing:
        raise OscopeError(
            f"missing in the run: {_named([missing_name(m) for m in found.missing])}",
            remedy="measure what the baseline has, or gate without --strict",
        )


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
