"""What the lab of system calls says in words: waits for a CPU, times before cycles, several modes."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import synthetic
from oscope import labs
from oscope.model.document import Section
from oscope.model.samples import ExperimentResults, Results


def _answers(results: Results) -> dict[str, Section]:
    return {section.title: section for section in labs.lab("syscalls").sections(results)}


def _busy_throughput(waited: float) -> ExperimentResults:
    """Return the calls a second of a thread that waited for its CPU for this share of the time."""
    made = synthetic.throughput()
    points = [
        dataclasses.replace(
            point,
            metrics={name: values * (1 - waited) for name, values in point.metrics.items()},
            covariates={
                **point.covariates,
                "run_delay_ns": np.full(len(point), waited * 0.5e9),
                "counted_ns": np.full(len(point), 0.5e9),
            },
        )
        for point in made.points
    ]
    return dataclasses.replace(made, points=tuple(points))


@pytest.mark.parametrize("waited", [0.0, 0.6])
def test_fewer_calls_than_the_cost_leads_to_are_put_beside_the_wait_for_a_cpu(waited: float) -> None:
    section = _answers(Results((synthetic.cost(), _busy_throughput(waited))))[
        "How many calls fit into a second"
    ]
    text = " ".join(section.text)
    assert ("Fewer calls than 1 / cost in a loop" in text) == bool(waited)
    if waited:
        assert "beyond the intervals: lseek, getpid and gethostid. A second here is wall time: " in text
        assert "the thread waited for a CPU for up to 60.0 % of it" in text


def test_a_wait_that_explains_nothing_is_not_called_the_reason() -> None:
    busy = _busy_throughput(0.6)
    points = [
        dataclasses.replace(p, covariates={**p.covariates, "run_delay_ns": np.zeros(len(p))})
        for p in busy.points
    ]
    results = Results((synthetic.cost(), dataclasses.replace(busy, points=tuple(points))))
    text = " ".join(_answers(results)["How many calls fit into a second"].text)
    assert "Waiting for a CPU does not explain it." in text
    assert "A second here is wall time" not in text


def test_the_child_and_parent_of_fork_are_headed_by_times_and_listed_in_cycles() -> None:
    section = _answers(Results((synthetic.create(),)))[
        "A call and fork in cycles, beside the original report"
    ]
    figure = r"[\d.]+ µs \[[\d., ]+\]"
    child = f"After fork, the child's first instruction comes {figure} after the call"
    headline = f"{child}, the parent's return {figure}."
    assert re.fullmatch(headline, section.answer), section.answer
    assert any("[cycles]" in each for each in section.tables[0].columns)


def test_several_modes_have_a_verb_and_their_median_is_called_that_of_all() -> None:
    cost = synthetic.cost()
    points = [
        dataclasses.replace(point, metrics={name: _two_modes(v) for name, v in point.metrics.items()})
        for point in cost.points
    ]
    found = _answers(Results((dataclasses.replace(cost, points=tuple(points)),)))
    section = found["Which value stands for the cost"]
    assert "the modes represent " in section.answer.replace("The", "the")
    whys = [row[-1] for row in section.tables[0].rows if row[-2] == "modes"]
    assert whys
    assert all(why.endswith("; the median is that of all together.") for why in whys)


def _two_modes(values: np.ndarray) -> np.ndarray:
    return values * np.where(np.arange(len(values)) % 10 < 7, 1.0, 5.0)
