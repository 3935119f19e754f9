"""What is notable: chosen by a rule, worded by direction, and true to the figures beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

import synthetic
import synthetic_disk
import synthetic_fs
import synthetic_ipc
import synthetic_memory
import synthetic_transfer
from oscope.figures.analysed import Analysed
from oscope.figures.contrasts import CONTRASTS
from oscope.figures.notable import beyond, notable
from oscope.labs import LABS
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.report.build import answers
from oscope.statistics import compare_points

SURVEYS: tuple[Callable[[], Results], ...] = (
    synthetic.survey,
    synthetic_disk.survey,
    synthetic_fs.survey,
    synthetic_ipc.survey,
    synthetic_memory.survey,
    synthetic_transfer.survey,
)


@pytest.fixture(scope="module")
def everything() -> Results:
    return Results(tuple(chain.from_iterable(survey().experiments for survey in SURVEYS)))


def _scaled(experiment: ExperimentResults, factor: float, **levels: object) -> ExperimentResults:
    """Multiply every metric of the points with these levels."""
    points = tuple(
        replace(point, metrics={name: values * factor for name, values in point.metrics.items()})
        if all(point.factors.get(name) == level for name, level in levels.items())
        else point
        for point in experiment.points
    )
    return replace(experiment, points=points)


def test_at_most_five_ranked_by_the_least_effect_allowed(everything: Results) -> None:
    found = notable(everything)
    assert len(found) == 5
    assert [each.rank for each in found] == sorted((each.rank for each in found), reverse=True)
    for each in found:
        low, high = each.ci95
        assert low <= each.ratio <= high
        assert not low <= 1 <= high
        assert each.rank == pytest.approx(min(abs(math.log(low)), abs(math.log(high))))
    assert len({each.section for each in found}) == 5


def test_a_sentence_is_short_and_has_at_most_two_figures(everything: Results) -> None:
    for each in notable(everything, most=100):
        assert each.sentence.endswith(".")
        assert len(each.sentence) <= 110
        assert "{" not in each.sentence


def test_the_values_beside_a_finding_are_those_of_the_tables(everything: Results) -> None:
    analysed = Analysed.of(everything)
    for each in notable(everything, most=100):
        experiment = analysed.get(each.experiment)
        assert experiment is not None
        known = {
            (summary.median, summary.ci95)
            for point in experiment.points
            if (summary := analysed.summary(experiment, point, each.metric)) is not None
        }
        assert {(value.median, value.ci95) for value in each.values} <= known


def test_a_finding_is_as_large_as_the_values_beside_it() -> None:
    cost = synthetic.cost()

    def slowed(point: PointSamples) -> PointSamples:
        """Make every other block of gethostid eight times as slow: block by block that is less."""
        many = np.where(point.block % 2, 8.0, 1.0) if point.factors["call"] == "gethostid" else 1.0
        return replace(point, metrics={**point.metrics, "time_ns": point.metrics["time_ns"] * many})

    for own in (cost, replace(cost, points=tuple(map(slowed, cost.points)))):
        [found] = [each for each in notable(Results((own,)), 99) if each.sentence.startswith("gethostid")]
        a, b = (value.median for value in found.values)
        assert f" {float(f'{b / a:.2g}'):g} times slower" in found.sentence


def test_fork_names_what_does_not_grow_with_it() -> None:
    [fork] = [each for each in notable(Results((synthetic.create(),)), 9) if "fork" in each.sentence]
    assert fork.sentence == (
        "fork takes 900 ns longer to return for each MiB resident; vfork, posix_spawn and threads do not."
    )


def test_what_was_expected_is_not_told() -> None:
    assert beyond((0.2, 0.4), "not slower") == 0
    assert beyond((0.2, 0.4), "equal") == pytest.approx(math.log(2.5))
    assert beyond((2.0, 4.0), "not slower") == pytest.approx(math.log(2))
    assert beyond((0.9, 1.2), "equal") == 0


def test_a_larger_buffer_that_slows_a_pipe_is_told_and_one_that_helps_is_not() -> None:
    made = synthetic_ipc.throughput()
    slow = _scaled(made, 0.001, buffer=65536, channel="pipe", mode="2proc")
    text = "A pipe between two processes is"
    assert not any(each.sentence.startswith(text) for each in notable(Results((made,)), 99))
    assert any(each.sentence.startswith(text) for each in notable(Results((slow,)), 99))


def test_equal_sides_tell_nothing() -> None:
    made = synthetic.cost()
    by_call = {point.factors["call"]: point for point in made.points if point.factors["style"] == "loop"}
    twin = tuple(replace(by_call["getppid"], factors=each.factors) for each in by_call.values())
    assert notable(Results((replace(made, points=twin),))) == []


def test_a_finding_that_the_medians_beside_it_deny_is_none() -> None:
    """Most blocks are slower at the second level, but most samples faster: bars would deny it."""
    made = synthetic.cost(reps=144)
    sizes = [1, 1, 20, 1, 1] * 6
    block = np.repeat(np.arange(30), sizes)
    points = [
        replace(
            made.points[0],
            factors={"call": call},
            block=block,
            metrics={"time_ns": np.repeat([few, few, many, few, few] * 6, sizes)},
        )
        for call, few, many in (("getpid", 100.0, 200.0), ("read", 150.0, 100.0))
    ]
    metrics = {"time_ns": made.metrics["time_ns"]}
    own = replace(made, experiment="mine", metrics=metrics, points=tuple(points))
    row = compare_points(*points, metrics["time_ns"], same_run=True)
    assert row.ci95[0] > 1.1
    assert row.p < 0.05
    assert row.median_b < row.median_a
    assert notable(Results((own,))) == []


def test_a_workload_of_ones_own_is_searched_by_its_factors() -> None:
    own = replace(_scaled(synthetic.create(), 7.0, how="vfork"), experiment="mine", title="Mine")
    found = notable(Results((own,)))
    assert found
    assert all(each.sentence.startswith("Mine: ") and each.section == "" for each in found)


def test_sections_are_those_of_the_labs() -> None:
    titles = {
        section.title for survey in SURVEYS for part in answers(survey(), LABS) for section in part.sections
    }
    assert {contrast.section for contrast in CONTRASTS} - {""} <= titles
    names = {each.name for lab in LABS for each in lab.experiments}
    assert {contrast.experiment for contrast in CONTRASTS} <= names


def test_every_contrast_is_of_points_that_a_profile_measures() -> None:
    experiments = {each.name: each for lab in LABS for each in lab.experiments}
    for contrast in CONTRASTS:
        experiment = experiments[contrast.experiment]
        designs = [design for design in (experiment.quick, experiment.full) if design is not None]
        sides = [{**contrast.fixed, **side} for side in (contrast.a, contrast.b)]
        assert any(
            all(level in design.factors[name] for side in sides for name, level in side.items())
            for design in designs
        ), contrast
