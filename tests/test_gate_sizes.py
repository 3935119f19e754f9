"""The gate where the baseline's programs are no larger than their launcher, and have no resident set."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oscope
from cli_driver import CommandLine
from invented_runs import run, write
from oscope.analysis.gate import Gate, judge
from oscope.model.errors import UsageError
from oscope.model.samples import Column, ExperimentResults, Results

MIB = float(1 << 20)
NONE = float("nan")
SIZE = "max_rss_bytes"


def sized(size: float, number: int, *, blocks: int = 10, lacking: int = 0) -> ExperimentResults:
    """Return a run whose samples have this size; `lacking` of them have none."""
    made = run({"read": 100.0}, number)
    (point,) = made.points
    point = point.only(point.block < blocks)
    sizes = np.full(len(point), size)
    sizes[:lacking] = NONE
    metrics = {**point.metrics, "cpu_ns": point.metrics["time_ns"] / 2, SIZE: sizes}
    columns = {"cpu_ns": Column("cpu_ns", "ns", better="less"), SIZE: Column(SIZE, "B", better="less")}
    return replace(
        made,
        workload="command.run",
        points=(replace(point, metrics=metrics),),
        metrics={**made.metrics, **columns},
    )


EARLIER = tuple(sized(NONE, number) for number in range(20, 32))
"""Runs that show how much unchanged ones differ."""


def judged(a: ExperimentResults, b: ExperimentResults, *metrics: str) -> Gate:
    return judge(Results((a,)), Results((b,)), 0.03, metrics=metrics, earlier=lambda *_: EARLIER)


@pytest.mark.parametrize("metrics", [(), (SIZE,)])
def test_a_size_above_any_launcher_is_proven_to_be_worse(metrics: tuple[str, ...]) -> None:
    gate = judged(sized(NONE, 0), sized(500 * MIB, 1), *metrics)
    assert [each.row.metric for each in gate.regressed] == [SIZE]
    text = "syscall.cost: max_rss_bytes: A is no larger than its launcher (about 3 MiB), B is 500 MiB"
    assert text in gate.caveats
    assert {each.row.metric for each in gate.rows} >= {SIZE, *metrics}
    assert len(gate.rows) > 1 or metrics


def test_a_baseline_with_some_sizes_has_none_and_these_raise_the_bound() -> None:
    assert judged(sized(3 * MIB, 0, lacking=20), sized(500 * MIB, 1), SIZE).regressed
    gate = judged(sized(499 * MIB, 0, lacking=20), sized(500 * MIB, 1), SIZE)
    assert (gate.regressed, len(gate.blind)) == ((), 1)


@pytest.mark.parametrize(("size", "blocks"), [(3.3 * MIB, 10), (500 * MIB, 2)])
def test_near_the_bound_and_with_few_blocks_the_gate_cannot_tell(size: float, blocks: int) -> None:
    gate = judged(sized(NONE, 0, blocks=blocks), sized(size, 1, blocks=blocks))
    assert SIZE not in {each.row.metric for each in gate.regressed}
    assert SIZE in {each.row.metric for each in gate.blind}


@pytest.mark.parametrize("metrics", [(), (SIZE,)])
def test_a_size_that_falls_below_the_launcher_is_an_improvement(metrics: tuple[str, ...]) -> None:
    gate = judged(sized(500 * MIB, 0), sized(NONE, 1), *metrics)
    assert (gate.regressed, gate.blind, gate.missing) == ((), (), ())
    assert [each.row.metric for each in gate.rows if each.verdict == "improved"] == [SIZE]
    text = "syscall.cost: max_rss_bytes: A is 500 MiB, B is no larger than its launcher (about 3 MiB)"
    assert text in gate.caveats


def test_where_nothing_is_known_to_be_worse_there_is_no_row() -> None:
    for size in (3.3 * MIB, NONE):
        gate = judged(sized(size, 0), sized(NONE, 1))
        assert SIZE not in {each.row.metric for each in gate.rows}
        assert (gate.regressed, gate.blind, gate.missing) == ((), (), ())
        with pytest.raises(UsageError, match="nothing to compare"):
            judged(sized(size, 0), sized(NONE, 1), SIZE)


LARGER = "worse by more than 3 %: syscall.cost read max_rss_bytes"
NEAR = "cannot tell whether anything is worse by more than 3 %: syscall.cost read max_rss_bytes"


@pytest.mark.parametrize(
    ("size", "options", "code", "reported"),
    [
        (500 * MIB, "", 1, LARGER),
        (500 * MIB, f"--metric {SIZE}", 1, LARGER),
        (3.3 * MIB, "--max-regression 10%", 0, "judge other metrics with --metric"),
        (3.3 * MIB, "--strict", 1, NEAR),
    ],
)
def test_the_command_fails(size: float, options: str, code: int, reported: str, oscope: CommandLine) -> None:
    names = [
        write(each, oscope.folder / f"{name}.json")
        for name, each in (("a", sized(NONE, 0)), ("b", sized(size, 1)))
    ]
    answer = oscope("gate", *names, *options.split(), "--json", "gate.json")
    assert answer.code == code, answer
    assert reported in " ".join((answer.out if code == 0 else answer.err).split())
    assert "A is no larger than its launcher (about 3 MiB)" in " ".join(answer.out.split())
    assert '"median_baseline":null' in (oscope.folder / "gate.json").read_text().replace(" ", "")


def test_a_real_command_that_grows_above_its_launcher_fails_the_gate(
    real_probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSCOPE_PROBE", str(real_probe))
    large = [sys.executable, "-S", "-c", "bytearray(50 << 20)"]
    runs = [
        oscope.bench([["true"], command], names=["stays", "grows"], reps=6, store=tmp_path / "store.db")
        for command in (["true"], large)
    ]
    before, now = (made.results for made in runs)
    gate = judge(before, now, 0.03, metrics=[SIZE])
    assert [(each.row.factors["command"], each.verdict) for each in gate.rows] == [("grows", "regressed")]
    assert any("grows, max_rss_bytes: A is no larger than its launcher" in each for each in gate.caveats)
    (row,) = judge(now, before, 0.03, metrics=[SIZE]).rows
    assert row.verdict == "improved"
