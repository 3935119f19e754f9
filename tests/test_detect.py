"""The time that experiments of one command have: each as much as it needs to find what is asked for."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from conftest import make_experiment
from oscope.analysis.calibration import certificate, detection
from oscope.analysis.calibration.certificate import Entry
from oscope.model.errors import UsageError
from oscope.planning.plan import Plan, make_plan
from oscope.probe.catalogue import Catalogue
from oscope.runner.execution import execute
from oscope.runner.interleaved import execute_interleaved
from oscope.runner.stopping import Budget
from oscope.storage import record
from oscope.storage.store import Store

SLOW = Entry("fake.slow x", "time_ns", 0.02, 0.1, 0.02, 0.005, 6)
"""That of `fast` has a tenth of its error, so that a hundredth of its pairs find the same."""
FAST = replace(SLOW, subject="fake.fast x", pair_error=0.01)
EFFECT = 0.01


def planned(catalogue: Catalogue, *names: str) -> Plan:
    """Return one side's plan of experiments that are alike, in blocks of one sample, until a budget ends."""
    experiments = [make_experiment({"size": (1,)}, reps=1, blocks=1, name=name) for name in names]
    plan = make_plan(experiments, catalogue, seed=1)
    return replace(plan, experiments=tuple(replace(each, blocks=None) for each in plan.experiments))


def sized(plan: Plan) -> Plan:
    brief = {"certificate": json.loads(record.dump(certificate.to_object([SLOW, FAST])))}
    return detection.size_interleaved(plan, EFFECT, brief).plan


def ends(plan: Plan, budget_s: float, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return when each experiment's time ends, where each takes all of it."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    budget = Budget(budget_s)
    found = []
    for number in range(len(plan.experiments)):
        now = budget.share(plan.experiments[number:]).at_s
        found.append(now)
    return found


@pytest.mark.parametrize("names", [("fake.slow", "fake.fast"), ("fake.fast", "fake.slow")])
def test_each_experiment_has_the_time_that_was_printed_for_it(
    catalogue: Catalogue, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = sized(planned(catalogue, *names))
    needed = []
    for name in names:
        pairs = {"fake.slow": SLOW, "fake.fast": FAST}[name].pairs_for(EFFECT)
        assert pairs is not None
        needed.append(pairs * SLOW.pair_s)
    assert plan.budget_s == pytest.approx(sum(needed), abs=0.1)
    assert max(needed) > 10 * min(needed)
    first, last = ends(plan, sum(needed), monkeypatch)
    assert [first, last - first] == pytest.approx(needed)


def test_experiments_without_parts_of_their_own_have_equal_ones(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(catalogue, "fake.a", "fake.b", "fake.c")
    assert ends(plan, 12.0, monkeypatch) == pytest.approx([4.0, 8.0, 12.0])


def test_a_plan_keeps_the_parts_and_an_older_one_has_none(catalogue: Catalogue) -> None:
    equal = planned(catalogue, "fake.slow", "fake.fast")
    plan = sized(equal)
    assert Plan.from_object(json.loads(record.dump(plan.to_object()))) == plan
    # As plans were written before there were parts.
    assert all("budget_s" not in each for each in equal.to_object()["experiments"])
    assert Plan.from_object(json.loads(record.dump(equal.to_object()))) == equal


def test_interleaved_sides_measure_each_experiment_for_its_part(catalogue: Catalogue, store: Store) -> None:
    plan = replace(sized(planned(catalogue, "fake.fast", "fake.slow")), budget_s=2.0)
    outcomes = execute_interleaved([plan, plan], store)
    for outcome in outcomes:
        assert (outcome.status, outcome.failures) == ("done", ())
        fast, slow = store.results(outcome.run_id).experiments
        # The one needs a hundred times as long as the other; halves of the time would give both as many.
        assert len(slow.points[0]) > 3 * len(fast.points[0])


def test_sides_that_share_their_time_otherwise_are_not_alike(catalogue: Catalogue, store: Store) -> None:
    equal = planned(catalogue, "fake.slow", "fake.fast")
    plan = sized(equal)
    with pytest.raises(UsageError, match="share their time alike"):
        execute_interleaved([plan, replace(equal, budget_s=plan.budget_s)], store)


def test_a_single_run_shares_its_budget_by_the_parts(catalogue: Catalogue, store: Store) -> None:
    plan = sized(planned(catalogue, "fake.fast", "fake.slow"))
    experiments = tuple(replace(each, reps=1000, blocks=1000) for each in plan.experiments)
    outcome = execute(replace(plan, budget_s=2.0, experiments=experiments), store)
    fast, slow = store.results(outcome.run_id).experiments
    assert len(slow.points[0]) > 3 * len(fast.points[0])
