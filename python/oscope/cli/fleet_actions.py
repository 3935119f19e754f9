"""What the commands of `oscope fleet` do once their options are read; it loads statistics and store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oscope.analysis.fleet import FleetFindings, examine
from oscope.analysis.fleet_compare import compare_sides, find_sides
from oscope.analysis.fleet_drift import find_drift
from oscope.cli.comparison import allowed, worse
from oscope.cli.errors import note
from oscope.cli.views.fleet import (
    print_comparisons,
    print_drift,
    print_examined,
    print_findings,
    print_outcome,
)
from oscope.model.errors import OscopeError
from oscope.model.host import Host
from oscope.model.table_form import Form
from oscope.planning.plan import Plan
from oscope.report.fleet import encode
from oscope.runner.fleet import spool
from oscope.runner.fleet.engine import Engine
from oscope.runner.fleet.examination import examine_all
from oscope.runner.fleet.fleet_measurement import NewFleet, measure_fleet, place_of
from oscope.storage.store import Store


def check(hosts: Sequence[Host], parallel: int, form: Form, *, verbose: bool) -> None:
    """Print what each host is and cannot tell. Raises OscopeError where one cannot be measured."""
    found = examine_all(hosts, parallel)
    print_examined(found, form, verbose=verbose)
    for each in found:
        for line in each.restored:
            note(f"{each.host}: {line}")
    failed = [each for each in found if each.error is not None]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise OscopeError(f"{failed[0].error}{more}")


def measure(
    what: tuple[Plan, Sequence[Host], int] | str,
    place: str | None,
    *,
    parallel: int | None,
    retries: int,
    scheduler: str | None,
    rack_aware: bool,
) -> None:
    """Measure a plan on hosts in so many rounds, or resume a fleet by its name; print how each host fared.

    Raises the error that it ended with.
    """
    engine = Engine.of(parallel, retries, scheduler, rack_aware=rack_aware)
    fleet = what if isinstance(what, str) else NewFleet(*what)
    outcome = measure_fleet(fleet, place_of(place), engine, note)
    print_outcome(outcome)
    failure = outcome.failure()
    if failure is not None:
        raise failure


def show_outliers(place: str | None, fleet: str, threshold: float, form: Form) -> None:
    """Print which hosts are odd, and the settings that go with it."""
    print_findings(_examined(place, fleet, threshold), form)


def page(place: str | None, fleet: str, threshold: float) -> bytes:
    """Return the fleet's page."""
    return encode(_examined(place, fleet, threshold))


def _examined(place: str | None, fleet: str, threshold: float) -> FleetFindings:
    with Store.read(place) as store:
        entry = store.fleet(fleet)
        _note_waiting(place, entry.id)
        return examine(entry, store, threshold)


def compare(
    place: str | None,
    sides: tuple[str, str, str],
    groups: Mapping[str, tuple[str, ...]],
    threshold: float,
    allow: Sequence[str],
    form: Form,
) -> list[str]:
    """Print how two sides differ (A, B, and the measurement that they are hosts of); return what is worse."""
    with Store.read(place) as store:
        found = find_sides(store, *sides, groups)
    compared = compare_sides(found, threshold=threshold, allow=allowed(allow))
    for fleet in found.fleets:
        _note_waiting(place, fleet)
    print_comparisons(compared, form)
    return [name for experiment, comparison in compared for name in worse(experiment, comparison)]


def drift(place: str | None, baseline: str, fleet: str, threshold: float, form: Form) -> list[str]:
    """Print which hosts changed since a baseline, and return their names."""
    with Store.read(place) as store:
        entries = store.fleet(baseline), store.fleet(fleet)
        for entry in entries:
            _note_waiting(place, entry.id)
        found = find_drift(store, *entries, threshold)
    print_drift(found, form)
    return [host.host for host in found.changed]


def _note_waiting(place: str | None, fleet: str) -> None:
    """Say so where the store has not all of a fleet."""
    path = spool.waiting_in(place_of(place), fleet)
    if path is not None:
        note(f"{fleet} is not delivered whole: {path} has the rest. See oscope fleet run --resume {fleet}")
