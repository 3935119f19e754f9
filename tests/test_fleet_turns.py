"""In which order the hosts of a fleet take their turns, and what becomes of those that fail."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from oscope.model.errors import StoreError, UsageError
from oscope.runner.fleet import engine
from oscope.runner.fleet.engine import Engine, HostOutcome
from oscope.runner.fleet.turn_queue import TurnQueue, check_labels
from oscope.storage.fleets import FleetEntry, FleetRun
from oscope.storage.store import Store


def entry(racks: list[str | None], rounds: int = 3) -> FleetEntry:
    runs = tuple(
        FleetRun(f"run{number}", f"n{number}", 0, {} if rack is None else {"rack": rack})
        for number, rack in enumerate(racks)
    )
    return FleetEntry("fleet-1", rounds, runs)


def carried_out(queue: TurnQueue, rng: np.random.Generator, parallel: int) -> list[list[tuple[str, int]]]:
    """Take all turns, which end in random order; return what ran at each moment."""
    running: dict[str, tuple[FleetRun, int]] = {}
    seen = []
    while queue or running:
        while len(running) < parallel and (found := queue.next(run for run, _ in running.values())):
            run, turn = found
            running[run.run_id] = (run, turn.number)
        seen.append([(run.host, number) for run, number in running.values()])
        run, number = running.pop(str(rng.choice(list(running))))
        queue.add(run, number + 1)
    return seen


def test_hosts_of_a_rack_never_run_at_the_same_time_and_all_are_measured() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        racks = [str(rng.integers(4)) if rng.random() < 0.8 else None for _ in range(12)]
        fleet, parallel = entry(racks), int(rng.integers(1, 13))
        rack = {run.host: run.labels.get("rack") for run in fleet.runs}
        seen = carried_out(TurnQueue(fleet, "store", 1, "rack"), rng, parallel)
        for moment in seen:
            shared = Counter(rack[host] for host, _ in moment if rack[host] is not None)
            assert max(shared.values(), default=1) == 1
            assert len(moment) <= parallel
        assert {turn for moment in seen for turn in moment} == {
            (run.host, number) for run in fleet.runs for number in (1, 2, 3)
        }
        # Every rack is at work at once where nothing else limits that.
        wide = carried_out(TurnQueue(fleet, "store", 1, "rack"), rng, 12)
        assert len(wide[0]) == len(set(racks) - {None}) + racks.count(None)


def test_without_racks_the_order_of_a_round_depends_on_the_seed_alone() -> None:
    def order(seed: int, apart: str | None = None) -> list[tuple[str, int]]:
        queue, rng = TurnQueue(entry(["r"] * 8), "store", seed, apart), np.random.default_rng(1)
        return [moment[0] for moment in carried_out(queue, rng, 1)]

    assert order(1) == order(1) == order(1, "rack")
    assert order(1) != order(2)
    # Rounds follow each other, each in an order of its own.
    assert [number for _, number in order(1)] == [1] * 8 + [2] * 8 + [3] * 8
    assert order(1)[:8] != [(host, 1) for host, _ in order(1)[8:16]]


def test_a_turn_that_failed_comes_last_in_its_round() -> None:
    fleet = entry([None] * 3, rounds=1)
    queue = TurnQueue(fleet, "store", 1)
    first, _ = queue.next() or pytest.fail("no turn")
    queue.add(first, 1, tries=1)
    assert [(queue.next() or pytest.fail("no turn"))[0] for _ in range(2)] == [
        run for number in (0, 1, 2) if (run := fleet.runs[number]) != first
    ] or not queue.next()
    assert queue.runs() == [first]


def test_racks_that_no_host_has_are_refused() -> None:
    check_labels([{}, {"rack": "r1"}], "rack")
    with pytest.raises(UsageError, match="no host has the label rack"):
        check_labels([{"row": "1"}, {}], "rack")


def test_racks_limit_how_many_are_measured_unless_a_number_does() -> None:
    assert Engine.of(None, 2, None, rack_aware=False).parallel == 4
    assert Engine.of(None, 2, None, rack_aware=True).parallel > 100
    assert Engine.of(3, 2, None, rack_aware=True).parallel == 3


class FullStore(Store):
    """A store on a disk that is full."""

    def __init__(self) -> None:
        """Open nothing."""

    def add(self, *_: object) -> None:
        raise StoreError("the store is on a full disk")


@pytest.mark.parametrize(("before", "after"), [(None, "the store is on a full disk"), ("cut", "cut")])
def test_a_store_that_fails_at_the_end_is_a_host_s_error(before: str | None, after: str) -> None:
    host = HostOutcome("n1", "run1", error=before)
    engine._store_end(host, FullStore())
    assert host.error == after
