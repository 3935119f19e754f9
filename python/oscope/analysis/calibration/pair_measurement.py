"""Measures the pairs of a calibration: as a user's runs are measured, into a store of their own."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from oscope.analysis.calibration.certificate import observe
from oscope.analysis.calibration.methods import judge
from oscope.analysis.calibration.spec import DUET, CalibrationSpec, Subject, Way
from oscope.analysis.calibration.trials import Trial
from oscope.model.errors import OscopeError, UsageError
from oscope.model.experiment import Experiment
from oscope.model.samples import ExperimentResults
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.probe import catalogue
from oscope.runner.duet import doubled
from oscope.runner.duet_cpus import Cpus, why_not
from oscope.runner.execution import Outcome, execute
from oscope.runner.injection.run_injection import RunInjection
from oscope.runner.injection.spec import Injection
from oscope.runner.interleaved import execute_interleaved
from oscope.storage.store import Store
from oscope.targets.affinity import Affinity

_SEEDS = 2**32


class Listener(Protocol):
    """Receives how far a calibration is."""

    def trial(self, done: int, total: int, name: str) -> None:
        """Hear that `done` pairs are judged, and which comes next."""


@dataclass(frozen=True)
class _Pair:
    """A pair to be measured."""

    subject: Subject
    way: Way
    effect: float
    cpus: Cpus | None
    """Of a duet."""


def measure(
    spec: CalibrationSpec,
    listener: Listener,
    keep: Path | None = None,
    *,
    find: Callable[[str], Experiment],
    cpus: Cpus | None = None,
) -> Iterator[Trial]:
    """Measure the pairs in random order, and yield each one as it is judged.

    `find` returns an experiment by its name. The runs go into the store `keep`, or into one that is deleted.
    `cpus` are those of the sides of duets; None: those that suit best. Work that cannot be measured as a duet
    is left out of these. Raises KeyboardInterrupt after a signal, OscopeError where a pair cannot be
    measured.
    """
    spec.check()
    random = np.random.default_rng(spec.seed)
    plans = {subject.name: _plan(subject, spec, 0, find) for subject in spec.subjects}
    effects = (*((0.0,) if spec.equal else ()), *spec.effects)
    reasons = {name: why_not(plan.experiments[0]) for name, plan in plans.items()}
    if {*spec.ways} == {DUET} and all(reasons.values()):
        name, reason = next(iter(reasons.items()))
        raise UsageError(f"{name} cannot be measured as a duet: {reason}", remedy="use --way interleaved")
    pairs = [
        _Pair(subject, way, effect, cpus)
        for subject, way, effect in itertools.product(spec.subjects, spec.ways, effects)
        if way != DUET or reasons[subject.name] is None
        for _ in range(spec.pairs)
    ]
    if spec.seconds is None:
        random.shuffle(pairs)
    else:
        # In rounds: the runs of a subject are to lie as far apart as they can.
        pairs = [pair for number in range(spec.pairs) for pair in pairs[number :: spec.pairs]]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_loaded(spec))
        times: dict[str, float] = {}
        for number, pair in enumerate(pairs):
            listener.trial(number, len(pairs), pair.subject.name)
            with _store(keep) as store:
                if spec.effects and pair.subject.name not in times:
                    pilot = _run(plans[pair.subject.name], store)
                    times[pair.subject.name] = pilot.iteration_ns(pilot.points[0])
                seed = int(random.integers(_SEEDS))
                a = replace(plans[pair.subject.name], seed=seed)
                yield _trial(pair, a, store, times.get(pair.subject.name, 0.0))
        listener.trial(len(pairs), len(pairs), "")


@contextlib.contextmanager
def _loaded(spec: CalibrationSpec) -> Iterator[None]:
    """Disturb the machine as `spec` says; OscopeError if that ends before the pairs do."""
    if spec.load == "none":
        yield
        return
    load = Injection(causes=(spec.load,), seed=spec.seed)
    with RunInjection(load.to_object(), Affinity()) as injection:
        yield
        injection.check()


@contextlib.contextmanager
def _store(keep: Path | None) -> Iterator[Store]:
    if keep is not None:
        with Store.open(keep) as store:
            yield store
        return
    with (
        tempfile.TemporaryDirectory(prefix="oscope-") as folder,
        Store.open(Path(folder) / "pair.db") as store,
    ):
        yield store


def _plan(subject: Subject, spec: CalibrationSpec, seed: int, find: Callable[[str], Experiment]) -> Plan:
    plan = make_plan(
        [find(subject.experiment)],
        catalogue.load(),
        profile="quick",
        settings={name: [level] for name, level in subject.settings.items()},
        amount=Amount(reps=spec.blocks * spec.reps),
        seed=seed,
    )
    (experiment,) = plan.experiments
    # The first point stands for an experiment of which no levels are named. Users' runs measure again, too.
    experiment = replace(experiment, points=experiment.points[:1], blocks=spec.blocks)
    if spec.seconds is not None:
        experiment = replace(experiment, reps=spec.reps, blocks=None)
    return replace(plan, experiments=(experiment,), again=True, budget_s=spec.seconds)


def _run(plan: Plan, store: Store) -> ExperimentResults:
    return _results(execute(plan, store), store)


def _results(outcome: Outcome, store: Store) -> ExperimentResults:
    if outcome.stopped:
        raise KeyboardInterrupt
    if outcome.failures:
        raise OscopeError(
            f"a pair was not measured: {outcome.failures[0]}", remedy="run the experiment alone"
        )
    (results,) = store.results(outcome.run_id, columns="metrics").experiments
    if not len(results.points[0]):
        raise OscopeError(
            f"a pair was not measured: {results.points[0].skipped}", remedy="run the experiment alone"
        )
    return results


def _delayed(plan: Plan, delay_ns: float) -> Plan:
    return replace(plan, injection=Injection(delay_ns=delay_ns, seed=plan.seed, steady=True).to_object())


def _trial(pair: _Pair, plan: Plan, store: Store, iteration_ns: float) -> Trial:
    """Measure a pair and judge it. The truth is of this pair: by how much its own side A is delayed."""
    slowed = plan
    if pair.effect:
        # Both by the code that can delay, so that they differ in the delay alone.
        plan, slowed = _delayed(plan, 0.0), _delayed(plan, pair.effect * iteration_ns)
    begun = time.monotonic()
    paired = pair.way in ("interleaved", DUET)
    if paired:
        names = [each.name for each in plan.experiments] if pair.way == DUET else []
        sides = [doubled(side, names) for side in (plan, slowed)]
        outcomes = execute_interleaved(sides, store, duet=names, cpus=pair.cpus)
        a, b = (_results(outcome, store) for outcome in outcomes)
    elif plan.seed % 2:
        a, b = _run(plan, store), _run(slowed, store)
    else:
        b, a = _run(slowed, store), _run(plan, store)
    seconds = (time.monotonic() - begun) / 2
    verdicts, detectable = judge(a, b)
    slower = 1 + pair.effect * iteration_ns / a.iteration_ns(a.points[0])
    less = a.metrics[a.headline].better == "less"
    return Trial(
        subject=pair.subject.name,
        metric=a.headline,
        way=pair.way,
        effect=pair.effect,
        truth=slower if less else 1 / slower,
        detectable=detectable,
        seconds=seconds,
        verdicts=verdicts,
        observed=observe(a, b, interleaved=paired),
    )
