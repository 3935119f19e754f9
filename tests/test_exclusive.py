"""A run is measured by one program at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from oscope.model.errors import BusyError
from oscope.planning.plan import Plan
from oscope.runner.fleet.engine import Engine
from oscope.runner.fleet.fleet_measurement import measure_fleet
from oscope.storage import exclusive, retention
from oscope.storage.fleets import FLEET
from oscope.storage.store import Store, StoredEvent


def test_what_one_holds_another_does_not_get_until_it_ends(place: str) -> None:
    with Store.open(place) as store, Store.open(place) as other:
        with exclusive.hold(store, "a"):
            with pytest.raises(BusyError, match="a is being measured by another oscope"):
                exclusive.hold(other, "a").__enter__()
            with exclusive.hold(other, "b"):
                pass
        with exclusive.hold(other, "a"):
            pass


def test_runs_of_two_stores_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    with (
        Store.open(tmp_path / "a.db") as store,
        Store.open(tmp_path / "b.db") as other,
        exclusive.hold(store, "a"),
        exclusive.hold(other, "a"),
    ):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db"]


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///file:x.db?uri=true"])
def test_a_store_whose_name_is_no_path_is_held_too(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(url) as store, exclusive.hold(store, "a"):
        if "uri" in url:
            with Store.open("x.db") as other, pytest.raises(BusyError):
                exclusive.hold(other, "a").__enter__()


def test_a_fleet_is_measured_once_at_a_time(store_path: Path, plan: Plan) -> None:
    member = {"fleet": "fleet-1", "host": {"name": "n1", "address": "n1"}, "rounds": 1}
    with Store.open(store_path) as store:
        run_id = store.create_run(plan, [StoredEvent(FLEET, member)])
        with exclusive.hold(store, "fleet-1"), pytest.raises(BusyError, match="fleet-1 is being measured"):
            measure_fleet("fleet-1", str(store_path), Engine(1, 0), lambda _: None)
        assert [run.status for run in store.runs() if run.id == run_id] == ["unfinished"]


def test_the_file_keeps_its_size_while_a_run_or_a_fleet_is_measured(store_path: Path, plan: Plan) -> None:
    member = {"fleet": "fleet-1", "host": {"name": "n1", "address": "n1"}, "rounds": 1}
    with Store.open(store_path) as store, Store.open(store_path) as other:
        # A fleet's run is held in its turns alone.
        run_id = store.create_run(plan, [StoredEvent(FLEET, member)])
        for name in (run_id, "fleet-1"):
            with exclusive.hold(store, name):
                assert not retention.give_back(other)
        assert retention.give_back(other)
