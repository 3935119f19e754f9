"""The command `assignment`: real short runs, what they write, and what it refuses."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest

from cli_driver import Answer, CommandLine
from oscope.model.formatting import GROUP

SEED = ("--seed", "7")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Return a command line with a store of its own, and without any kernel that was built before."""
    folder = tmp_path_factory.mktemp("assignment")
    return CommandLine(
        folder, {"OSCOPE_STORE": str(folder / "store.db"), "XDG_CACHE_HOME": str(folder / "cache")}
    )


@pytest.fixture(scope="module")
def syscall(elsewhere: CommandLine) -> Answer:
    return elsewhere("assignment", "syscall", "--quick", "--output", "syscall.md", *SEED)


@pytest.fixture(scope="module")
def disk(elsewhere: CommandLine, syscall: Answer) -> Answer:
    # The runs are named `last` afterwards: this one is the later.
    del syscall
    return elsewhere(
        "assignment",
        "disk",
        "--quick",
        "--budget",
        "12s",
        "--figures",
        "figures",
        "--output",
        "disk.html",
        *SEED,
    )


def rows(page: str, title: str) -> list[list[str]]:
    """Return the cells of the table with this title, the heading first."""
    part = page.partition(f"**{title}**")[2].strip().partition("\n\n")[0]
    lines = [line for line in part.splitlines() if not line.startswith("| --- ")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def exported(elsewhere: CommandLine, run: str, experiment: str) -> list[dict[str, str]]:
    """Return the samples of an experiment, as `oscope export` writes them."""
    written = elsewhere("export", run, "--format", "csv")
    assert written.code == 0, written.err
    return [each for each in csv.DictReader(io.StringIO(written.out)) if each["experiment"] == experiment]


def test_table_one_is_measured_here_and_its_numbers_are_those_of_the_export(
    elsewhere: CommandLine, syscall: Answer
) -> None:
    assert syscall.code == 0, syscall.err
    run = re.search(r"run (\S+) is stored", syscall.out)
    assert run is not None
    page = (elsewhere.folder / "syscall.md").read_text(encoding="utf-8")
    heading, *table = rows(page, "Table 1: the output of iterations")
    samples = exported(elsewhere, run[1], "process.create")
    place = next(index for index, name in enumerate(heading) if name.startswith("fork_parent, this machine"))
    unit = "cycles" if "[cycles]" in heading[place] else "ns"
    values = np.array([float(each[f"parent_{unit}"]) for each in samples])
    column = {row[0] if row[0] else "": row[place] for row in table}
    first = [float(column[str(index)].replace(GROUP, "")) for index in range(1, 11)]
    assert first == pytest.approx(values[:10].tolist(), rel=1e-4)
    assert int(column["n"]) == len(values)
    # To the digits that are printed: two of the deviation.
    close = 0.1 * values.std(ddof=1)
    assert float(column["mean"].replace(GROUP, "")) == pytest.approx(values.mean(), abs=close)
    assert float(column["std. dev."].replace(GROUP, "")) == pytest.approx(values.std(ddof=1), abs=close)
    assert float(column["median"].replace(GROUP, "")) == pytest.approx(np.median(values), abs=close)


def test_a_kernel_that_is_not_built_has_the_reason_and_the_remedy_in_the_calls_place(
    elsewhere: CommandLine, syscall: Answer
) -> None:
    assert "kernel.precious-wall is left out" in syscall.err
    page = (elsewhere.folder / "syscall.md").read_text(encoding="utf-8")
    assert "my_precious, guest: not measured" in page
    assert "Not measured here. my_precious needs a guest" in page
    assert "oscope kernel build --patch my_precious" in page


def test_the_disk_assignment_writes_a_page_and_its_figures(elsewhere: CommandLine, disk: Answer) -> None:
    assert disk.code == 0, disk.err
    page = (elsewhere.folder / "disk.html").read_text(encoding="utf-8")
    assert "<title>The NYU disk I/O assignment" in page
    assert '<details class="tables">' not in page
    places = [
        page.index(f"<h3>{title}") for title in ("Part 1: run", "Part 3: raw_performance", "Part 6: fast")
    ]
    assert places == sorted(places)
    drawn = {path.suffix for path in (elsewhere.folder / "figures").iterdir()}
    assert drawn <= {".png", ".svg"}


def test_a_stored_run_is_written_again_without_measuring(elsewhere: CommandLine, disk: Answer) -> None:
    del disk
    before = elsewhere("runs").out
    again = elsewhere("assignment", "disk", "--run", "last", "--output", "-")
    assert again.code == 0, again.err
    assert again.out.startswith("# The NYU disk I/O assignment\n")
    assert elsewhere("runs").out == before
    heading, *table = rows(again.out, "Performance by block size")
    assert heading[:3] == ["Block size", "original: Performance [MiB/s]", "n"]
    assert [row[1] for row in table[:3]] == ["439", "505", "405"]
    # What the budget left no time for says so, in the place of the numbers.
    short = [row for row in table if "not measured" in row[2]]
    assert all("the run ended before this point" in row[2] for row in short)
    measured = [row for row in table if "not measured" not in row[2]]
    samples = exported(elsewhere, "last", "disk.read")
    for row in measured:
        rates = [
            float(each["throughput"])
            for each in samples
            if each["cache"] == "cold"
            and float(each["size"]) == 32 << 20
            and float(each["block_size"]) == _bytes(row[0])
            and each["throughput"]
        ]
        assert int(row[2]) == len(rates)
        # Two digits of the deviation are printed, or four of a single sample.
        deviation = float(np.std(rates, ddof=1)) if len(rates) > 1 else 0.0
        close = max(0.1 * deviation, 1e-3 * float(np.mean(rates)))
        assert float(row[3].replace(GROUP, "")) == pytest.approx(np.mean(rates), abs=close)


def _bytes(text: str) -> int:
    value, unit = text.split(" ")
    return int(value) << {"B": 0, "KiB": 10, "MiB": 20}[unit]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("disc",), "there is no document 'disc': did you mean 'disk'?"),
        (
            ("disk", "--output", "a.pdf"),
            (
                "--output a.pdf: the name ends in neither .html nor .md: "
                "end the name in .html or .md, such as oscope-disk.html"
            ),
        ),
        (("disk", "--run", "last", "--quick"), "--run and --quick contradict each other: leave out --quick"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_measured(
    words: tuple[str, ...], reported: str, elsewhere: CommandLine
) -> None:
    refused = elsewhere("assignment", *words)
    assert (refused.code, refused.out, refused.err) == (2, "", f"oscope: {reported}\n")


def test_a_run_that_has_nothing_of_the_document_is_refused(elsewhere: CommandLine, disk: Answer) -> None:
    del disk
    refused = elsewhere("assignment", "ipc", "--run", "last")
    assert refused.code == 2
    assert "has nothing that Cambridge L41 lab 2 measures" in refused.err
