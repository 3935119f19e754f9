"""Delivers runs from one store to another: whatever of them the other has not, by key, in transactions.

Rows are only added, so that what is missing follows from keys: runs by id, points by experiment and number,
samples by point, block and repetition, events by their place in the run's sequence. It can therefore be
repeated after any failure, also where it is not known whether the last commit was carried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from oscope.model.errors import UsageError
from oscope.storage import bulk, schema
from oscope.storage.store import Store

_BATCH = 5000
"""Samples that are held in memory at a time."""


def counts(store: Store, run_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return how many samples and events a store has of each run."""
    point, sample, event = schema.point, schema.sample, schema.event
    samples = (
        sa.select(point.c.run_id, sa.func.count())
        .join_from(point, sample)
        .where(point.c.run_id.in_(run_ids))
        .group_by(point.c.run_id)
    )
    events = (
        sa.select(event.c.run_id, sa.func.count()).where(event.c.run_id.in_(run_ids)).group_by(event.c.run_id)
    )
    with store.reading() as connection:
        own: dict[str, int] = dict(connection.execute(samples).all())
        return {run_id: (own.get(run_id, 0), count) for run_id, count in connection.execute(events)}


def deliver(source: Store, target: Store, run_id: str) -> int:
    """Add what `target` lacks of a run, all of it or nothing; return the number of samples.

    Raises StoreError where either store fails, UsageError where the run went on in `target` by itself.
    """
    with source.reading() as here, target.writing() as there:
        return _Delivery(source, here, there, run_id).deliver()


def copy_calibrations(source: Store, target: Store) -> None:
    """Give a new store the calibrations of another, by which runs are judged; without their samples."""
    run, event = schema.run, schema.event
    with source.reading() as here, target.writing() as there:
        query = sa.select(event).where(event.c.kind == "calibration").order_by(event.c.id)
        found = [dict(row) for row in here.execute(query).mappings()]
        ids = {row["run_id"] for row in found}
        runs = [dict(row) for row in here.execute(sa.select(run).where(run.c.id.in_(ids))).mappings()]
        statuses = sa.select(event).where(event.c.kind == "status", event.c.run_id.in_(ids))
        found += [dict(row) for row in here.execute(statuses.order_by(event.c.id)).mappings()]
        if runs:
            there.execute(sa.insert(run), runs)
            there.execute(sa.insert(event), [_without_id(row) | {"point_id": None} for row in found])


class _Delivery:
    """One transaction, of one run."""

    def __init__(self, source: Store, here: sa.Connection, there: sa.Connection, run_id: str) -> None:
        self._source = source
        self._here = here
        self._there = there
        self._run_id = run_id

    def deliver(self) -> int:
        self._add_run()
        points = self._add_points()
        delivered = 0
        for rows in self._missing_samples(points):
            bulk.insert_rows(self._there, rows)
            delivered += len(rows)
        self._add_events(points)
        return delivered

    def _read(self, query: sa.Select[Any]) -> Sequence[Mapping[Any, Any]]:
        """Read from the source; an error is the source's, not the target's."""
        with self._source.guard():
            return self._here.execute(query).mappings().all()

    def _add_run(self) -> None:
        run = schema.run
        # Locked: of two programs that deliver the same run the second waits.
        query = sa.select(run.c.id).where(run.c.id == self._run_id).with_for_update()
        if self._there.scalar(query) is None:
            (row,) = self._read(sa.select(run).where(run.c.id == self._run_id))
            self._there.execute(sa.insert(run), dict(row))

    def _add_points(self) -> dict[int, int]:
        """Return the key in the target of each point, by its key in the source."""
        point = schema.point
        query = sa.select(point).where(point.c.run_id == self._run_id).order_by(point.c.id)
        known = sa.select(point.c.experiment, point.c.number, point.c.id).where(
            point.c.run_id == self._run_id
        )
        own = self._read(query)
        there = {(name, number): key for name, number, key in self._there.execute(known)}
        missing = [_without_id(row) for row in own if (row["experiment"], row["number"]) not in there]
        if missing:
            self._there.execute(sa.insert(point), missing)
            there = {(name, number): key for name, number, key in self._there.execute(known)}
        return {row["id"]: there[row["experiment"], row["number"]] for row in own}

    def _missing_samples(self, points: Mapping[int, int]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield rows of `bulk.SAMPLE`, as the target keys their points."""
        waiting: list[tuple[Any, ...]] = []
        for key, blocks in self._incomplete(points).items():
            present = self._present(points[key], [block for block, found in blocks.items() if found])
            with self._source.guard():
                # The rows of a driver, without an object for each.
                rows = self._here.execute(_samples_of(key, list(blocks))).cursor.fetchall()
            for row in rows:
                if row[1:3] not in present:
                    waiting.append((points[key], *row[1:]))
            if len(waiting) >= _BATCH:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def _incomplete(self, points: Mapping[int, int]) -> dict[int, dict[int, int]]:
        """Return the blocks of each point that the target has not all samples of, with how many it has."""
        key = schema.sample.c.point_id
        own = self._read(_counts_of_blocks(key.in_(list(points))))
        of_target = {
            (row.point_id, row.block): row.samples
            for row in self._there.execute(_counts_of_blocks(key.in_(list(points.values())))).all()
        }
        incomplete: dict[int, dict[int, int]] = {}
        for row in own:
            found = of_target.get((points[row["point_id"]], row["block"]), 0)
            if found != row["samples"]:
                incomplete.setdefault(row["point_id"], {})[row["block"]] = found
        return incomplete

    def _present(self, key: int, blocks: Sequence[int]) -> set[tuple[int, int]]:
        """Return which samples of these blocks the target has, by block and repetition."""
        if not blocks:
            return set()
        sample = schema.sample
        query = sa.select(sample.c.block, sample.c.rep).where(
            sample.c.point_id == key, sample.c.block.in_(blocks)
        )
        return {(block, rep) for block, rep in self._there.execute(query)}

    def _add_events(self, points: Mapping[int, int]) -> None:
        event = schema.event
        own = self._read(sa.select(event).where(event.c.run_id == self._run_id).order_by(event.c.id))
        query = sa.select(event.c.at_ns, event.c.kind).where(event.c.run_id == self._run_id)
        there = self._there.execute(query.order_by(event.c.id)).all()
        if [(row["at_ns"], row["kind"]) for row in own[: len(there)]] != [tuple(row) for row in there]:
            raise UsageError(
                f"the run {self._run_id} went on in the other store by itself: the two cannot be joined",
                remedy="was it resumed elsewhere? Nothing of it was delivered from here",
            )
        rows = [
            _without_id(row) | {"point_id": None if row["point_id"] is None else points[row["point_id"]]}
            for row in own[len(there) :]
        ]
        if rows:
            self._there.execute(sa.insert(event), rows)


def _samples_of(key: int, blocks: Sequence[int]) -> sa.Select[Any]:
    sample = schema.sample
    columns = [sample.c[name] for name in bulk.SAMPLE]
    return sa.select(*columns).where(sample.c.point_id == key, sample.c.block.in_(blocks))


def _counts_of_blocks(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    sample = schema.sample
    return (
        sa.select(sample.c.point_id, sample.c.block, sa.func.count().label("samples"))
        .where(condition)
        .group_by(sample.c.point_id, sample.c.block)
    )


def _without_id(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row that gets a key of its own where it is added."""
    return {name: value for name, value in row.items() if name != "id"}
