"""The pages of fleets: the list of their measurements, and which hosts of one are odd or have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from oscope.analysis.fleet import FleetFindings, examine
from oscope.analysis.fleet_drift import Drift, find_drift
from oscope.model.errors import UsageError
from oscope.model.units import parse_share
from oscope.report import fleet as fleet_report
from oscope.report import fleet_drift as drift_report
from oscope.report.view.pages import Pages
from oscope.storage.fleets import FleetEntry
from oscope.storage.store import RunEntry, Store

THRESHOLD = "5%"
"""As of `oscope fleet outliers` and `drift`."""


@dataclass(frozen=True)
class Line:
    """A fleet's measurement in the list."""

    entry: FleetEntry
    started: datetime
    whole: int
    """Hosts that were measured in all rounds."""
    samples: int
    experiments: tuple[str, ...]


def show_all(pages: Pages) -> str:
    """Return the list of the fleets' measurements, the newest first."""
    with pages.open() as store:
        lines = _lines(store)
    return pages.render("fleets.html.j2", lines=lines)


def _lines(store: Store) -> list[Line]:
    runs = {run.id: run for run in store.runs()}
    return [_line(entry, [runs[run.run_id] for run in entry.runs]) for entry in reversed(store.fleets())]


def _line(entry: FleetEntry, runs: list[RunEntry]) -> Line:
    return Line(
        entry,
        min(run.started for run in runs),
        sum(run.rounds_done >= entry.rounds for run in entry.runs),
        sum(run.samples for run in runs),
        runs[0].experiments,
    )


def show(pages: Pages, store: Store, fleet: str, query: Mapping[str, str]) -> str:
    """Return the page of a fleet's measurement: its odd hosts, and what changed since a baseline."""
    threshold = query.get("threshold", "").strip() or THRESHOLD
    baseline = query.get("baseline", "").strip()
    every = _lines(store)
    findings: FleetFindings | None = None
    drift: Drift | None = None
    error = ""
    try:
        share = parse_share(threshold)
        with pages.analysing:
            findings = examine(store.fleet(fleet), store, share)
            if baseline:
                drift = find_drift(store, store.fleet(baseline), store.fleet(fleet), share)
    except UsageError as refused:
        error = str(refused)
    return pages.render(
        "fleet.html.j2",
        line=next(line for line in every if line.entry.id == fleet),
        others=[line.entry.id for line in every if line.entry.id != fleet],
        threshold=threshold,
        baseline=baseline,
        error=error,
        headline=fleet_report.headline(findings) if findings else "",
        sections=fleet_report.sections(findings) if findings else [],
        drift=drift_report.headline(drift) if drift else "",
        changes=[text for host in drift.changed for text in drift_report.describe(host)] if drift else [],
        tables=drift_report.tables(drift) if drift else [],
    )


def whole_report(pages: Pages, store: Store, fleet: str) -> str:
    """Return what `oscope fleet report` writes."""
    with pages.analysing:
        return fleet_report.encode(examine(store.fleet(fleet), store, parse_share(THRESHOLD))).decode()
