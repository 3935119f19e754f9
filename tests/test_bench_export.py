"""The table of a bench as a file: no parameter of the user's hides a column, and no column a parameter."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import oscope
from cli_driver import CommandLine
from git_scene import BYTES


@pytest.fixture
def bench(tmp_path: Path, real_probe: Path) -> CommandLine:
    """Give the command line in an empty folder with a store of its own."""
    own = {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "store.db"), "COLUMNS": "200"}
    return CommandLine(tmp_path, own)


def exported(bench: CommandLine, *words: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of a bench as CSV and as JSON has them."""
    found = []
    for kind in ("csv", "json"):
        done = bench("bench", "--export", kind, "table", *words)
        assert done.code == 0, done.err
        found.append((bench.folder / "table").read_text())
    return list(csv.DictReader(found[0].splitlines())), json.loads(found[1])["commands"]


def test_parameters_named_as_columns_keep_their_levels(bench: CommandLine) -> None:
    names = ("n", "metric", "median", "low95", "high95", "skipped", "cpu_ns", "max_rss_bytes")
    free = ("build", "commit", "named", "subject", "size")
    given = [word for name in (*names, *free) for word in ("-P", f"{name}=7")]
    held = " ".join(f"{{{name}}}" for name in (*names, *free))
    for rows in exported(bench, "--reps", "3", *given, "-P", "k=10,100", f"echo {held} {{k}}"):
        assert [str(row["k"]) for row in rows] == ["10", "100"]
        for row in rows:
            assert {str(row[f"factor_{name}"]) for name in names} == {"7"}
            assert {str(row[name]) for name in free} == {"7"}
            assert (row["metric"], int(row["n"])) == ("time_ns", 3)
            assert float(row["median"]) > 7


def test_a_parameter_with_the_name_of_anothers_column_is_not_lost(bench: CommandLine) -> None:
    commands = ("echo {n}", "echo {factor_n}")
    for rows in exported(bench, "--reps", "2", "-P", "n=1,2", "-P", "factor_n=3", *commands):
        assert [str(row.get("factor_factor_n") or "") for row in rows] == ["1", "2", ""]
        assert [str(row.get("factor_n") or "") for row in rows] == ["", "", "3"]
        assert [int(row["n"]) for row in rows] == [2, 2, 2]


def test_columns_of_revisions_leave_parameters_of_their_names(bench_git: CommandLine) -> None:
    names = ("build", "commit", "named", "subject")
    given = [word for name in names for word in ("-P", f"{name}=7")]
    revisions = ("--git", "c4", "--git", "main", "--build", "true")
    words = (*BYTES, *revisions, *given, "echo {build} {commit} {named} {subject}")
    for rows in exported(bench_git, *words):
        assert {str(row[f"factor_{name}"]) for row in rows for name in names} == {"7"}
        assert [(row["build"], row["named"]) for row in rows] == [("true", "c4"), ("true", "main")]


@pytest.mark.usefixtures("probe")
def test_functions_keep_such_levels_too(store_path: Path) -> None:
    found = oscope.bench(lambda n: sum(range(n)), parameters={"n": [10, 100]}, reps=4, store=store_path)
    assert [(row["factor_n"], row["n"]) for row in found.rows()] == [(10, 4), (100, 4)]


def test_hyperfines_layout_has_the_command_that_was_run(bench: CommandLine) -> None:
    words = ("--reps", "2", "--hyperfine-json", "-", "-P", "n=1,2", "--name", "count {n} {x}")
    done = bench("bench", *words, "echo {n} {x}")
    assert done.code == 0, done.err
    assert [each["command"] for each in json.loads(done.out)["results"]] == ["count 1 {x}", "count 2 {x}"]
