"""Sentences of the labs that must not say more than the results do."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import synthetic
import synthetic_fs
import synthetic_ipc
import synthetic_memory
import synthetic_transfer
from oscope import labs
from oscope.labs.fs import SYSTEMS, compare, trips
from oscope.labs.ipc import calls
from oscope.labs.memory import FEW_SIZES
from oscope.labs.syscalls import create
from oscope.labs.syscalls.create import Line
from oscope.model.document import Section
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.statistics import summarise
from synthetic import every
from synthetic_disk import changed
from test_ipc_lab import SIZES, SWITCHES
from test_ipc_lab_traced import retraced
from test_labs_transfer import CONTENT as ZEROS

# ---- a median of 0 is not none


def test_blocks_of_some_repetitions_are_not_none() -> None:
    def once(point: PointSamples) -> dict[str, np.ndarray]:
        return {"oublock": 32832 * np.eye(1, len(point), 2)[0]}

    made = changed(synthetic_memory.mapping(dirtied=0.0), once, mapping="shared")
    answer = synthetic_memory.sections(made)["Mapping a file"].answer
    assert answer == "With shared memory the median is no block to write; the maximum is 32\u202f832."
    none = synthetic_memory.sections(synthetic_memory.mapping(dirtied=0.0))["Mapping a file"].answer
    assert none == "With shared memory the function has no block to write."


def test_short_reads_of_some_repetitions_are_not_none() -> None:
    def none(point: PointSamples) -> dict[str, np.ndarray]:
        return {"short_reads": np.zeros(len(point)), "reads": np.full(len(point), 10.0)}

    def some(point: PointSamples) -> dict[str, np.ndarray]:
        return {"short_reads": np.where(np.arange(len(point)) < 2, 5.0, 0.0)}

    made = changed(synthetic_ipc.throughput(), none)
    assert synthetic_ipc.sections(made)[SIZES].answer == "By the workload's own counts, no read is short."
    answer = synthetic_ipc.sections(changed(made, some, channel="pipe"))[SIZES].answer
    assert "the median of short reads is 0 at every point; the maximum is 50 % of the reads, at " in answer


def test_points_without_reads_are_not_counted_as_without_short_ones() -> None:
    def unknown(point: PointSamples) -> dict[str, np.ndarray]:
        return {"short_reads": np.full(len(point), np.nan)}

    assert not synthetic_ipc.sections(changed(synthetic_ipc.throughput(), unknown))[SIZES].answer


# ---- the TLB


def _paged(slow: Mapping[int, tuple[float, float]]) -> str:
    """Return what is said of base pages that cost these ratios and spreads; by size, else 1 and 1 %."""
    generator = np.random.default_rng(5)

    def costly(point: PointSamples) -> dict[str, np.ndarray]:
        ratio, spread = slow.get(int(point.factors["size"]), (1.0, 0.001))
        base = point.factors["pages"] == "4K"
        return {"time_ns": 5 * (ratio if base else 1.0) * generator.lognormal(0, spread, len(point))}

    section = synthetic_memory.sections(changed(synthetic_memory.latency(), costly))
    return section["Levels of caches and TLBs"].tables[-1].note


def test_pages_that_cost_more_at_one_size_do_not_from_there_on() -> None:
    note = _paged({64 << 10: (1.15, 0.001)})
    assert "It was found only at 64 KiB that 4 KiB pages cost 10 % more." in note
    assert "TLB" not in note


def test_a_size_that_cannot_be_judged_is_not_held_by_the_tlb() -> None:
    large = {size: (1.5, 0.001) for size in FEW_SIZES if size >= 512 << 10}
    assert "From 512 KiB on 4 KiB pages cost 10 % more: a TLB level reaches between 64 and 128" in _paged(
        large
    )
    note = _paged({**large, 256 << 10: (1.3, 0.5)})
    assert "From 512 KiB on 4 KiB pages cost 10 % more: a TLB level reaches fewer than 128 pages." in note


# ---- calls


def test_calls_that_were_refused_did_not_move_what_they_were_asked_to() -> None:
    def refused(reading: dict[str, Any], errors: int = 40) -> dict[str, Any]:
        call = {"count": 100, "errors": {"EAGAIN": errors} if errors else {}, "time_ns": 1000}
        call |= {
            "asked": 409_600,
            "returned": 4096 * (100 - errors),
            "short": 0,
            "sizes": [[4096, 100 - errors]],
        }
        return {**reading, "calls": {"read": call}}

    answer = synthetic_ipc.sections(retraced(synthetic_ipc.trace(), refused))[SIZES].answer
    assert re.fullmatch(r"No successful call was short; .* of .* calls returned an error\.", answer)
    all_done = retraced(synthetic_ipc.trace(), lambda reading: refused(reading, 0))
    assert synthetic_ipc.sections(all_done)[SIZES].answer == "Every call moves what it was asked to."


def _share(inside: float | None, on_cpu: float, system: float | None, name: str = "X") -> calls.Share:
    one, two = (None if each is None else summarise([each] * 5, range(5)) for each in (on_cpu, system))
    return calls.Share(name, None, inside, one, two)


def _waiting(*shares: calls.Share) -> str:
    return calls.INSIDE.headline(None, shares)  # The run is not asked for anything.


def test_calls_that_take_less_than_the_cpu_but_more_than_the_kernel_wait() -> None:
    assert _waiting(_share(0.5, 0.6, 0.2)) == (
        "Calls wait the most at X: 50 % of the time passes in calls, but only 20 % in the kernel."
    )
    assert _waiting(_share(0.5, 0.6, None)) == "Nowhere is more time spent in calls than on a CPU."
    assert _waiting(_share(0.5, 0.6, 0.5)) == (
        "Nowhere is more time spent in calls than in the kernel: no waiting was found."
    )
    assert "the most at Y: 50 %" in _waiting(_share(0.7, 0.6, 0.6), _share(0.5, 0.6, 0.1, "Y"))


def test_the_largest_share_on_a_cpu_need_not_be_most_of_the_time() -> None:
    answer = _waiting(_share(None, 0.2, None, "W"), _share(None, 0.3, None))
    assert answer == "The largest share of the time on a CPU is that of X: 30 %."


# ---- file systems


def _without(*systems: str, **levels: Level) -> ExperimentResults:
    """Return `fs.compare` without these systems' points at the levels."""
    made = synthetic_fs.experiment("fs.compare")
    kept = [
        point
        for point in made.points
        if point.factors["system"] not in systems
        or any(point.factors[name] != level for name, level in levels.items())
    ]
    return dataclasses.replace(made, points=tuple(kept))


def _fs(made: ExperimentResults, title: str) -> Section:
    return synthetic_fs.sections(made)[title]


def test_a_delay_at_which_nothing_was_compared_is_not_one_of_every_delay() -> None:
    made = _without("oscope", "sshfs", operation="append", delay=0.01)
    answer = _fs(made, compare.CHOICE_TITLE).answer
    assert "Fastest at every delay compared: NFS at change-block and append; " in answer


def test_an_operation_that_was_never_compared_is_named_apart() -> None:
    answer = _fs(_without("oscope", "sshfs", operation="append"), compare.CHOICE_TITLE).answer
    assert "Fastest at every delay: NFS at change-block; " in answer
    assert answer.endswith("; at append nothing was compared.")


def test_times_are_over_those_with_the_shortest_delay_that_was_measured() -> None:
    section = _fs(_without(*SYSTEMS, delay=0.0), compare.TIMES_TITLE)
    table = next(each for each in section.tables if each.title.startswith("Time with 50 ms"))
    assert table.title == "Time with 50 ms each way over that with 1 ms each way"
    assert "time / time with 1 ms each way (95 %)" in table.columns
    assert " as long as with 1 ms each way at " in section.answer


# ---- page tables


def _parents(**slopes: float) -> str:
    """Return what is said of fork whose parent returns later by so many ns a MiB, by page size."""
    maker, made = synthetic.Maker(9), synthetic.create()
    points = []
    for factors in every(how="fork", resident=(64 << 20, 1 << 30), pages=tuple(slopes)):
        time = 1e6 + slopes[str(factors["pages"])] * int(factors["resident"]) / (1 << 20)
        point = maker.point(factors, time, reps=64, blocks=8, interrupt_ns=0)
        points.append(dataclasses.replace(point, metrics={"parent_ns": point.metrics["time_ns"]}))
    (answer,) = (
        each.answer
        for each in labs.lab("syscalls").sections(Results((dataclasses.replace(made, points=tuple(points)),)))
        if each.title == "What page tables cost"
    )
    return answer


def test_the_pages_of_a_way_that_costs_nothing_are_named() -> None:
    answer = _parents(**{"4K": 900.0, "huge": 0.0})
    assert answer.startswith("fork with 4K pages holds its parent ")
    assert answer.endswith(
        " longer for each MiB resident (paired by block); none was found for fork with huge pages."
    )


def test_a_parent_that_goes_on_earlier_is_no_absent_cost() -> None:
    assert _parents(**{"4K": -500.0}) == ("With more resident memory the parent goes on earlier for fork.")


# ---- round trips


def _trips(model: Mapping[tuple[str, str], trips.Trips], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(trips, "_model", lambda _: model)
    return trips._headline(None, None)


def _fit(*numbers: float, furthest: float = 0.0) -> trips.Trips:
    values = summarise(list(numbers), range(len(numbers)), kind="difference")
    return trips.Trips(values, values, furthest, 4)


def test_most_round_trips_are_those_of_times_that_follow_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _fit(*(5 + 0.01 * each for each in range(8)))
    more, noise = _fit(*([900.0] * 8), furthest=0.5), _fit(-90, -50, -10, 10, 20, 50, 90, 120)
    model = {("append", "oscope"): found, ("list", "nfs"): more, ("unpack", "sshfs"): noise}
    answer = _trips(model, monkeypatch)
    assert answer.startswith("Of times that follow the model, oscope-fs waits for most round trips: 5.0")
    rest = {("list", "nfs"): more, ("unpack", "sshfs"): noise}
    assert _trips(rest, monkeypatch) == "No round trip was found in the times that follow the model."
    assert _trips({("list", "nfs"): more}, monkeypatch) == "No time is one of round trips alone."


# ---- entering the kernel


def _getppid(monkeypatch: pytest.MonkeyPatch, cost: float) -> Section:
    monkeypatch.setattr(synthetic, "COST_NS", {**synthetic.COST_NS, "getppid": cost})
    found = labs.lab("syscalls").sections(Results((synthetic.cost(),)))
    return next(each for each in found if each.title == "What a call costs")


def test_entering_costs_more_only_where_a_difference_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = synthetic.COST_NS["clock_gettime"]
    for cost in (outside - 5, outside):
        section = _getppid(monkeypatch, cost)
        assert "It was not found that getppid, which enters the kernel, takes more" in section.text[0]
        assert "entering costs more" not in section.text[0]
    assert "its interval reaches 0, or half a step of the clock" in section.tables[0].note
    assert "entering costs more than that" in _getppid(monkeypatch, outside + 50).text[0]


# ---- the greatest difference


def test_a_ratio_below_one_can_be_further_from_it_than_one_above() -> None:
    made = synthetic_transfer.experiment("transfer.large")
    large = max(int(point.factors["size"]) for point in made.points)

    def otherwise(point: PointSamples) -> dict[str, np.ndarray]:
        ratio = 0.4 if point.factors["size"] == large else 1.7
        return {"receiver_time_ns": point.metrics["receiver_time_ns"] * ratio}

    answer = synthetic_transfer.sections(changed(made, otherwise, content="random"))[ZEROS].answer
    assert "100 MiB: 0." in answer


def test_channels_that_are_not_distinguished_are_compared_each_at_its_best_size() -> None:
    generator = np.random.default_rng(9)

    def alike(point: PointSamples) -> dict[str, np.ndarray]:
        return {"throughput": 1000 * generator.lognormal(0, 0.5, len(point))}

    found = synthetic_ipc.sections(changed(synthetic_ipc.throughput(), alike))
    answer = found["How the configurations perform"].answer
    assert answer.endswith(" can be distinguished from it, each at its best buffer size."), answer


@pytest.mark.parametrize(("spread", "ordered"), [(0.01, True), (3.0, False)])
def test_switches_are_put_in_order_only_where_they_differ(spread: float, ordered: bool) -> None:
    generator = np.random.default_rng(8)

    def switched(point: PointSamples) -> dict[str, np.ndarray]:
        count = 1e5 / np.sqrt(int(point.factors["buffer"]))
        return {"sender_voluntary": count * generator.lognormal(0, spread, len(point))}

    answer = synthetic_ipc.sections(changed(synthetic_ipc.throughput(), switched))[SWITCHES].answer
    assert (": most by" in answer and ", fewest by" in answer) == ordered, answer
    assert ("can be distinguished from it" in answer) != ordered


# ---- making a process


def test_the_slopes_of_all_ways_are_one_family_of_tests() -> None:
    blocks = np.arange(6)
    weak = Line("vfork", "4K", (), summarise([1.0, 3.0, 2.0, 5.0, 1.0, 2.0], blocks, kind="difference"))
    none = [
        Line(
            how, "4K", (), summarise(np.roll([-2.0, 2.0, -1.0, 1.0, -3.0, 3.0], k), blocks, kind="difference")
        )
        for k, how in enumerate(("fork", "clone3", "posix_spawn", "thread"))
    ]
    (alone,) = create.tested([weak])
    together = list(create.tested([weak, *none]))
    assert create.verdict(alone) == "slower"
    assert [create.verdict(each) for each in together] == ["no cost found"] * 5
    assert (together[0].least or 0) > (alone.least or 0) > 0


def test_two_blocks_do_not_show_that_there_is_no_slope() -> None:
    section = synthetic.sections_of("syscalls")(synthetic.create(reps=16, blocks=2))["What page tables cost"]
    verdicts = {row[0]: row[7] for row in section.tables[0].rows}
    assert verdicts["vfork"] == "too few blocks (2) to find a cost"
    assert "none was found" not in section.answer
    assert "oo few blocks (2) to find a cost for " in section.answer
