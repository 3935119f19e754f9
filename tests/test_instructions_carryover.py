"""Counts of instructions that depend on the points measured before them: reported, and no difference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import synthetic
from oscope.cli.summary import notes
from oscope.figures.analysed import Analysed
from oscope.model.samples import ExperimentResults, Results
from oscope.statistics import ComparedMetric, carryover, compare_results
from oscope.storage import record
from synthetic_instructions import pair, point, results

CALLS = ("getpid", "getppid", "read")
FORWARD, BACKWARD = (0, 1, 2), (2, 1, 0)
MIXED = (FORWARD, BACKWARD, (1, 0, 2), (0, 2, 1), (2, 0, 1))
OTHERS = (BACKWARD, FORWARD, (0, 2, 1), (2, 0, 1), (1, 2, 0))
CHEAPER = 40.0
"""What a call saves where another was measured before it."""
NONE = ((),) * 5
LABORATORY = {"probe_sha256": "00"}

compared = partial(compare_results, allow=("kernel",))


def measured(
    orders: Sequence[Sequence[int]],
    *,
    depends: bool = True,
    added: float = 0.0,
    run: str = "20260101-000000-aaaa",
    **changes: Any,
) -> ExperimentResults:
    """Return a run whose boots measured the calls in these orders; the first one in each warms no other.

    `depends`: getppid costs less where another call was measured before. It costs `added` more anyway.
    """
    points = []
    for number, call in enumerate(CALLS):
        at = [list(order).index(number) for order in orders if number in order]
        moved = [-CHEAPER if depends and call == "getppid" and place else 0.0 for place in at]
        one = point(call, 236 + added, NONE[: len(at)], boot_effect=moved or [0.0])
        started = one.started_ns + np.array(at or [0])[one.boot] * 10**9
        points.append(replace(one, started_ns=started.astype(np.int64)))
    kept = [one for number, one in enumerate(points) if any(number in order for order in orders)]
    found = results(*kept, run=run, **changes)
    return replace(
        found,
        settings={**found.settings, "order": "fixed", "min_time_ns": 1},
        environment={**found.environment, "laboratory": LABORATORY},
    )


def row_of(rows: Sequence[ComparedMetric], call: str = "getppid") -> ComparedMetric:
    return next(row for row in rows if row.metric == "instructions" and row.factors["call"] == call)


def test_the_order_of_a_boot_is_that_of_its_samples() -> None:
    names = [[dict(key)["call"] for key, _ in boot] for (boot,) in carryover.boots(measured(MIXED)).values()]
    assert names == [[CALLS[number] for number in order] for order in MIXED]


def test_runs_in_the_same_order_are_paired_and_equal_though_their_boots_differ() -> None:
    a, b = measured(MIXED), measured(MIXED, run="r2")
    found = compared(a, b)
    assert {row.different for row in found.rows} == {"no"}
    assert row_of(found.rows).method == "paired by boot"
    assert row_of(found.rows).sentence == "no difference found: identical in all 5 boots"
    assert not any("same order" in caveat for caveat in found.caveats)


@pytest.mark.parametrize("added", [5, -1])
def test_a_patch_is_exact_though_the_count_depends_on_the_order(added: float) -> None:
    base = measured(MIXED)
    patched = measured(MIXED, added=added, run="r2", kernel="patched")
    row = row_of(compared(base, patched).rows)
    assert (row.different, row.difference) == ("yes", added)
    assert "the same in each of 5 boots" in row.sentence


def test_what_depends_on_the_points_before_is_named_with_its_range() -> None:
    a, b = measured(MIXED), measured(MIXED, run="r2")
    (caveat,) = (each for each in compared(a, b).caveats if "differ between boots" in each)
    assert caveat.startswith("2 of 6 figures differ between boots that measured other points before them: ")
    assert "instructions [call=getppid] (196 to 236 instructions)" in caveat
    assert "getpid]" not in caveat
    assert carryover.remark(measured(MIXED, depends=False)) is None
    assert carryover.remark(measured((FORWARD,) * 5)) is None
    assert carryover.remark(synthetic.cost()) is None


def test_other_orders_are_a_caveat_and_no_difference() -> None:
    # Every boot of A has it cheaper, no boot of B.
    a, b = measured((FORWARD, BACKWARD) * 2), measured(((1,),) * 4, run="r2")
    found = compared(a, b)
    row = row_of(found.rows)
    assert (row.different, row.matters) == ("cannot tell", "cannot tell")
    assert "both sides are the same system" in row.sentence
    (caveat,) = (each for each in found.caveats if "same order" in each)
    assert "give both the same levels and --reps" in caveat
    assert "drawn from the seed" not in caveat


def test_a_run_in_an_order_by_the_seed_is_named() -> None:
    new, old = measured(MIXED), measured(OTHERS, run="r2")
    old = replace(old, settings={name: v for name, v in old.settings.items() if name != "order"})
    (caveat,) = (each for each in compared(new, old).caveats if "same order" in each)
    assert caveat.endswith("; B has an order that was drawn from the seed: measure again")
    # Two old runs of one seed have the same order.
    assert not any("same order" in each for each in compared(old, replace(old, run_id="r3")).caveats)


@pytest.mark.parametrize(("added", "different"), [(CHEAPER, "cannot tell"), (3 * CHEAPER, "yes")])
def test_another_kernel_in_another_order_differs_only_beyond_what_the_order_does(
    added: float, different: str
) -> None:
    alone = measured(((1,),) * 5, added=added, run="r2", kernel="patched")
    found = compared(measured(((1, 0, 2), FORWARD, BACKWARD, FORWARD, BACKWARD)), alone)
    row = row_of(found.rows)
    assert row.median_b - row.median_a == added + CHEAPER
    assert row.different == different
    assert any("same order" in caveat for caveat in found.caveats)


def test_sides_that_took_turns_stay_pairs_though_one_lost_a_boot() -> None:
    names = {"interleaved": ["20260101-000000-aaaa", "r2"]}
    a, b = measured(MIXED), measured((*MIXED[:4], OTHERS[4]), added=5, run="r2", kernel="patched")
    a, b = (replace(side, settings={**side.settings, **names}) for side in (a, b))
    assert row_of(compared(a, b).rows, "getpid").different == "yes"
    assert row_of(compared(a, b).rows, "getpid").difference == 5


def test_the_wall_clock_has_no_caveat() -> None:
    a, b = synthetic.cost(), replace(synthetic.cost(), run_id="r2")
    assert not carryover.caveats(a, b)
    assert not carryover.same_order(a, a)
    assert not carryover.caveats(*pair())


def test_record_and_summary_say_which_figures_depend_on_the_points_before() -> None:
    run = measured(MIXED)
    data = json.loads(record.to_json(Results((run,))))
    found = {each["factors"]["call"]: each["metrics"]["instructions"] for each in data["points"]}
    assert data["settings"]["order"] == "fixed"
    assert found["getppid"]["carryover"] == [196, 236]
    assert "carryover" not in found["read"]
    assert record.from_record(data).settings["order"] == "fixed"
    (text,) = (each for each in notes(Analysed.of(Results((run,))), run) if "differ between boots" in each)
    assert "[call=getppid] (196 to 236 instructions)" in text
