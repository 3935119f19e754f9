"""Interleaved sides exchange their processes: no side differs for what its process has."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import make_experiment
from oscope import labs
from oscope.model.samples import ExperimentResults
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.probe import catalogue as catalogues
from oscope.probe.catalogue import Catalogue
from oscope.runner.interleaved import execute_interleaved
from oscope.runner.process_chain import ProcessChain
from oscope.statistics import compare_results
from oscope.storage.store import Store

BLOCKS = 16


class Seen:
    """Which process measured for which side, and what it executed, each time that a fresh one was ready."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pids: dict[ProcessChain, list[int]] = defaultdict(list)
        self.programs: dict[ProcessChain, set[Path]] = defaultdict(set)
        finish = ProcessChain.finish_renewal

        def finish_and_look(runner: ProcessChain) -> object:
            renewing, error = runner._renewing, finish(runner)
            if renewing and error is None and runner._probe is not None:
                self.pids[runner].append(runner._probe.pid)
                self.programs[runner].add(Path(f"/proc/{runner._probe.pid}/exe").readlink())
            return error

        monkeypatch.setattr(ProcessChain, "finish_renewal", finish_and_look)


def planned() -> Plan:
    plan = make_plan(
        [labs.experiment("syscall.cost")],
        catalogues.load(),
        profile="quick",
        settings={"call": ["getppid"], "style": ["loop"]},
        amount=Amount(reps=3 * BLOCKS),
        seed=7,
    )
    (experiment,) = plan.experiments
    return replace(plan, experiments=(replace(experiment, points=experiment.points[:1], blocks=BLOCKS),))


def measured(store: Store, builds: Sequence[Path], sides: int) -> list[ExperimentResults]:
    outcomes = execute_interleaved([planned()] * sides, store, builds=builds)
    assert all((each.status, each.failures) == ("done", ()) for each in outcomes)
    return [store.results(each.run_id).experiments[0] for each in outcomes]


@pytest.mark.alone
def test_each_process_measures_for_each_side(
    probe: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch)
    results = measured(store, [probe] * 3, 3)
    assert all(len(each.points[0]) >= 3 * BLOCKS for each in results)
    assert all(len(np.unique(each.points[0].process)) == BLOCKS for each in results)
    assert not [note for each in results for note in each.settings["notes"] if "from scratch" in note]
    processes = {pid for pids in seen.pids.values() for pid in pids}
    assert len(processes) == 3
    assert [len(pids) for pids in seen.pids.values()] == [BLOCKS - 1] * 3
    assert all(set(pids) == processes for pids in seen.pids.values())
    # No two sides have one process in the same block, and the order is the seed's.
    assert all(len(set(pids)) == 3 for pids in zip(*seen.pids.values(), strict=True))


@pytest.mark.alone
def test_a_process_executes_the_build_of_the_side_that_it_measures_for(
    probe: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other-probe"
    shutil.copy(probe, other)
    seen = Seen(monkeypatch)
    a, b = measured(store, [probe, other], 2)
    assert [len(set(pids)) for pids in seen.pids.values()] == [2, 2]
    assert sorted(seen.programs.values(), key=str) == sorted([{probe.resolve()}, {other.resolve()}], key=str)
    assert compare_results(a, b).rows[0].method == "paired by block"


def test_builds_that_cannot_execute_each_other_keep_their_processes(
    catalogue: Catalogue, fake_probe: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROBE_RENEWS", "yes")
    other = tmp_path / "other-probe"
    other.write_text(f'#!/bin/sh\nexec {fake_probe} "$@"\n')
    other.chmod(0o755)
    seen = Seen(monkeypatch)
    plan = make_plan([make_experiment({"do": ("ok",)}, reps=6, blocks=3)], catalogue, seed=1)
    outcomes = execute_interleaved([plan, plan], store, builds=[fake_probe, other])
    assert [(each.status, each.samples) for each in outcomes] == [("done", 6)] * 2
    assert [len(set(pids)) for pids in seen.pids.values()] == [1, 1]
