"""`oscope explain-variation` and what the report says of it: causes, own CPU time, too few samples."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import synthetic
from cli_driver import COST, CommandLine
from oscope.figures import variation
from oscope.figures.analysed import Analysed
from oscope.figures.experiments import view
from oscope.labs.syscalls.spread import _largest
from oscope.model.samples import ExperimentResults
from oscope.questions.run import Run


@pytest.fixture
def cost() -> ExperimentResults:
    return synthetic.cost()


def test_the_invented_cause_is_named_first(cost: ExperimentResults) -> None:
    results = Analysed.of(synthetic.Results((cost,)))
    every = variation.of_experiment(results, cost, "time_ns")
    assert len(every) == len(cost.points)
    assert all(each.judged for each in every)
    # Interrupts and the run delay rise together there.
    assert next(iter(variation.totals(every))) in {"interrupts", "run_delay_ns"}
    drawn = variation.figure(every)
    assert drawn is not None
    shares = np.array([trace["x"] for trace in drawn.traces], dtype=float)
    assert shares.sum(axis=0) == pytest.approx(100, abs=0.5)
    assert "is associated with" in variation.in_brief(results, every)


@pytest.mark.parametrize("own", [0.3, 0.0])
def test_unexplained_is_one_quantity_everywhere(cost: ExperimentResults, own: float) -> None:
    results = Analysed.of(synthetic.Results((cost,)))
    first = variation.of_experiment(results, cost, "time_ns")[0]
    causes = (replace(first.found.causes[0], share=0.5),)
    one = replace(first, found=replace(first.found, causes=causes, own=own, unexplained=0.5))
    part = " (of that the measured code's own CPU time, without a cause: 30 %)" if own else ""
    brief = variation.in_brief(results, [one])
    assert brief.endswith(f": 50 %; unexplained: 50 %{part}.")
    rows = [row[2:4] for row in variation.table([one]).rows]
    assert rows[1] == ["unexplained", "50"]
    assert rows[2:] == ([["of that: own CPU time, without a cause", "30"]] if own else [])
    assert _largest(Run(results, cost), [one]).endswith("; unexplained: 50 %.")
    drawn = variation.figure([one])
    assert drawn is not None
    assert sum(trace["x"][0] for trace in drawn.traces[1:]) == pytest.approx(50)
    assert ("but for own CPU time" in drawn.note) == bool(own)


def test_percents_of_a_whole_add_up_to_it(cost: ExperimentResults) -> None:
    assert variation.whole_percents([0.956, 0.044]) == [96, 4]
    assert variation.whole_percents([0.905, 0.0475, 0.0475]) == [90, 5, 5]
    assert variation.whole_percents([1 / 3] * 3) == [34, 33, 33]
    assert variation.whole_percents([1.0]) == [100]
    results = Analysed.of(synthetic.Results((cost,)))
    first = variation.of_experiment(results, cost, "time_ns")[0]
    causes = tuple(
        replace(first.found.causes[0], name=name, share=share)
        for name, share in (("run_delay_ns", 0.905), ("interrupts", 0.0475))
    )
    one = replace(first, found=replace(first.found, causes=causes, own=0.0475, unexplained=0.0475))
    *whole, part = [int(row[3]) for row in variation.table([one]).rows]
    assert (sum(whole), part) == (100, 5)
    assert variation.in_brief(results, [one]).count("5 %") == 3


def test_the_report_shows_it_beside_the_experiment(cost: ExperimentResults) -> None:
    seen = view(Analysed.of(synthetic.Results((cost,))), cost)
    assert "Where the spread comes from" in [figure.title for figure in seen.figures]
    assert "Causes by point" in [table.title for table in seen.tables]


def with_tail(cost: ExperimentResults) -> ExperimentResults:
    """Make five samples of the first point slow, which moved to another CPU."""
    point = cost.points[0]
    values = np.array(point.metrics["time_ns"], dtype=float)
    moves = np.zeros(len(values))
    slow = np.linspace(3, len(values) - 4, 5).astype(int)
    values[slow] *= 3
    moves[slow] = 1
    changed = replace(
        point,
        metrics={**point.metrics, "time_ns": values},
        covariates={**point.covariates, "migrations": moves},
    )
    return replace(cost, points=(changed, *cost.points[1:]))


def test_the_tail_has_a_table_of_its_own(cost: ExperimentResults) -> None:
    slowed = with_tail(cost)
    results = Analysed.of(synthetic.Results((slowed,)))
    every = variation.of_experiment(results, slowed, "time_ns")
    (table,) = variation.tails(every)
    rows = {row[4]: row for row in table.rows if row[0] == every[0].name}
    assert rows["migrations"][5].split(" of ")[0] == "5"
    assert rows["migrations"][6] == "0 %"
    assert "migrations" in [row[0] for row in variation.glossary(results, every)[0].rows]
    assert table.title in [each.title for each in view(results, slowed).tables]


def test_covariates_with_a_metrics_name_are_labelled(cost: ExperimentResults) -> None:
    slowed = with_tail(cost)
    counted = replace(slowed, metrics={**slowed.metrics, "migrations": slowed.metrics["time_ns"]})
    results = Analysed.of(synthetic.Results((counted,)))
    every = variation.of_experiment(results, counted, "time_ns")
    named = {row[4] for table in variation.tails(every) for row in table.rows}
    assert "migrations (measuring thread)" in named
    assert "migrations" not in named
    assert every[0].labelled("interrupts, migrations") == "interrupts, migrations (measuring thread)"


def test_few_samples_are_told_and_nothing_is_drawn() -> None:
    cost = synthetic.cost(reps=12)
    results = Analysed.of(synthetic.Results((cost,)))
    every = variation.of_experiment(results, cost, "time_ns")
    assert variation.figure(every) is None
    assert variation.in_brief(results, every).startswith("Not enough samples")
    assert "Where the spread comes from" not in [figure.title for figure in view(results, cost).figures]


def test_counts_of_instructions_are_not_explained(cost: ExperimentResults) -> None:
    clock = {**cost.environment["clock"], "kind": "instructions"}
    counted = replace(cost, environment={**cost.environment, "clock": clock})
    assert counted.clock == "instructions"
    seen = view(Analysed.of(synthetic.Results((counted,))), counted)
    assert "Where the spread comes from" not in [figure.title for figure in seen.figures]


def test_a_run_is_explained_on_the_terminal_and_as_json(oscope: CommandLine) -> None:
    assert oscope(*COST, "--reps", "60").code == 0
    reported = oscope("explain-variation", "last")
    assert reported.code == 0
    assert "syscall.cost: what makes time_ns vary" in reported.out
    assert "unexplained" in reported.out
    written = json.loads(oscope("explain-variation", "last", "--json", "-").out)
    assert written["schema"] == "oscope.variation/1"
    (experiment,) = written["experiments"]
    assert experiment["metric"] == "time_ns"
    for point in experiment["points"]:
        tail = point["tail"]
        assert tail["of"] == point["n"] == 60
        assert tail["n"] == len(tail["samples"]) > 0
        assert 0 < tail["share"] < 1
        assert tail["sentence"].startswith(f"{tail['n']} of 60 samples are ")
        assert all(0 <= cause["stability"] <= 1 for cause in point["causes"] if cause["name"] != "process")
        shares = sum(cause["share"] for cause in point["causes"])
        assert point["unexplained"] is None or shares + point["unexplained"] == pytest.approx(1, abs=0.01)


def test_few_samples_of_a_run_are_told(oscope: CommandLine) -> None:
    assert oscope(*COST, "--reps", "5").code == 0
    reported = oscope("explain-variation", "last")
    assert reported.code == 0
    assert "Not enough samples" in reported.out


def test_a_metric_that_is_not_there_is_refused(oscope: CommandLine) -> None:
    assert oscope(*COST, "--reps", "5").code == 0
    reported = oscope("explain-variation", "last", "--metric", "colour")
    assert reported.code == 2
    (line,) = reported.err.splitlines()
    assert "has no metric 'colour'" in line
    assert "time_ns" in line
