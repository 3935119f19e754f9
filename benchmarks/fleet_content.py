"""All rows of a fleet's run, without the keys that each store gives by itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa

from oscope.storage import schema
from oscope.storage.store import Store

Rows = dict[str, set[Any]]


def content(store: Store, run_id: str) -> Rows:
    """Return the rows of each table."""
    point, sample, event = schema.point, schema.sample, schema.event
    names = [column for column in sample.c if column.name != "point_id"]
    samples = (
        sa.select(point.c.experiment, point.c.number, *names)
        .join_from(sample, point, sample.c.point_id == point.c.id)
        .where(point.c.run_id == run_id)
    )
    events = (
        sa.select(event.c.at_ns, event.c.kind, event.c.data, point.c.experiment, point.c.number)
        .join_from(event, point, event.c.point_id == point.c.id, isouter=True)
        .where(event.c.run_id == run_id)
    )
    runs = sa.select(schema.run).where(schema.run.c.id == run_id)
    parts = {"runs": runs, "samples": samples, "events": events}
    with store.reading() as connection:
        return {name: {tuple(row) for row in connection.execute(each)} for name, each in parts.items()}


def counted_samples(store: Store, run_id: str) -> tuple[int, int, int]:
    """Return how many samples of a run's one point are wanted, are there, and how many are there twice.

    Samples that were taken again after interference come on top of those of the plan.
    """
    (experiment,) = store.plan(run_id).experiments
    (found,) = store.results(run_id).experiments
    (point,) = found.points
    again = len(point.again)
    keys = Counter(zip(point.block.tolist(), point.rep.tolist(), strict=True))
    return experiment.reps or 0, len(point) - again, sum(count - 1 for count in keys.values())
