"""The names of workloads of the user's own: which experiment is meant, and what an unknown one says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_driver import CommandLine
from sorting_program import PROGRAM

TOML = """
[workloads]
"sort.list" = "./mybench"

[experiments."sort.sizes"]
workload = "sort.list"
factors = { size = [10, 1000] }
"""


@pytest.fixture
def here(oscope: CommandLine, tmp_path: Path) -> CommandLine:
    """Give the command line in a folder with a program and its oscope.toml."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mybench").write_text(PROGRAM)
    (folder / "mybench").chmod(0o755)
    (folder / "oscope.toml").write_text(TOML)
    return CommandLine(folder, oscope.environment)


@pytest.mark.usefixtures("real_probe")
def test_a_workload_is_found_by_its_name_beside_experiments_over_it(here: CommandLine) -> None:
    more = ("--reps", "2", "--no-again", "--json", "-")
    for which in (("--workload", "./mybench", "sort.list"), ("sort.list",)):
        ran = here("run", *which, *more)
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["experiment"] == "sort.list"
    (here.folder / "oscope.toml").write_text('[workloads]\nsort.list = "./mybench"')
    assert 'a name with a dot stands in quotation marks: "sort.list"' in here("run", "sort.list").err


@pytest.mark.usefixtures("real_probe")
def test_an_unknown_name_is_told_how_to_name_a_program(here: CommandLine) -> None:
    (here.folder / "oscope.toml").unlink()
    (reported,) = here("run", "sort.list").errors
    assert "there is no experiment 'sort.list'" in reported
    assert "a workload of your own needs --workload PROGRAM" in reported
    assert "--workload" not in here("run", "syscal.cost").err


@pytest.mark.usefixtures("real_probe")
def test_a_factor_of_one_build_alone_is_one_line(here: CommandLine) -> None:
    (here.folder / "oscope.toml").unlink()
    (here.folder / "old").write_text(PROGRAM.replace("size", "length"))
    (here.folder / "old").chmod(0o755)
    for sides in (("./old", "./mybench"), ("./mybench", "./old")):
        (reported,) = here("ab", *sides, "sort.list", "--set", "size=10").errors
        assert reported.startswith("oscope: ./old has no factor 'size', and both builds are measured at the")
