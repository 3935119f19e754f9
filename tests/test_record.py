from __future__ import annotations

import dataclasses
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import synthetic
from conftest import make_experiment
from oscope.model import atomic_write
from oscope.model.errors import OscopeError, UsageError
from oscope.model.samples import Column, ExperimentResults, PointSamples, Results
from oscope.planning.plan import make_plan
from oscope.probe.catalogue import Catalogue
from oscope.runner.execution import execute
from oscope.storage import record
from oscope.storage.export import export
from oscope.storage.frames import summary_frame, to_frame
from oscope.storage.store import Store

VALIDATOR = jsonschema.Draft202012Validator(
    json.loads(resources.files("oscope").joinpath("record.schema.json").read_text())
)


SETTINGS = {
    "profile": "full",
    "place": "local",
    "reps": 1,
    "blocks": 1,
    "min_time_ns": 1,
    "precision": None,
    "budget_s": None,
    "notes": [],
}


@pytest.fixture
def results(catalogue: Catalogue, store: Store) -> Results:
    """Every kind of point there is."""
    do = ("ok", "failed_sample", "null_metric", "more_covariates", "note", "unavailable", "die_once", "die")
    experiment = make_experiment({"do": do, "size": (4096,), "file": ("/a/b",)}, reps=6, blocks=3)
    plan = make_plan([experiment], catalogue, seed=1)
    return store.results(execute(plan, store).run_id)


def strictly(text: bytes) -> Any:
    """Read JSON, refusing NaN and the infinities, which Python's reader takes."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_a_record_fits_its_schema(results: Results) -> None:
    VALIDATOR.validate(strictly(record.to_json(results)))


def test_the_schema_itself_is_sound() -> None:
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)


def test_the_record_says_what_was_measured(results: Results) -> None:
    data = strictly(record.to_json(results))
    point = data["points"][0]
    metric = point["metrics"]["time_ns"]
    assert point["factors"] == {"do": "ok", "size": 4096, "file": "/a/b"}
    assert metric["unit"] == "ns"
    assert metric["n"] == len(metric["values"]) == 6
    assert metric["median"] == pytest.approx(float(np.median(metric["values"])))
    assert metric["mean"] == pytest.approx(float(np.mean(metric["values"])))
    assert metric["std"] == pytest.approx(float(np.std(metric["values"], ddof=1)))
    assert [metric["min"], metric["max"]] == [min(metric["values"]), max(metric["values"])]
    assert {s["factors"]["do"]: s["remedy"] for s in data["skipped"]}["unavailable"] == "buy another machine"
    assert data["seed"] == 1
    assert list(data["metrics"]) == ["time_ns", "cycles"]


def test_a_value_that_is_not_there_is_null(results: Results) -> None:
    points = {p["factors"]["do"]: p for p in strictly(record.to_json(results))["points"]}
    assert points["failed_sample"]["metrics"]["time_ns"]["values"][0] is None
    assert points["failed_sample"]["metrics"]["time_ns"]["n"] == 3
    assert points["null_metric"]["metrics"]["cycles"]["n"] == 0
    assert points["null_metric"]["metrics"]["cycles"]["median"] is None


def same(one: ExperimentResults, other: ExperimentResults) -> None:
    for field in dataclasses.fields(ExperimentResults):
        if field.name != "points":
            assert getattr(one, field.name) == getattr(other, field.name), field.name
    assert len(one.points) == len(other.points)
    ordered = sorted(other.points, key=lambda p: str(sorted(p.factors.items())))
    for mine, theirs in zip(
        sorted(one.points, key=lambda p: str(sorted(p.factors.items()))), ordered, strict=True
    ):
        for field in dataclasses.fields(PointSamples):
            a, b = getattr(mine, field.name), getattr(theirs, field.name)
            if field.name in ("metrics", "covariates"):
                assert a.keys() == b.keys() or not len(mine)
                for name in a:
                    np.testing.assert_array_equal(a[name], b[name])
            elif isinstance(a, np.ndarray):
                np.testing.assert_array_equal(a, b)
                assert a.dtype == b.dtype
            else:
                assert a == b, field.name


def test_a_record_reads_back_to_the_same_results(results: Results, tmp_path: Path) -> None:
    record.write(results, tmp_path / "a.json")
    again = record.read(tmp_path / "a.json")
    same(results.experiments[0], again.experiments[0])


def test_equal_results_give_equal_records(results: Results, tmp_path: Path) -> None:
    text = record.to_json(results)
    assert record.to_json(results) == text
    (tmp_path / "a.json").write_bytes(text)
    assert record.to_json(Results(record.read(tmp_path / "a.json").experiments)) == text


def test_several_experiments_make_an_array(results: Results, tmp_path: Path) -> None:
    two = Results((results.experiments[0], results.experiments[0]))
    record.write(two, tmp_path / "two.json")
    data = strictly((tmp_path / "two.json").read_bytes())
    assert isinstance(data, list)
    assert len(record.read(tmp_path / "two.json").experiments) == 2


@given(
    hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e100, 1e100) | st.just(np.nan)),
    st.dictionaries(
        st.text(max_size=5), st.text(max_size=5) | st.booleans() | st.integers(-(2**53), 2**53), max_size=3
    ),
)
def test_any_point_makes_a_valid_record_and_comes_back(values: np.ndarray, factors: dict[str, Any]) -> None:
    count = len(values)
    point = PointSamples(
        factors=factors,
        block=np.arange(count) % 3,
        process=np.arange(count),
        boot=np.zeros(count, np.int64),
        rep=np.arange(count),
        started_ns=np.arange(count) + 10**18,
        raw=np.nan_to_num(values),
        iterations=np.ones(count, np.int64),
        correction=np.ones(count),
        metrics={"x": values},
        covariates={"y": values[::-1]},
    )
    results = ExperimentResults(
        run_id="id",
        experiment="e",
        workload="w",
        workload_version=1,
        started="2026-01-01T00:00:00+00:00",
        seed=1,
        points=(point,),
        metrics={"x": Column("x", "ns", "", "less")},
        covariates={"y": Column("y", "")},
        environment={},
        settings=SETTINGS,
        factor_types={"size": "bytes"},
    )
    data = strictly(record.to_json(Results((results,))))
    VALIDATOR.validate(data)
    same(results, record.from_record(data))
    assert record.from_record(data).factor_types == results.factor_types


def test_a_record_is_written_whole_or_not_at_all(results: Results, tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_text("former")
    with pytest.raises(OscopeError, match=r"missing/a\.json: the folder .* does not exist"):
        record.write(results, tmp_path / "missing/a.json")
    with pytest.raises(TypeError):
        atomic_write.write_bytes(target, "no bytes")  # type: ignore[arg-type]
    assert target.read_text() == "former"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    atomic_write.write_bytes(target, b"new")
    assert target.read_bytes() == b"new"
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_dash_is_standard_output(results: Results, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    record.write(results, "-")
    VALIDATOR.validate(strictly(capfdbinary.readouterr().out))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", "is not JSON"),
        ("3", "not an oscope.record/1 but 'int'"),
        ("{}", "not an oscope.record/1 but None"),
        ('{"schema": "oscope.record/2"}', "oscope.record/2"),
        ('{"schema": "oscope.record/1"}', "malformed"),
    ],
)
def test_what_is_no_record_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UsageError) as error:
        record.read(tmp_path / "x.json")
    assert message in str(error.value)
    assert "x.json" in str(error.value)
    with pytest.raises(UsageError):
        record.read(tmp_path / "missing.json")


def test_a_record_with_columns_of_unequal_length_is_malformed(results: Results) -> None:
    data = strictly(record.to_json(results))
    data["points"][0]["samples"]["raw"].pop()
    with pytest.raises(UsageError, match="raw has not as many"):
        record.from_record(data)


def test_times_that_their_raw_readings_do_not_give_are_refused() -> None:
    made = synthetic.cost()
    raw = made.points[0].raw
    times = (raw - made.points[0].correction) / made.points[0].iterations
    point = dataclasses.replace(made.points[0], metrics={"time_ns": times * 1e9 / 2.4e9})
    clock = {"kind": "tsc", "hz": 2.4e9}
    kept = dataclasses.replace(
        made,
        points=(point,),
        metrics={"time_ns": made.metrics["time_ns"]},
        environment={**made.environment, "clock": clock},
    )
    data = strictly(record.to_json(Results((kept,))))
    assert record.from_record(data).points[0].metrics["time_ns"].tolist() == point.metrics["time_ns"].tolist()
    data["points"][0]["metrics"]["time_ns"]["values"][2] /= 2
    with pytest.raises(
        UsageError, match=r"was changed after it was measured.*time_ns of sample 3 is"
    ) as refused:
        record.from_record(data)
    assert "\n" not in str(refused.value)


def test_the_frame_has_a_row_per_sample(results: Results) -> None:
    frame = to_frame(results)
    points = results.experiments[0].points
    assert len(frame) == sum(len(p) for p in points)
    ok = frame[frame["do"] == "ok"]
    assert ok["time_ns"].tolist() == points[0].metrics["time_ns"].tolist()
    assert isinstance(frame["started"].dtype, pd.DatetimeTZDtype)
    assert frame["failed"].notna().sum() == 3
    assert frame.loc[frame["failed"].notna(), "time_ns"].isna().all()


def test_a_factor_that_has_a_columns_name_keeps_its_own(results: Results) -> None:
    experiment = results.experiments[0]
    points = tuple(dataclasses.replace(p, factors={"block": 4096, "time_ns": 1}) for p in experiment.points)
    frame = to_frame(Results((dataclasses.replace(experiment, points=points),)))
    assert set(frame["factor_block"]) == {4096}
    assert set(frame["factor_time_ns"]) == {1}
    assert set(frame["block"]) == {0, 1, 2}


def test_a_metric_that_has_a_columns_name_does_not_take_its_place(results: Results) -> None:
    """A user's own workload may have metrics of any name."""
    [experiment] = results.experiments
    points = tuple(
        dataclasses.replace(p, metrics={**p.metrics, "raw": np.full(len(p), -1.0)}) for p in experiment.points
    )
    metrics = {**experiment.metrics, "raw": experiment.metrics["time_ns"]}
    frame = to_frame(Results((dataclasses.replace(experiment, points=points, metrics=metrics),)))
    assert set(frame["metric_raw"]) == {-1.0}
    np.testing.assert_array_equal(frame["raw"], np.concatenate([p.raw for p in points]))


def test_the_summary_has_a_row_per_point_and_metric(results: Results) -> None:
    summary = summary_frame(results)
    assert len(summary) == 2 * len(results.experiments[0].points)
    row = summary[(summary["do"] == "ok") & (summary["metric"] == "time_ns")].iloc[0]
    assert row["ci95_low"] <= row["median"] <= row["ci95_high"]
    dead = summary[(summary["do"] == "unavailable") & (summary["metric"] == "time_ns")].iloc[0]
    assert dead["n"] == 0
    assert dead["skipped"] == "no counter here"


def test_exports_hold_every_sample(results: Results, tmp_path: Path) -> None:
    for form in ("csv", "parquet", "json"):
        export(results, form, tmp_path / f"a.{form}")
    frame = to_frame(results)
    csv = pd.read_csv(tmp_path / "a.csv")
    assert csv["time_ns"].tolist() == pytest.approx(frame["time_ns"].tolist(), nan_ok=True, rel=0)
    assert csv["raw"].tolist() == pytest.approx(frame["raw"].tolist(), nan_ok=True, rel=0)
    parquet = pd.read_parquet(tmp_path / "a.parquet")
    assert list(parquet.columns) == list(frame.columns)
    assert parquet["time_ns"].equals(frame["time_ns"])
    VALIDATOR.validate(strictly((tmp_path / "a.json").read_bytes()))
    with pytest.raises(UsageError, match="csv, parquet, json"):
        export(results, "xls", tmp_path / "a.xls")


def test_levels_of_different_types_fit_one_column(results: Results, tmp_path: Path) -> None:
    experiment = results.experiments[0]
    levels = (4096, "big", True, 0.5)
    points = tuple(
        dataclasses.replace(p, factors={"x": level})
        for p, level in zip(experiment.points, levels, strict=False)
    )
    export(Results((dataclasses.replace(experiment, points=points),)), "parquet", tmp_path / "a.parquet")
    assert set(pd.read_parquet(tmp_path / "a.parquet")["x"]) == {"4096", "big", "True", "0.5"}
