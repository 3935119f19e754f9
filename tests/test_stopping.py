"""When enough is measured: the precision rule sees the samples that the store has."""

from __future__ import annotations

import numpy as np

from conftest import make_experiment
from oscope.planning.plan import Amount, make_plan
from oscope.planning.precision import look
from oscope.probe.catalogue import Catalogue
from oscope.probe.wire import Sample
from oscope.runner.run_events import ProcessBegan
from oscope.runner.stopping import PrecisionRule
from oscope.storage.store import Store
from run_writer import RunWriter

ENVIRONMENT = {"boot_id": "b", "machine": "m", "clock": {"kind": "tsc", "hz": 2.6e9, "resolution": 26}}
BLOCKS = 14


def samples(random: np.random.Generator, block: int) -> list[Sample]:
    """Return some samples; a counter appears after some blocks, and one of a block has failed."""
    counter = {"counter": block} if block > 3 else {}
    return [
        Sample(
            request=1,
            rep=rep,
            started_ns=1_700_000_000_000_000_000 + rep,
            raw=None if rep == 3 else 2600 + block,
            iterations=10,
            correction=38.25,
            metrics={} if rep == 3 else {"time_ns": float(random.normal(100, 3)), "cycles": 255.0},
            covariates={"run_delay_ns": rep, "steal_ticks": None, **counter},
            failed="lost" if rep == 3 else None,
        )
        for rep in range(5)
    ]


def test_a_look_at_the_events_is_a_look_at_the_store_also_in_a_resumed_run(
    catalogue: Catalogue, store: Store
) -> None:
    plan = make_plan([make_experiment({"size": (1, 2)})], catalogue, seed=1, amount=Amount(precision=0.02))
    writer = RunWriter(store, plan)
    writer.add_event("environment", ENVIRONMENT)
    writer.append(ProcessBegan(ENVIRONMENT))
    points = writer.points["fake.experiment"]
    random = np.random.default_rng(1)

    def rule() -> PrecisionRule:
        return PrecisionRule(plan, points, store.results(writer.run_id).experiments[0])

    rules = [rule()]
    widths = set()
    for block in range(BLOCKS):
        for point in points:
            came = samples(random, block)
            # One that was interrupted within a block gets the rest of it later.
            for part in (came[:2], came[2:]):
                event = writer.add_samples(point, block, part)
                for each in rules:
                    each.see(event)
        stored = store.results(writer.run_id).experiments[0]
        for each in rules:
            found = each.look({0, 1}, block)
            assert found == {number: look(stored, number, block) for number in (0, 1)}
        widths.add(found[0].half_width)
        if block == BLOCKS // 2:
            rules.append(rule())
    assert len(widths - {None}) > BLOCKS // 2
