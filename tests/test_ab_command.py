"""`oscope ab` on programs of the user's own: what it prints, stores and reports of both."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from cli_driver import CommandLine
from oscope.cli.stored import with_programs
from oscope.storage import record
from sorting_program import PROGRAM as SORTING
from waiting import wait_until

SUM = """@kit.workload("sum.list")
def sum_list(size: int = 100):
    "Sum a list of numbers."
    return lambda: sum(range(size))

kit.main()
"""
PROGRAM = SORTING.replace("kit.main()\n", SUM)
BROKEN = PROGRAM.replace("return lambda: sorted", "return lambda: 1 / (size - 10) and sorted")


@pytest.fixture
def builds(oscope: CommandLine, tmp_path: Path) -> CommandLine:
    """Make a folder with three builds of a program; `broken` fails at size=10."""
    for name, text in (("old", PROGRAM), ("new", f"{PROGRAM}# new\n"), ("broken", BROKEN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return CommandLine(tmp_path, oscope.environment)


def words(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


def test_a_level_that_fails_in_one_build_leaves_the_others_compared(builds: CommandLine) -> None:
    done = builds("ab", "./old", "./broken", "sort.list", "--set", "size=10,100", "--budget", "1s")
    assert done.code == 1
    assert "ZeroDivisionError" in done.errors[-1]
    assert re.search(r"sort\.list: B \([-\w]+, \./broken\) against A \([-\w]+, \./old\)", words(done.out))
    assert "[size=10]: not compared" in done.out
    # What it stored can be compared again by the command that it names.
    (command,) = re.findall(r"^  → oscope (compare \S+ \S+)$", done.out, re.MULTILINE)
    again = builds(*command.split())
    assert again.code == 0, again.err
    assert "./broken" in again.out
    for run, name in zip(command.split()[1:], ("./old", "./broken"), strict=True):
        assert f"run {run}, {name}" in words(done.out)
        assert f"  → oscope show {run}\n" in done.out
    # On the page each note is a sentence of its own.
    assert builds("report", *command.split()[1:], "-o", "both.html").code == 0
    page = (builds.folder / "both.html").read_text()
    comparison = page.partition('<section id="comparison">')[2].partition("</section>")[0]
    (note,) = re.findall(r'<p class="note">(.*?)</p>', comparison, re.DOTALL)
    assert "\n" not in note


def test_where_every_level_fails_the_runs_are_named_still(builds: CommandLine) -> None:
    done = builds("ab", "./old", "./broken", "sort.list", "--set", "size=10", "--budget", "1s")
    assert done.code == 1
    assert "ZeroDivisionError" in done.errors[-1]
    assert "sort.list is not compared: nothing to compare" in words(done.out)
    assert re.search(r"^  → oscope compare \S+ \S+$", done.out, re.MULTILINE)


def test_the_builds_are_named_wherever_their_runs_are_shown(builds: CommandLine) -> None:
    options = ("--set", "size=100", "--budget", "1s", "--report", "ab.html")
    assert builds("ab", "./old", "./new", "sort.list", *options).code == 0
    page = (builds.folder / "ab.html").read_text()
    comparison = page.partition('<section id="comparison">')[2].partition("</section>")[0]
    assert "./old" in comparison
    assert "./new" in comparison
    assert '<th scope="col" class="n">B/A' in comparison
    assert '<a href="#comparison">Comparison</a>' in page
    titles = re.findall(r"<h3>Sort a list of numbers, run [-\w]+, (\S+) <code>", page)
    assert titles == ["./old", "./new"]
    listed = builds("runs").out.splitlines()[-2:]
    (one, two) = (line.split()[0] for line in listed)
    assert [line.rpartition(": ")[2] for line in listed] == ["./old", "./new"]
    shown = words(builds("show", two).out)
    assert re.search(rf"measured by \./new \(SHA-256 [0-9a-f]{{12}}…\), interleaved with run {one}", shown)
    history = builds("history", "sort.list").out
    assert re.search(rf"^{one} .* \./old [0-9a-f]{{12}}$", history, re.MULTILINE)
    assert re.search(rf"^{two} .* \./new [0-9a-f]{{12}}$", history, re.MULTILINE)
    assert "2 builds or programs measured these runs: a change may be that of the build" in words(history)
    # The report on both runs has the comparison, too.
    assert builds("report", one, two, "-o", "both.html").code == 0
    assert '<section id="comparison">' in (builds.folder / "both.html").read_text()
    assert builds("report", one, "-o", "one.html").code == 0
    assert '<section id="comparison">' not in (builds.folder / "one.html").read_text()


def test_a_program_that_was_built_again_is_another_one(builds: CommandLine) -> None:
    for text in (PROGRAM, f"{PROGRAM}# changed\n"):
        (builds.folder / "old").write_text(text)
        assert builds("run", "--workload", "./old", "sort.list", "--reps", "5", "--no-again").code == 0
    compared = words(builds("compare").out)
    found = re.search(
        r"B \([-\w]+, \./old ([0-9a-f]{12})\) against A \([-\w]+, \./old ([0-9a-f]{12})\)", compared
    )
    assert found is not None
    assert found[1] != found[2]


def test_builds_of_the_probe_are_named(oscope: CommandLine, tmp_path: Path, real_probe: Path) -> None:
    other = tmp_path / "other-probe"
    other.write_bytes(real_probe.read_bytes())
    other.chmod(0o755)
    here = CommandLine(tmp_path, oscope.environment)
    level = ("--set", "call=getppid", "--set", "style=loop", "--budget", "1s", "--json", "ab.json")
    done = here("ab", str(real_probe), "./other-probe", "syscall.cost", *level)
    assert done.code == 0, done.err
    assert re.search(rf"B \([-\w]+, \./other-probe\) against A \([-\w]+, {real_probe}\)", words(done.out))
    records = json.loads((tmp_path / "ab.json").read_text())
    assert [each["settings"]["build"] for each in records] == [str(real_probe), "./other-probe"]
    assert here("runs").out.splitlines()[-1].endswith("syscall.cost: ./other-probe")


def test_the_report_has_the_command_that_repeats_both_sides(builds: CommandLine) -> None:
    """Of several experiments each one has its own part of the budget."""
    asked = ("sort.list", "sum.list", "--set", "size=10,20", "--budget", "1s", "--way", "interleaved")
    done = builds("ab", "./old", "./new", *asked, "--json", "both.json", "--report", "both.html")
    assert done.code == 0, done.err
    page = (builds.folder / "both.html").read_text()
    for name in ("sort.list", "sum.list"):
        command = f"oscope ab ./old ./new {name} --set size=10,20 --way interleaved --budget 0.5s"
        assert page.count(f"<pre><code>{command}</code></pre>") == 2
    # A side by itself has none: the other build is in the other run.
    (side, *_) = builds.runs()
    assert builds("report", side, "-o", "side.html").code == 0
    alone = (builds.folder / "side.html").read_text()
    assert "oscope ab" not in alone
    assert "oscope run" not in alone
    again = builds(*command.split()[1:], "--json", "again.json")
    assert again.code == 0, again.err
    first, second = (record.read(builds.folder / file).experiments for file in ("both.json", "again.json"))
    assert [each.settings["budget_s"] for each in (*first, *second)] == [0.5] * 6


def test_help_and_refusals_name_what_it_takes(builds: CommandLine) -> None:
    assert "two builds of a workload program or of the probe" in words(builds("--help").out)
    assert "{EXPERIMENT|LAB...}" in words(builds("ab", "--help").out)
    (builds.folder / "plain").write_text("#!/bin/sh\nexit 0\n")
    (builds.folder / "plain").chmod(0o755)
    (refused,) = builds("ab", "./plain", "./new", "sort.list").errors
    assert refused.startswith("oscope: ./plain describe printed no JSON")
    assert refused.endswith("or measure whole commands: oscope bench -- ./plain --vs ./new")
    (refused,) = builds("ab", "./old", "./new", "NOSUCH").errors
    assert refused.startswith("oscope: ./old: there is no experiment 'NOSUCH': ./old has ")
    assert "sort.list" in refused


def test_a_list_of_runs_cuts_commands_but_no_path_of_a_build() -> None:
    builds = ["/home/me/old/target/release/oscope-probe", "/home/me/new/target/release/oscope-probe"]
    assert [with_programs("syscall.cost", [each], 20).partition(": ")[2] for each in builds] == builds
    assert with_programs("command.run", ["sleep 0.1", "sleep 0.2"], 20) == "command.run: sleep …"
    assert with_programs("command.run", ["sleep 0.1"], 40) == "command.run: sleep 0.1"


def test_an_experiment_without_values_leaves_the_others_compared(builds: CommandLine) -> None:
    options = ("sort.list", "sum.list", "--set", "size=10", "--budget", "1s")
    done = builds("ab", "./old", "./broken", *options)
    assert done.code == 1
    assert "sum.list: B (" in words(done.out)
    (command,) = re.findall(r"^  → oscope (compare \S+ \S+)$", done.out, re.MULTILINE)
    again = builds(*command.split())
    assert again.code == 0, again.err
    assert "sum.list: B (" in words(again.out)
    (left_out,) = again.errors
    assert left_out.startswith(
        "oscope: sort.list is not compared: nothing to compare: both sides need values"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_comparison_fails_and_is_not_resumed(builds: CommandLine, number: int) -> None:
    words = ("ab", "./old", "./new", "sort.list", "--set", "size=10", "--budget", "100s", "--threshold", "1%")
    running = builds.start(*words)
    wait_until(lambda: sum(entry.samples > 0 for entry in builds.entries()) == 2, "both samples", running)
    running.send_signal(number)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 1
    first, second = (entry.id for entry in builds.entries())
    assert err.splitlines()[-1].startswith(f"oscope: interrupted: the runs {first} and {second} keep what ")
    assert f"oscope compare {first} {second}" in out
    resumed = builds("run", "--resume", "last")
    assert resumed.code == 2
    assert "compare as far as they go with oscope compare, or begin anew" in resumed.errors[-1]
    assert [entry.status for entry in builds.entries()] == ["interrupted", "interrupted"]
