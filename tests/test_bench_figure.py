"""The figure of `oscope bench` on a terminal: six lines at most, never wider than it, and none in a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import oscope
from cli_driver import CommandLine
from oscope.cli.views.bench import bench_columns, print_findings
from oscope.cli.views.spread import ASCII, MOST_ROWS, Axis, Marks, Spread, draw, lines_for
from oscope.programs.findings import Findings
from oscope.report.terminal import table_width

WIDTHS = (*range(1, 130, 7), 40, 60, 80, 100, 500)


@pytest.fixture(scope="module")
def findings(real_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Return what a real bench of six commands found; one of them takes much longer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSCOPE_PROBE", str(real_probe))
        names = ["true", "a name that is far longer than a figure has room for", "c", "d", "e", "f"]
        return oscope.bench(
            ["sleep 1", *["true"] * 5],
            names=names,
            reps=3,
            store=tmp_path_factory.mktemp("figure") / "store.db",
        ).findings


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_it_fits_the_terminal(findings: Findings, width: int, encoding: str) -> None:
    lines = lines_for(findings, width, encoding)
    assert len(lines) <= 6
    assert all(len(line) <= width for line in lines)
    # Beside the unit there is nothing but ASCII where the terminal has nothing else.
    assert encoding == "utf-8" or "".join(lines).replace("µ", "u").isascii()
    assert bool(lines) == (width >= 50) or 40 < width < 50


def test_each_command_has_its_line_and_its_median_where_it_belongs(findings: Findings) -> None:
    axis, *rows, legend = draw(findings, 100, Marks())
    assert len(rows) == MOST_ROWS
    assert axis.split()[-1] == "s"
    assert "logarithmic axis" in legend
    assert "2 more are in the table" in legend
    assert rows[0].startswith("true ")
    assert rows[1].startswith("a name th…")
    # The first sleeps 1 s, and is on the right of all others.
    first, *others = (row.index("●") for row in rows)
    assert all(place < first for place in others)
    assert all(row.count("●") == 1 for row in rows)


def test_runs_intervals_and_medians_lie_within_each_other(findings: Findings) -> None:
    for row in findings.rows:
        spread = Spread.of(row, findings.metric)
        assert spread is not None
        low, high = spread.ends
        assert low <= spread.low <= spread.median <= spread.high <= high
        assert low <= spread.interval[0] <= spread.median <= spread.interval[1] <= high


def test_an_axis_is_linear_unless_its_ends_are_far_apart() -> None:
    linear = Axis(1.0, 3.0, 21)
    assert [linear.column(value) for value in (1.0, 2.0, 3.0)] == [0, 10, 20]
    logarithmic = Axis(1.0, 100.0, 21)
    assert [logarithmic.column(value) for value in (1.0, 10.0, 100.0)] == [0, 10, 20]
    assert not Axis(0.0, 100.0, 21).is_logarithmic


def test_a_metric_that_is_the_same_everywhere_has_no_figure(findings: Findings) -> None:
    experiment = findings.experiment
    same = [name for name in experiment.metrics if name == "exit_code"]
    rows = tuple(
        replace(row, summary=findings.results.summary(experiment, row.point, same[0]))
        for row in findings.rows
    )
    flat = replace(
        findings, rows=rows, experiment=replace(experiment, metrics=_first(experiment.metrics, same[0]))
    )
    assert flat.metric == "exit_code"
    assert draw(flat, 100, ASCII) == []


def _first(metrics: dict[str, object], name: str) -> dict[str, object]:
    return {name: metrics[name], **metrics}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_names_the_columns_that_found_no_room(findings: Findings, width: int) -> None:
    whole, none = bench_columns(findings, 1000)
    shown, hidden = bench_columns(findings, width)
    assert none == []
    # Command, figure and interval stay, and each of the others is either shown or named.
    assert shown[:3] == whole[:3]
    assert sorted([*hidden, *(column[0].strip() for column in shown)]) == sorted(
        column[0].strip() for column in whole
    )
    assert table_width(shown) <= width or len(shown) == 3
    # The number of runs goes last.
    assert "n" not in hidden or len(shown) == 3
    written = StringIO()
    print_findings(findings, Console(file=written, width=width))
    printed = " ".join(written.getvalue().split())
    assert ("wider terminals also show: " + ", ".join(hidden) in printed) == bool(hidden)


def test_it_is_on_a_terminal_and_not_in_a_pipe(tmp_path: Path, real_probe: Path) -> None:
    own = {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "store.db"), "COLUMNS": "100"}
    words = ("bench", "--reps", "3", "--", "true", "--vs", "sleep", "0.05")
    piped = CommandLine(tmp_path, own)(*words)
    assert piped.code == 0
    assert "sleep 0.05" in piped.out
    assert "●" not in piped.out
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "oscope", *words],
        stdout=slave,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **own, "TERM": "xterm", "PYTHONUTF8": "1"},
        cwd=tmp_path,
    ) as process:
        os.close(slave)
        output = b""
        while chunk := _read(master):
            output += chunk
        assert process.wait(120) == 0
    os.close(master)
    assert output.decode().count("●") == 3


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        # So a terminal ends that nobody has open any more.
        return b""
