"""`oscope bench --on guest`: a program of this machine is measured in a guest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine
from oscope.targets.kernel import Kernel


@pytest.fixture
def bench(real_probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line in an empty folder with a store of its own."""
    own = {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "store.db"), "COLUMNS": "200"}
    return CommandLine(tmp_path, own)


def recorded(bench: CommandLine, *words: str) -> dict[str, Any]:
    """Measure, and return the record."""
    done = bench("bench", *words)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads((bench.folder / "record.json").read_text())
    return found


def test_a_program_is_measured_in_a_guest(bench: CommandLine, base_kernel: Kernel) -> None:
    words = ("--on", "guest", "--reps", "2", "--json", "record.json", "--shell")
    line = f"read system word release rest </proc/version; test $release = {base_kernel.release}"
    found = recorded(bench, *words, line, "true")
    assert found["environment"]["guest"]["kernel"]["name"] == "base"
    assert found["environment"]["guest"]["cpus"] == 2
    assert [len(point["metrics"]["time_ns"]["values"]) for point in found["points"]] == [2, 2]
    # Each block is a boot.
    assert len(set(found["points"][0]["samples"]["block"])) == 2


def test_a_program_may_lie_where_a_guest_mounts_something(bench: CommandLine, base_kernel: Kernel) -> None:
    del base_kernel
    program = shutil.copy2("/bin/true", bench.folder / "own")
    assert str(program).startswith("/tmp/")  # noqa: S108 - where pytest makes its folders.
    found = recorded(bench, "--on", "guest", "--reps", "1", "--json", "record.json", "--", "./own")
    # What these times are of is said wherever they are shown.
    emulated = found["environment"]["guest"]["accelerator"] == "tcg"
    assert bench("report", "last", "-o", "report.html").code == 0
    shown = (bench("show", "last").out, (bench.folder / "report.html").read_text())
    assert [("The guest was emulated" in each) for each in shown] == [emulated] * 2


def test_a_command_that_needs_files_of_this_machine_fails_in_its_trial(
    bench: CommandLine, base_kernel: Kernel
) -> None:
    del base_kernel
    (bench.folder / "here").write_text("text")
    done = bench("bench", "--on", "guest", "--reps", "2", "--", "cat", str(bench.folder / "here"))
    assert done.code == 1
    (line,) = done.errors
    assert "No such file or directory" in line


def test_files_of_this_machine_are_refused_for_a_guest(bench: CommandLine, base_kernel: Kernel) -> None:
    del base_kernel
    script = bench.folder / "script"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    for words, text in (
        (("--", "./script"), "is a script"),
        (("--cwd", ".", "true"), "--cwd"),
        (("--input", "script", "true"), "--input"),
        (("--output", "out", "true"), "--output"),
        (("--cold", "script", "true"), "--cold"),
    ):
        done = bench("bench", "--on", "guest", *words)
        assert done.code == 2
        (line,) = done.errors
        assert text in line
        assert "guest" in line
