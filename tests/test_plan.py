from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_experiment
from fake_probe import DESCRIPTION
from oscope.model.errors import ProbeError, UsageError
from oscope.model.experiment import Design
from oscope.planning.plan import DEFAULT_BUDGET_S, Amount, Plan, make_plan
from oscope.planning.schedule import schedule
from oscope.probe import catalogue as catalogues
from oscope.probe.catalogue import Catalogue, Parameter, check_level, format_level

CATALOGUE = catalogues.parse(orjson.loads(orjson.dumps(DESCRIPTION)))


def plan_of(sizes: int, reps: int, blocks: int, seed: int = 1) -> Plan:
    return make_plan([make_experiment({"size": tuple(range(sizes))}, reps, blocks)], CATALOGUE, seed=seed)


@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**40))
def test_every_point_gets_exactly_its_samples_and_every_block_is_a_permutation(
    sizes: int, reps: int, blocks: int, seed: int
) -> None:
    plan = plan_of(sizes, reps, blocks, seed)
    experiment = plan.experiments[0]
    assert experiment.blocks == min(blocks, reps)
    got: Counter[int] = Counter()
    for block in range(experiment.blocks):
        turns = schedule(plan, experiment, block)
        assert sorted(turn.point for turn in turns) == list(range(sizes))
        assert len({turn.reps for turn in turns}) == 1
        got.update({turn.point: turn.reps for turn in turns})
    assert set(got.values()) == {reps}
    shares = [experiment.block_reps(block) for block in range(experiment.blocks)]
    assert max(shares) - min(shares) <= 1
    assert plan.total == sizes * reps


@given(st.integers(0, 2**40), st.integers(0, 100))
def test_the_order_depends_on_seed_and_block_alone(seed: int, block: int) -> None:
    plan = plan_of(8, 4, 2, seed)
    again = Plan.from_object(orjson.loads(orjson.dumps(plan.to_object())))
    assert again == plan
    assert schedule(again, again.experiments[0], block) == schedule(plan, plan.experiments[0], block)


def test_the_order_is_kept_for_good() -> None:
    """A stored run must be resumable by a later build: if this fails, resumed runs are broken."""
    plan = plan_of(8, 4, 2, seed=1)
    assert [turn.point for turn in schedule(plan, plan.experiments[0], 0)] == [6, 1, 0, 7, 2, 5, 4, 3]


def test_orders_differ_between_blocks_seeds_and_experiments() -> None:
    plan = plan_of(12, 4, 2)
    other = make_plan([make_experiment({"size": tuple(range(12))}, name="fake.other")], CATALOGUE, seed=1)
    orders = {
        schedule(plan, plan.experiments[0], 0),
        schedule(plan, plan.experiments[0], 1),
        schedule(plan_of(12, 4, 2, seed=2), plan.experiments[0], 0),
        schedule(other, other.experiments[0], 0),
    }
    assert len({tuple(turn.point for turn in order) for order in orders}) == 4


def test_a_fixed_order_is_the_same_by_every_seed_and_for_good() -> None:
    """Runs that count instructions agree only in the same order: if this fails, stored ones do no longer."""
    plans = [plan_of(8, 4, 2, seed=seed) for seed in (1, 2)]
    orders = [
        [schedule(plan, replace(plan.experiments[0], order="fixed"), block) for block in range(2)]
        for plan in plans
    ]
    assert orders[0] == orders[1]
    taken = [[turn.point for turn in order] for order in orders[0]]
    assert taken == [[6, 3, 1, 7, 5, 2, 0, 4], [2, 1, 3, 7, 5, 4, 0, 6]]


def make(settings: dict[str, Any] | None = None, **amount: Any) -> Plan:
    experiment = make_experiment({"size": ("4K", "1M"), "huge": (False, True)}, reps=30, blocks=10)
    return make_plan([experiment], CATALOGUE, settings=settings, amount=Amount(**amount), seed=1)


def test_levels_are_converted_before_they_reach_the_wire() -> None:
    points = make({"pause": ["500ms"]}).experiments[0].points
    assert dict(points[0]) == {"size": 4096, "huge": False, "pause": 0.5}
    assert len(points) == 4


def test_settings_replace_the_designed_levels() -> None:
    assert [p["size"] for p in make({"size": ["1", "2", "2"], "huge": ["no"]}).experiments[0].points] == [
        1,
        2,
    ]


def test_settings_apply_to_the_experiments_that_have_the_parameter() -> None:
    other = {**DESCRIPTION["workloads"][0], "name": "fake.bare", "parameters": []}
    catalogue = catalogues.parse({**DESCRIPTION, "workloads": [*DESCRIPTION["workloads"], other]})
    bare = dataclasses.replace(make_experiment({}, name="fake.bare"), workload="fake.bare")
    plan = make_plan([make_experiment({}), bare], catalogue, settings={"size": ["8"]}, seed=1)
    assert [dict(e.points[0]) for e in plan.experiments] == [{"size": 8}, {}]


def test_excluded_combinations_are_left_out() -> None:
    experiment = dataclasses.replace(
        make_experiment({"size": (0, 1), "huge": (False, True)}),
        exclude=lambda p: p["size"] == 0 and bool(p["huge"]),
    )
    assert len(make_plan([experiment], CATALOGUE).experiments[0].points) == 3
    with pytest.raises(UsageError, match="exclude each other"):
        make_plan([experiment], CATALOGUE, settings={"size": [0], "huge": [True]})


def test_a_level_that_only_the_workload_allows_is_refused() -> None:
    experiment = dataclasses.replace(make_experiment({"size": (1,)}), least={"size": 1})
    plan = make_plan([experiment], CATALOGUE, settings={"size": [1]})
    assert [dict(point) for point in plan.experiments[0].points] == [{"size": 1}]
    with pytest.raises(UsageError, match=r"size=0 B is out of range: allowed is 1 B to 1 GiB"):
        make_plan([experiment], CATALOGUE, settings={"size": [0, 1]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sise": ["1"]}, "no experiment here has a factor 'sise': did you mean 'size'"),
        ({"size": []}, "size has no level"),
        ({"size": ["many"]}, "fake.experiment: size=many: 'many' is not a size"),
        ({"size": ["2G"]}, "size=2 GiB is out of range: allowed is 0 B to 1 GiB"),
        ({"do": ["oc"]}, "do=oc: not a level of this factor"),
        ({"do": ["nr:x"]}, "do=nr:x"),
        ({"width": ["1.5"]}, "width=1.5: not a whole number"),
        ({"width": ["101"]}, "out of range"),
        ({"pause": ["-1s"]}, "pause=-1s"),
        ({"pause": [float("nan")]}, "pause=nan: not a duration"),
        ({"huge": ["maybe"]}, "huge=maybe: neither true nor false"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        make(settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "amount",
    [
        {"reps": 0},
        {"reps": -1},
        {"budget_s": 0.0},
        {"budget_s": -1.0},
        {"budget_s": float("nan")},
        {"budget_s": float("inf")},
        {"spread_s": 0.0},
        {"spread_s": float("inf")},
        {"spread_s": 60.0, "precision": 0.02},
        {"precision": 0.0},
        {"precision": 1.0},
        {"precision": -0.1},
        {"precision": float("nan")},
        {"reps": 5, "precision": 0.1},
    ],
)
def test_amounts_that_make_no_sense_are_refused(amount: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        make(**amount)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="seed"):
        plan_of(1, 1, 1, seed=-1)


def test_a_seed_is_drawn_where_none_is_given() -> None:
    seeds = {make_plan([make_experiment({})], CATALOGUE).seed for _ in range(10)}
    assert len(seeds) > 1


def test_fewer_repetitions_than_blocks_give_fewer_blocks() -> None:
    experiment = make(reps=3).experiments[0]
    assert (experiment.reps, experiment.blocks) == (3, 3)


def test_a_precision_measures_few_repetitions_a_block_and_has_a_budget() -> None:
    plan = make(precision=0.02)
    assert (plan.experiments[0].reps, plan.experiments[0].blocks) == (3, None)
    assert (plan.budget_s, plan.total) == (DEFAULT_BUDGET_S, None)


def test_the_quick_design_is_used_for_the_quick_profile() -> None:
    experiment = dataclasses.replace(make_experiment({}), quick=Design({"size": (1,)}, 2, 1))
    assert make_plan([experiment], CATALOGUE, profile="quick").experiments[0].reps == 2


@pytest.mark.parametrize("text", ["nr:0", "nr:17", "nr:4294967295"])
def test_a_pattern_of_a_choice_is_allowed(text: str) -> None:
    parameter = Parameter("call", "choice", "getppid", ("getppid",), "nr:N")
    assert check_level(parameter, text) == text


def test_a_number_that_the_probe_would_refuse_is_refused() -> None:
    parameter = Parameter("call", "choice", "getppid", ("getppid",), "nr:N", ((24, 24), (337, 423)))
    for text in ("nr:24", "nr:337", "nr:423"):
        assert check_level(parameter, text) == text
    for text in ("nr:23", "nr:60", "nr:424"):
        with pytest.raises(UsageError, match=f"call={text}: this number is refused") as refused:
            check_level(parameter, text)
        assert refused.value.remedy == "N in nr:N may be 24, 337 to 423"


@pytest.mark.parametrize("text", ["nr:", "nr:-1", "nr:1x", "nr:N", "xnr:1", "nr:01"])
def test_what_does_not_fit_the_pattern_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="getppid"):
        check_level(Parameter("call", "choice", "getppid", ("getppid",), "nr:N"), text)


@pytest.mark.parametrize(
    ("level", "value"), [(True, True), ("yes", True), ("off", False), ("0", False), (1, True)]
)
def test_booleans(level: Any, value: bool) -> None:
    assert check_level(Parameter("huge", "boolean", False), level) is value


def test_a_boolean_is_neither_number_nor_size() -> None:
    for kind in ("integer", "bytes", "duration"):
        with pytest.raises(UsageError):
            check_level(Parameter("x", kind, 0), True)


@pytest.mark.parametrize(
    ("level", "value"),
    [("", ""), ("/a/b", "/a/b"), ("/a b/ü", "/a b/ü"), ("/a/../b", "/a/../b"), ("7", f"{Path.cwd()}/7")],
)
def test_a_path_becomes_absolute(level: str, value: str) -> None:
    assert check_level(Parameter("file", "path", ""), level) == value


@pytest.mark.parametrize("level", ["/a\0b", "/a/\udcff", 1, True])
def test_what_is_no_path_is_refused(level: Any) -> None:
    with pytest.raises(UsageError, match=r"file=.*not a path"):
        check_level(Parameter("file", "path", ""), level)


def test_a_path_is_written_as_it_is_and_no_path_as_none() -> None:
    parameter = Parameter("file", "path", "")
    assert [format_level(parameter, level) for level in ("/a/b", "")] == ["/a/b", "none"]


def test_the_catalogue_is_what_the_probe_says(catalogue: Catalogue) -> None:
    assert list(catalogue.workloads) == ["fake.work"]
    assert [c.name for c in catalogue.covariates] == ["run_delay_ns", "steal_ticks"]
    with pytest.raises(UsageError, match=r"did you mean 'fake\.work'"):
        catalogue.workload("fake.wrok")


@pytest.mark.parametrize(
    "text", ["nonsense", "[]", "{}", '{"schema": "oscope.probe/2"}', '{"schema": "oscope.probe/1"}']
)
def test_a_malformed_description_is_a_probe_error(
    fake_probe: Any, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("FAKE_PROBE_DESCRIBE", text)
    catalogues._load.cache_clear()
    with pytest.raises(ProbeError):
        catalogues.load(fake_probe)
