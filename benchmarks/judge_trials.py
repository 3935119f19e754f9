"""Judges stored pairs of runs anew, with the code as it is now, and prints the errors of each method.

    oscope calibrate --keep pairs.db
    python benchmarks/judge_trials.py pairs.db [MORE.db ...]

So others can recompute published rates from the stored runs, and a new rule can be tried on old pairs.
Interleaved runs name each other; separate runs of a pair follow each other with one seed. The time of a pair
is from the start of its runs to the last event of each: without starting the probes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from oscope.analysis.calibration.methods import judge
from oscope.analysis.calibration.trials import Trial
from oscope.figures.error_rates import by_method_and_way, by_subject
from oscope.model.errors import OscopeError
from oscope.model.samples import ExperimentResults
from oscope.report import terminal
from oscope.storage import schema
from oscope.storage.store import Store

PILOT_SEED = 0
"""Of the run that shows how long an iteration of a subject takes: no side of a pair."""
DECIMALS = 6
"""To which an effect is rounded, found again from the delay."""


@dataclass(frozen=True)
class _Run:
    """A stored run, and when it was measured."""

    results: ExperimentResults
    begun_ns: int
    ended_ns: int

    @property
    def what(self) -> tuple[str, str]:
        """Return what two sides of a pair have in common: the experiment and its point."""
        return self.results.experiment, str(self.results.points[0].factors)

    @property
    def delay_ns(self) -> float | None:
        """The delay injected into each iteration; None where the run cannot delay."""
        injection: dict[str, Any] | None = self.results.settings.get("injection")
        return None if injection is None else float(injection["delay_ns"])

    @property
    def iteration_ns(self) -> float:
        """Time of one iteration of the measured region: the median of the samples."""
        return self.results.iteration_ns(self.results.points[0])


def judged(store: Store) -> Iterator[Trial]:
    """Yield the trial of each pair in `store`, in order of time. Raises OscopeError if it is unreadable."""
    pilots: dict[tuple[str, str], float] = {}
    waiting: dict[str, _Run] = {}
    last: _Run | None = None
    for run in _runs(store):
        partners = run.results.settings["interleaved"]
        if partners:
            waiting[run.results.run_id] = run
            if all(name in waiting for name in partners):
                a, b = (waiting.pop(name) for name in partners)
                yield _trial(a, b, "interleaved", pilots.get(a.what))
        elif run.results.seed == PILOT_SEED:
            pilots[run.what] = run.iteration_ns
        elif last is not None and (last.what, last.results.seed) == (run.what, run.results.seed):
            yield _trial(*_in_order(last, run), "in sequence", pilots.get(run.what))
            last = None
            continue
        last = None if partners else run


def _runs(store: Store) -> Iterator[_Run]:
    table = schema.event
    ends = sa.select(table.c.run_id, sa.func.max(table.c.at_ns)).group_by(table.c.run_id)
    starts = sa.select(schema.run.c.id, schema.run.c.started_ns)
    with store.reading() as connection:
        ended: dict[str, int] = dict(connection.execute(ends).all())
        begun: dict[str, int] = dict(connection.execute(starts).all())
    for entry in store.runs():
        experiments = store.results(entry.id, columns="metrics").experiments
        if entry.status == "done" and len(experiments) == 1 and len(experiments[0].points[0]):
            yield _Run(experiments[0], begun[entry.id], ended[entry.id])


def _in_order(first: _Run, second: _Run) -> tuple[_Run, _Run]:
    """Return sides A and B of separate runs: B is delayed more; of equal runs with an odd seed A is first."""
    if first.delay_ns == second.delay_ns:
        return (first, second) if first.results.seed % 2 else (second, first)
    return (first, second) if (first.delay_ns or 0) < (second.delay_ns or 0) else (second, first)


def _trial(a: _Run, b: _Run, way: str, pilot_ns: float | None) -> Trial:
    delay_ns = b.delay_ns or 0.0
    slower = 1 + delay_ns / a.iteration_ns
    headline = a.results.headline
    verdicts, detectable = judge(a.results, b.results)
    levels = map(str, a.results.points[0].factors.values())
    if way == "interleaved":
        pair_ns = max(a.ended_ns, b.ended_ns) - min(a.begun_ns, b.begun_ns)
    else:
        pair_ns = sum(run.ended_ns - run.begun_ns for run in (a, b))
    return Trial(
        subject=" ".join([a.results.experiment, *levels]),
        metric=headline,
        way=way,
        # Without a pilot the effect is that of this pair, which differs a little from pair to pair.
        effect=round(delay_ns / (pilot_ns or a.iteration_ns), DECIMALS),
        truth=slower if a.results.metrics[headline].better == "less" else 1 / slower,
        detectable=detectable,
        seconds=pair_ns / 2e9,
        verdicts=verdicts,
    )


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if a store has no pair or cannot be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("stores", nargs="+", type=Path, metavar="STORE")
    found: list[Trial] = []
    try:
        for place in parser.parse_args(words).stores:
            with Store.read(place) as store:
                found += judged(store)
    except OscopeError as error:
        print(f"judge_trials: {error}", file=sys.stderr)
        return 1
    if not found:
        print("judge_trials: no pair of runs there: make some by oscope calibrate --keep", file=sys.stderr)
        return 1
    out = terminal.console()
    for table in (by_subject(found), *by_method_and_way(found)):
        terminal.print_table(table, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
