"""The tables of the store. Rows are only ever added, never changed, so that a record can be trusted.

What happens to a run after it was made is an *event*: its `kind` and JSON `data` are

- `status`: text; the latest one counts (`unfinished`, `interrupted`, `failed`, `done`);
- `environment`, `environment_after`, `laboratory`: objects, at each start and end;
- `boot`: `{"experiment", "boot_id"}`, for each guest booted; an experiment's first has `environment` too;
- `program`: `{"experiment", "environment"}`, for each experiment measured by a program of the user's own: its
  clock and what it is (`name`, `sha256`, `version`, `commit`), in the place of the probe's;
- `interleaved`: ids of the runs, itself among them, whose blocks took turns;
- `duet`: `{"cpus", "experiments"}`, names of those that the two runs measured at the same time on these CPUs;
- `injected`: the injected interference: `since_ns` (CLOCK_REALTIME, when a drift began), `injector`
  (where each cause acted, or null) and the `phases` of each (see `oscope.runner.injection`);
- `calibration`: the rates of error that `oscope calibrate` found, with the `machine` that it was (see
  `oscope.analysis.calibration.result.in_brief`); `calibrated`: those of the machine's newest one before the
  run, or null;
- `tuned`: the settings that the run held, each with `name`, `path`, `before`, `now` or why it was `left`;
- `fleet`: `{"fleet", "host", "rounds"}`, of a run that is one host's part of a fleet's: the fleet's id, the
  host (see `oscope.model.host`) and in how many rounds it is measured; `fleet_round`: the number of a round,
  from 1, that is measured whole;
- `note`: text (of a point, or of the run); `death`, `failure`: text, of a point;
- `skipped`: `{"reason", "remedy"}`, of a point; `iterations`: the calibrated loop count, of a point;
- `again`: `{"block", "first_rep", "count", "disturbed"}`, of a point: so many samples more are taken of this
  block, from that repetition on, because of affected ones (`disturbed` counts them by the covariate that
  shows it, see `oscope.planning.interference`);
- `refused`: `{"reason", "remedy", "final"}`: the probe refused what the run asks for, which ended it; final
  unless a file or folder was to blame, which may be another one when the run is resumed;
- `columns`: names that the point's values have beyond those it began with;
- `inspection`: `{"inspection", "title", "question", "started"}` and `result` or, as for a point, `skipped`;
- `trace`: what a tracer found in a turn of a point (see `oscope.trace.reading`), with its block, the number
  of repetitions (`reps`) and what the tracer lost (`losses`).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, MetaData, String, Table, Text

VERSION = 1
"""Layout of the tables below. `oscope.storage.migrations` has what changed since, for each database."""

metadata = MetaData()

# SQLite numbers rows by itself only where the key is exactly INTEGER, PostgreSQL needs the wide type.
_Identity = BigInteger().with_variant(Integer, "sqlite")

layout = Table("oscope_schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False))

run = Table(
    "run",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("started_ns", BigInteger, nullable=False, index=True),
    Column("plan", Text, nullable=False),
)

point = Table(
    "point",
    metadata,
    Column("id", _Identity, primary_key=True),
    Column("run_id", ForeignKey("run.id"), nullable=False),
    Column("experiment", String(200), nullable=False),
    Column("number", Integer, nullable=False),
    # JSON array: the names of the sample's values, metrics first, then covariates.
    Column("columns", Text, nullable=False),
    Index("point_of_run", "run_id", "experiment", "number", unique=True),
)

sample = Table(
    "sample",
    metadata,
    Column("point_id", _Identity, ForeignKey("point.id"), primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("rep", Integer, primary_key=True),
    Column("process", Integer, nullable=False),
    Column("boot", Integer, nullable=False),
    Column("started_ns", BigInteger, nullable=False),
    Column("raw", BigInteger),
    Column("iterations", BigInteger, nullable=False),
    Column("correction", Double, nullable=False),
    Column("failed", Text),
    Column("values", Text, nullable=False),
    # The key is what samples are read by; without a second key SQLite keeps a point's samples side by side.
    sqlite_with_rowid=False,
)

event = Table(
    "event",
    metadata,
    Column("id", _Identity, primary_key=True),
    Column("run_id", ForeignKey("run.id"), nullable=False),
    Column("point_id", _Identity, ForeignKey("point.id")),
    Column("at_ns", BigInteger, nullable=False),
    Column("kind", String(20), nullable=False),
    # JSON: what it is depends on the kind (see above).
    Column("data", Text, nullable=False),
    Index("event_of_run", "run_id", "id"),
)
