"""The commands on what was measured, the help, and the speed with which they begin."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import synthetic
from cli_driver import COST, ROOT, CommandLine, described
from oscope.labs import LABS
from oscope.model.samples import Results
from oscope.storage import record
from oscope.storage.store import Store, StoredEvent

COMMANDS = (
    "run",
    "list",
    "runs",
    "show",
    "compare",
    "gate",
    "history",
    "calibrate",
    "explain-variation",
    "report",
    "export",
    "assignment",
    "sources",
    "doctor",
)
OPTIONS = {
    "run": (
        "--set",
        "--reps",
        "--precision",
        "--budget",
        "--profile",
        "--on",
        "--seed",
        "--json",
        "--report",
        "--figures",
        "--all-figures",
        "--resume",
        "--store",
        "--verbose",
    ),
    "compare": ("--by", "--threshold", "--allow"),
    "gate": ("--max-regression", "--metric", "--allow", "--strict", "--json"),
    "history": ("--metric", "--point", "--since", "--json", "--figure"),
    "report": ("-o",),
    "export": ("--format", "-o"),
    "doctor": ("--json",),
}
HEAVY = (
    "numpy",
    "scipy",
    "pandas",
    "sqlalchemy",
    "plotly",
    "matplotlib",
    "jinja2",
    "pyarrow",
    "rich",
    "pydantic",
)


@pytest.fixture
def oscope(fake_probe: Path, tmp_path: Path) -> CommandLine:
    del fake_probe
    return CommandLine(tmp_path, {"FAKE_PROBE_DESCRIBE": described()})


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measured") / "oscope.db"


@pytest.fixture
def two_runs(oscope: CommandLine, measured: Path) -> CommandLine:
    # Measured once for all tests that only read it.
    if not measured.is_file():
        for _ in range(2):
            words = ("run", "syscall.cost", "--reps", "20", "--set", "call=getppid,read")
            assert oscope(*words, OSCOPE_STORE=str(measured)).code == 0
    shutil.copy(measured, os.environ["OSCOPE_STORE"])
    return oscope


def test_help_tells_of_every_command_and_the_exit_codes(oscope: CommandLine) -> None:
    answer = oscope("--help")
    assert (answer.code, answer.err) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\w", answer.out, re.MULTILINE)
    for reported in (
        "0  done",
        "1  something failed",
        "2  the request is wrong",
        "--store",
        "--verbose",
        "--version",
    ):
        assert reported in answer.out
    assert oscope().out == answer.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained_in_the_help_and_in_the_documentation(
    command: str, oscope: CommandLine
) -> None:
    reported = oscope(command, "--help").out
    page = (ROOT / "docs" / "commands.md").read_text()
    assert f"oscope {command}" in page
    listed = re.findall(r"^  (-[-\w]+)(?:, (--\w+))?", reported, re.MULTILINE)
    for option in OPTIONS.get(command, ()):
        assert re.search(rf"^ +(--\w+, )?{option}\b", reported, re.MULTILINE), option
    for option in {name for names in listed for name in names if name}:
        assert f"`{option}" in page, option


@pytest.mark.parametrize("words", [("--help",), ("list",), ("run", "--help")])
def test_nothing_heavy_is_loaded_before_it_is_needed(words: tuple[str, ...], oscope: CommandLine) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "oscope", *words],
        env=oscope.all_variables({}),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_list_fits_a_screen_and_has_every_name(oscope: CommandLine) -> None:
    answer = oscope("list", COLUMNS="80")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    listed = set(answer.out.split())
    assert listed >= {part.name for lab in LABS for part in lab.parts}
    assert listed >= {lab.name for lab in LABS}


def test_list_in_another_form_is_one_table(oscope: CommandLine) -> None:
    (table,) = json.loads(oscope("list", "syscalls", "disk.read", "--format", "json").out)
    assert [row["name"] for row in table["rows"]] == [
        "syscall.cost",
        "syscall.throughput",
        "process.create",
        "syscall.entry",
        "syscall.uring-nop",
        "disk.read",
    ]
    every = list(csv.DictReader(io.StringIO(oscope("list", "--format", "csv").out)))
    assert {(row["lab"], row["name"]) for row in every} == {
        (lab.name, part.name) for lab in LABS for part in lab.parts
    }


def test_a_name_that_is_unknown_is_not_described(oscope: CommandLine) -> None:
    answer = oscope("list", "syscall.cots")
    assert answer.code == 2
    assert "did you mean 'syscall.cost'?" in answer.err


@pytest.mark.parametrize("names", [("syscalls",), ("syscall.cost", "syscall.throughput"), ("--all",)])
def test_list_describes_labs_experiments_factors_and_metrics(
    names: tuple[str, ...], oscope: CommandLine
) -> None:
    answer = oscope("list", *names, COLUMNS="80")
    assert (answer.code, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= 80
    for reported in (
        "  syscall.cost: ",
        "call        getpid, getppid, read, lseek, gethostid, clock_gettime; or nr:N",
        "metrics     time_ns [ns], cycles\n",
        "in a guest  with --clock instructions: instructions for time_ns, without\n",
        "size        4 KiB (not varied); or any from 0 B to 1 GiB",
        "quick       ",
    ):
        assert reported in answer.out


def test_version_is_the_package_version(oscope: CommandLine) -> None:
    import oscope as package

    assert oscope("--version").out == f"oscope {package.__version__}\n"


def test_runs_lists_them_and_show_summarises_one(two_runs: CommandLine) -> None:
    first, second = two_runs.runs()
    assert re.search(rf"{first} +\S+ \S+ +done +80 +syscall.cost", two_runs("runs").out)
    shown = two_runs("show", second)
    assert (shown.code, shown.err) == (0, "")
    assert two_runs("show", "last").out == shown.out
    assert re.search(r"getppid +loop +[\d.]+ +[\d.]+ to [\d.]+ +20", shown.out)


def test_an_empty_store_has_no_runs(oscope: CommandLine) -> None:
    assert oscope("runs").out == "no runs yet: oscope run makes one\n"


def test_equal_runs_compare_as_no_difference_found(two_runs: CommandLine) -> None:
    answer = two_runs("compare", *two_runs.runs(), "--threshold", "50%")
    assert answer.code == 0, answer.err
    assert re.search(
        r"no difference found in \d+ of 4 \(a difference of [\d.]+ %.* would have been found\)",
        " ".join(answer.out.split()),
    )


def test_two_levels_of_a_run_are_compared(two_runs: CommandLine) -> None:
    answer = two_runs("compare", "last", "--by", "style=loop,single")
    assert answer.code == 0
    assert "B (style=single) against A (style=loop)" in answer.out
    wrong = two_runs("compare", "last", "--by", "style=loop,double")
    assert wrong.code == 2
    assert "no points with style=double: there is loop, single" in wrong.err


def test_two_levels_are_compared_where_an_experiment_has_both(oscope: CommandLine) -> None:
    both = synthetic.cost()
    loops = tuple(point for point in both.points if point.factors["style"] == "loop")
    one = replace(both, experiment="syscall.loops", points=loops)
    record.write(Results((one, both)), oscope.folder / "both.json")
    answer = oscope("compare", "both.json", "--by", "style=loop,single")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("syscall.cost: B (style=single)")
    assert "syscall.loops" not in answer.out
    wrong = oscope("compare", "both.json", "--by", "style=loop,double")
    assert "no points with style=double: there is loop" in wrong.err


def test_a_size_is_compared_as_typed(oscope: CommandLine) -> None:
    assert (
        oscope("run", "syscall.cost", "--set", "call=read", "--set", "size=1K,2K", "--reps", "10").code == 0
    )
    assert oscope("compare", "last", "--by", "size=1K,2KiB").code == 0


def test_a_limit_that_is_named_and_broken_gives_exit_code_1(oscope: CommandLine) -> None:
    records = []
    run = oscope("run", "syscall.cost", "--set", "call=read", "--reps", "20", "--json", "a.json")
    assert run.code == 0
    measured = (oscope.folder / "a.json").read_text()
    for name, factor in (("a.json", 1.0), ("b.json", 2.0)):
        record = json.loads(measured) | {"id": name}
        for point in record["points"]:
            metric = point["metrics"]["time_ns"]
            metric["values"] = [value * factor for value in metric["values"]]
        (oscope.folder / name).write_text(json.dumps(record))
        records.append(name)
    assert oscope("compare", *records).code == 0
    answer = oscope("compare", *records, "--threshold", "10%")
    assert answer.code == 1
    assert answer.err.startswith("oscope: worse by more than 10%: syscall.cost ")
    assert oscope("compare", *reversed(records), "--threshold", "10%").code == 0


def test_a_run_is_not_compared_with_itself(two_runs: CommandLine) -> None:
    answer = two_runs("compare", "last", "last")
    assert answer.code == 2
    assert "cannot be compared with itself" in answer.err


@pytest.mark.parametrize(
    ("variables", "difference"),
    [({"FAKE_PROBE_MACHINE": "ffff"}, "machine"), ({"FAKE_PROBE_DESCRIBE": described(version=2)}, "version")],
)
def test_unlike_runs_are_refused(variables: dict[str, str], difference: str, oscope: CommandLine) -> None:
    words = ("run", "syscall.cost", "--set", "call=read", "--reps", "10")
    assert oscope(*words).code == 0
    assert oscope(*words, **variables).code == 0
    refused = oscope("compare", *oscope.runs())
    assert refused.code == 2
    assert difference in refused.err
    allowed = oscope("compare", *oscope.runs(), "--allow", "machine")
    assert allowed.code == (0 if difference == "machine" else 2)


def test_export_gives_every_sample(two_runs: CommandLine) -> None:
    answer = two_runs("export", "last", "--format", "csv")
    frame = pd.read_csv(io.StringIO(answer.out))
    assert len(frame) == 80
    assert set(frame["call"]) == {"getppid", "read"}
    written = two_runs("export", "last", "--format", "parquet", "-o", "run.parquet")
    assert (written.code, written.out) == (0, "wrote run.parquet\n")
    assert len(pd.read_parquet(two_runs.folder / "run.parquet")) == 80
    assert json.loads(two_runs("export", "last", "--format", "json").out)["id"] == two_runs.runs()[-1]


def test_a_record_file_takes_the_place_of_a_run(two_runs: CommandLine) -> None:
    assert two_runs("export", "last", "--format", "json", "-o", "record.json").code == 0
    every = (
        ("show",),
        ("report", "-o", "report.html"),
        ("export", "--format", "csv"),
        ("explain-variation",),
        ("assignment", "syscall", "-o", "-", "--run"),
    )
    for command, *words in every:
        stored, written = (two_runs(command, *words, run) for run in ("last", "record.json"))
        assert written.code == 0, written.err
        assert written.out == stored.out
    refused = two_runs("export", "record.json", "--format", "json", "-o", "record.json")
    assert (refused.code, "would replace a file that is read" in refused.err) == (2, True)
    (two_runs.folder / "last").write_text("no record")
    assert two_runs("show", "last").code == 0
    (two_runs.folder / "empty.json").write_text("[]")
    for command in (("show", "empty.json"), ("compare", "last", "empty.json")):
        refused = two_runs(*command)
        assert refused.code == 2
        assert refused.err.startswith("oscope: empty.json holds no record: ")


def test_a_run_without_samples_says_why(two_runs: CommandLine) -> None:
    before = two_runs.runs()[-1]
    why = "given up by the fleet: n9 cannot be reached"
    part = {"fleet": "fleet-1", "host": {"name": "n9", "address": "n9"}, "rounds": 1}
    with Store.open() as store:
        empty = store.create_run(store.plan(before), [StoredEvent("fleet", part)])
        store.add(empty, (), [StoredEvent("note", why), StoredEvent("status", "failed")])
    shown = two_runs("show", empty).out
    assert f"skipped: {why}" in shown
    assert "oscope fleet run --resume fleet-1" in shown
    assert shown.startswith("Nothing is recorded of the machine\n")
    for command in (("compare", empty, before), ("gate", before, empty)):
        refused = two_runs(*command)
        assert refused.code == 2
        assert refused.err.startswith(f"oscope: run {empty} has no samples of syscall.cost ({why}): ")


def test_a_report_covers_several_runs(probe: Path, tmp_path: Path) -> None:
    del probe
    oscope = CommandLine(tmp_path)
    for _ in range(2):
        assert oscope("run", "syscall.cost", "--set", "call=getpid", "--reps", "5").code == 0
    answer = oscope("report", *oscope.runs(), "-o", "both.html")
    assert answer.code == 0, answer.err
    page = (tmp_path / "both.html").read_text()
    assert all(run in page for run in oscope.runs())
    assert answer.out == "both.html\n"


def test_the_store_may_be_named_before_or_after_the_command(two_runs: CommandLine) -> None:
    for words in (("--store", "other.db", "runs"), ("runs", "--store=other.db")):
        assert two_runs(*words).out.startswith("no runs yet")
    assert not (two_runs.folder / "other.db").exists()
    assert two_runs("--store", "other.db", *COST).code == 0
    assert "syscall.cost" in two_runs("runs", "--store=other.db").out


def test_a_reader_that_leaves_early_is_no_error(oscope: CommandLine) -> None:
    listing = oscope.start("list")
    assert listing.stdout is not None
    listing.stdout.close()
    _, reported = listing.communicate(timeout=300)
    assert reported == ""


def test_a_full_disk_behind_standard_output_is_told(oscope: CommandLine) -> None:
    with Path("/dev/full").open("w") as full:
        listing = oscope.start("list", stdout=full)
        _, reported = listing.communicate(timeout=300)
    assert listing.returncode == 1
    assert reported.startswith("oscope: standard output cannot be written (No space left on device)")
