"""What a bench says beside its table: starts that are part of times, sampled modes, commands with values."""

from __future__ import annotations

import platform
import struct
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import oscope
from oscope.analysis.side_warnings import side_warnings
from oscope.cli.summary import notes
from oscope.cli.views.bench import print_findings
from oscope.figures.analysed import Analysed
from oscope.figures.experiments import view
from oscope.programs.experiment import name_point
from oscope.programs.export import export
from oscope.programs.findings import Findings, find
from oscope.programs.start_overhead import start_notes

US = 1e3
MS = 1e6


@pytest.fixture(scope="module")
def measured(real_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Return what a real bench of two commands found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSCOPE_PROBE", str(real_probe))
        store = tmp_path_factory.mktemp("notes") / "store.db"
        return oscope.bench(["true", "sh -c :"], reps=6, store=store).findings


def with_metrics(findings: Findings, **values: Sequence[float]) -> Findings:
    """Return the findings where each command has one of these values in all its runs."""
    points = tuple(
        replace(
            point,
            metrics=point.metrics | {name: np.full(len(point), each[at]) for name, each in values.items()},
        )
        for at, point in enumerate(findings.experiment.points)
    )
    experiment = replace(findings.experiment, points=points)
    return find(replace(findings.results, experiments=(experiment,), memo={}))


def starts(findings: Findings) -> list[str]:
    """Return the notes on the start of a program or a shell."""
    return [note for note in findings.notes if "start" in note]


def test_a_start_below_all_times_is_part_of_them(measured: Findings) -> None:
    found = with_metrics(measured, time_ns=(2 * MS, 3 * MS), start_ns=(500 * US, 520 * US))
    (note,) = starts(found)
    assert note == (
        "start overhead: a program that does nothing (true) takes 510 µs, the median beside all commands; "
        "it is part of each time above"
    )


def test_a_start_above_a_time_is_no_part_of_it(measured: Findings) -> None:
    found = with_metrics(measured, time_ns=(130 * US, 3 * MS), start_ns=(580 * US, 600 * US))
    (note,) = starts(found)
    assert note == (
        "start overhead: a program that does nothing (true) takes 590 µs, the median beside all commands; "
        "true took less: what the start of it takes is not known"
    )


def test_a_start_as_long_as_a_time_is_not_called_a_part_of_it(measured: Findings) -> None:
    found = with_metrics(measured, time_ns=(590 * US, 3 * MS), start_ns=(580 * US, 600 * US))
    overhead, only = starts(found)
    assert overhead.endswith("takes 590 µs, the median beside all commands")
    assert only.startswith("true takes hardly longer than such a start")


def test_commands_of_one_name_are_each_looked_at(measured: Findings) -> None:
    """`sleep {t}` with t=1, and `sleep 1`."""
    (short, long) = with_metrics(measured, time_ns=(130 * US, 3 * MS), start_ns=(580 * US, 600 * US)).rows
    alike = [replace(short, name="sleep 1"), replace(long, name="sleep 1")]
    for rows in (alike, alike[::-1]):
        (note,) = start_notes(rows, alone=False)
        assert note.endswith("; sleep 1 took less: what the start of it takes is not known")


def test_with_a_shell_its_own_start_is_the_one_that_counts(measured: Findings) -> None:
    values = {"net_ns": (20 * US, 2 * MS), "time_ns": (637 * US, 2617 * US), "shell_ns": (617 * US, 617 * US)}
    found = with_metrics(measured, start_ns=(1253 * US, 1253 * US), **values)
    first, second = starts(found)
    assert first == "the shell's own start takes 617 µs: net_ns is without it, time_ns with it"
    assert second.startswith("true takes hardly longer than such a start")


def test_a_mode_without_a_tick_is_not_shown_as_zero(measured: Findings) -> None:
    values = {"cpu_ns": (200 * MS, 200 * MS), "user_ns": (200 * MS, 150 * MS), "system_ns": (0, 50 * MS)}
    found = with_metrics(measured, time_ns=(200 * MS, 200 * MS), **values)
    out = StringIO()
    print_findings(found, Console(file=out, width=200))
    for text in (out.getvalue(), export(found, "md").decode()):
        assert "0 ticks" in text
        assert " 0 ns" not in text
        assert "user and system are sampled at ticks of the kernel" in text
    assert '"system_ns": 0.0' in export(found, "json").decode()
    seen = with_metrics(measured, user_ns=(200 * MS, 150 * MS), system_ns=(4 * MS, 50 * MS))
    assert not [note for note in seen.notes if "ticks" in note]


def test_commands_that_waited_for_a_cpu_are_told_wherever_the_run_is_shown(measured: Findings) -> None:
    switches = {"involuntary_switches": (9, 9), "voluntary_switches": (1, 1)}
    found = with_metrics(measured, time_ns=(100 * MS, 100 * MS), cpu_ns=(99 * MS, 40 * MS), **switches)
    text = (
        "other processes used the CPUs: commands did not run for up to 60 % of their time; "
        "--metric cpu_ns judges what they use themselves"
    )
    assert text in found.notes
    results, experiment = Analysed.of(found.results), found.experiment
    assert f"note: {text}" in list(notes(results, experiment))
    assert text in view(results, experiment).notes
    assert list(side_warnings([[experiment]])) == [f"run {experiment.run_id}: {text}"]
    alone = with_metrics(measured, time_ns=(100 * MS, 100 * MS), cpu_ns=(99 * MS, 95 * MS), **switches)
    assert text not in alone.notes
    assert list(side_warnings([[alone.experiment]])) == []


def test_a_command_is_named_with_its_values() -> None:
    scan = {"command": "gzip -{level} -c {file}", "level": 1, "file": "a.c"}
    assert name_point(scan) == "gzip -1 -c a.c"
    assert name_point(scan | {"tracer": "none"}) == "gzip -1 -c a.c"
    assert name_point({"command": "./sort {n}", "n": "a b", "seed": 3}) == "./sort a b (seed=3)"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program is machine code of x86-64")
def test_what_execve_reads_counts_as_read_and_the_metric_says_so(
    tmp_path: Path, real_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSCOPE_PROBE", str(real_probe))
    program = tmp_path / "exits"
    program.write_bytes(program_that_exits())
    program.chmod(0o755)
    found = oscope.bench([str(program)], reps=3, store=tmp_path / "store.db").findings.experiment
    (point,) = found.points
    # The kernel reads the first 256 bytes to find out what it is, and the program header on its own.
    assert set(point.metrics["read_bytes"]) == {256.0 + 56.0}
    assert "by execve(2) of the program's file" in found.metrics["read_bytes"].doc


def program_that_exits() -> bytes:
    """Return an ELF file of 300 bytes whose only system call is exit(0)."""
    base, headers = 0x400000, 64 + 56
    code = bytes.fromhex("b83c00000031ff0f05")  # mov $60, %eax; xor %edi, %edi; syscall
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + headers, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, 300, 300, 0x1000)
    return (ident + head + segment + code).ljust(300, b"\0")
