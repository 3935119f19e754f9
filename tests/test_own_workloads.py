"""Workloads of the user's own: programs that speak the wire, `oscope.toml`, and programs that lie."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cli_driver import ROOT, CommandLine
from oscope import api, labs
from oscope.model.errors import OscopeError, ProbeError, UsageError
from oscope.probe import own_project
from oscope.probe.own_program import describe, find_program

# The description of the stand-in for the probe is in the environment.
FAKE = (ROOT / "tests" / "fake_probe.py").read_text()
LIAR = FAKE.replace('"FAKE_PROBE_DESCRIBE"', '"NOT_SET"')
BENCH = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT / "python")!r})
import oscope.workload as kit

@kit.workload("sort.list", metrics={{"items": kit.Metric("count", doc="Items sorted.")}})
def sort_list(size: int = 100):
    "Sort a list of numbers."
    numbers = list(range(size, 0, -1))
    def iterate():
        print("chatter on standard output")
        return {{"items": len(sorted(numbers))}}
    return iterate

kit.main()
"""
TOML = """
name = "mine"

[workloads]
"fake.work" = { command = "./liar", patience = "60s" }
"sort.list" = "./mybench"

[experiments."sort.sizes"]
workload = "sort.list"
title = "Sorting by size"
question = "How does sorting grow?"
factors = { size = [10, 1000] }
metrics = ["time_ns"]
reps = 4
blocks = 2
"""


@pytest.fixture
def project(oscope: CommandLine, tmp_path: Path) -> CommandLine:
    """Make a folder with two programs and their oscope.toml; give the command line in one below it."""
    folder = tmp_path / "project"
    (folder / "below").mkdir(parents=True)
    for name, text in (("liar", f"#!{sys.executable} -IS\n{LIAR}"), ("mybench", BENCH)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "oscope.toml").write_text(TOML)
    return CommandLine(folder / "below", oscope.environment)


def values(point: dict[str, Any], metric: str) -> list[float]:
    """Return a metric of all samples of a point of a record."""
    found: list[float] = point["metrics"][metric]["values"]
    return found


def count(point: dict[str, Any]) -> int:
    """Return how many samples a point of a record has."""
    return len(point["samples"]["raw"])


def described(**parts: object) -> str:
    """Return the text of a program that describes a workload `a` with these parts."""
    one = {"name": "a", "metrics": [{"name": "m", "unit": "s"}], **parts}
    whole = {"schema": "oscope.probe/1", "workloads": [one]}
    return f"print({json.dumps(whole)!r})"


def alone(project: CommandLine) -> CommandLine:
    """Give the command line in the folder that has the programs, without an oscope.toml."""
    (project.folder.parent / "oscope.toml").unlink()
    return CommandLine(project.folder.parent, project.environment)


def test_a_program_is_measured_stored_and_shown_without_it(project: CommandLine) -> None:
    here = alone(project)
    ran = here(
        "run",
        "--workload",
        "./mybench",
        "sort.list",
        "--set",
        "size=10,20",
        "--reps",
        "4",
        "--no-again",
        "--json",
        "-",
    )
    assert ran.code == 0, ran.err
    record = json.loads(ran.out)
    assert record["experiment"] == record["workload"] == "sort.list"
    assert [point["factors"] for point in record["points"]] == [{"size": 10}, {"size": 20}]
    assert [values(point, "items") for point in record["points"]] == [[10] * 4, [20] * 4]
    assert record["environment"]["clock"]["kind"] == "monotonic_raw"
    program = record["environment"]["program"]
    assert program["name"] == "./mybench"
    assert len(program["sha256"]) == 64
    (here.folder / "mybench").unlink()
    shown = here("show", "last")
    assert shown.code == 0
    assert "Sort a list of numbers" in shown.out
    assert here("export", "last", "--format", "csv").out.count("\n") == 9
    assert here("report", "last", "-o", "report.html").code == 0
    page = (here.folder / "report.html").read_text()
    assert "in a fresh process of the program" in page
    assert "in a fresh probe process" not in page
    assert "oscope run --workload ./mybench sort.list --set size=10,20" in page
    assert "sort.list" in here("history", "sort.list").out


def test_the_program_without_a_kit_of_the_documentation_is_measured(project: CommandLine) -> None:
    section = (ROOT / "docs/own-workloads.md").read_text().partition("## Without a kit")[2]
    program = project.folder / "prog.py"
    program.write_text(section.partition("```python\n")[2].partition("```")[0])
    program.chmod(0o755)
    sizes = ("--set", "size=1000,100000", "--reps", "4")
    done = project("run", "--workload", "./prog.py", "my.sort", *sizes, "--json", "record.json")
    assert done.code == 0, done.err
    points = json.loads((project.folder / "record.json").read_text())["points"]
    assert [len(point["metrics"]["time_ns"]["values"]) for point in points] == [4, 4]


def test_the_raw_time_is_in_the_programs_own_clock(project: CommandLine) -> None:
    here = alone(project)
    ran = here("run", "--workload", "./mybench", "sort.list", "--reps", "3", "--json", "-")
    (point,) = json.loads(ran.out)["points"]
    columns = [point["samples"][name] for name in ("raw", "correction", "iterations")]
    for raw, correction, iterations, time_ns in zip(*columns, values(point, "time_ns"), strict=True):
        assert time_ns == pytest.approx((raw - correction) / iterations)


def test_without_a_name_all_that_the_program_describes_is_measured(project: CommandLine) -> None:
    ran = alone(project)("run", "--workload", "./mybench", "--reps", "2", "--json", "-")
    assert json.loads(ran.out)["experiment"] == "sort.list"


def test_a_full_stop_of_the_purpose_is_not_followed_by_a_colon(project: CommandLine) -> None:
    ran = alone(project)("run", "--workload", "./mybench", "--reps", "2", "--no-again")
    assert ran.code == 0, ran.err
    assert "Sort a list of numbers: " in ran.out
    assert "numbers.:" not in ran.out


def test_without_a_name_the_experiments_of_a_project_take_the_place_of_the_defaults(
    project: CommandLine,
) -> None:
    ran = project("run", "--workload", "../mybench", "--no-again", "--json", "-")
    assert ran.code == 0, ran.err
    record = json.loads(ran.out)
    assert record["experiment"] == "sort.sizes"
    assert [point["factors"] for point in record["points"]] == [{"size": 10}, {"size": 1000}]


def test_a_project_is_found_from_a_folder_below(project: CommandLine) -> None:
    ran = project("run", "sort.sizes", "--no-again", "--json", "-")
    assert ran.code == 0, ran.err
    record = json.loads(ran.out)
    assert (record["experiment"], record["workload"]) == ("sort.sizes", "sort.list")
    assert [count(point) for point in record["points"]] == [4, 4]
    assert record["settings"]["blocks"] == 2
    # The lab's own name stands for all of them; what is set by hand replaces the file's levels.
    ran = project("run", "mine", "--set", "size=5", "--reps", "2", "--json", "-")
    assert ran.code == 0, ran.err
    records = json.loads(ran.out)
    assert {each["experiment"] for each in records} == {"sort.sizes", "fake.work"}
    (sizes,) = [each for each in records if each["experiment"] == "sort.sizes"]
    assert [point["factors"] for point in sizes["points"]] == [{"size": 5}]


def test_another_build_of_the_program_takes_its_place(project: CommandLine) -> None:
    other = project.folder.parent / "other"
    other.write_text(BENCH.replace("len(sorted(numbers))", "7"))
    other.chmod(0o755)
    ran = project("run", "--workload", "../other", "sort.sizes", "--no-again", "--json", "-")
    assert values(json.loads(ran.out)["points"][0], "items") == [7] * 4


def test_runs_of_a_program_are_compared_and_gated(project: CommandLine) -> None:
    for _ in range(2):
        assert project("run", "sort.sizes", "--reps", "6").code == 0
    ids = [line.split()[0] for line in project("runs").out.splitlines() if line.startswith("20")]
    compared = project("compare", ids[-2], ids[-1])
    assert compared.code == 0, compared.err
    assert "sort.sizes" in compared.out
    assert project("gate", ids[-2], ids[-1], "--max-regression", "9900%").code == 0


def test_a_run_goes_on_once_the_program_is_fixed(project: CommandLine) -> None:
    assert project("run", "fake.work", "--set", "do=ok,garbage", "--reps", "4", "--no-again").code == 1
    program = project.folder.parent / "liar"
    program.write_text(program.read_text().replace('do == "garbage"', "do is None"))
    resumed = project("run", "--resume", "last", "--json", "-")
    assert resumed.code == 0, resumed.err
    record = json.loads(resumed.out)
    assert [count(point) for point in record["points"]] == [4, 4]
    assert any("another build of ./liar" in each for each in record["settings"]["notes"])


def test_a_run_whose_program_is_gone_is_not_resumed(project: CommandLine) -> None:
    project("run", "sort.sizes", "--budget", "1ms")
    (project.folder.parent / "mybench").unlink()
    resumed = project("run", "--resume", "last")
    assert resumed.code == 1
    assert "./mybench" in resumed.err
    assert len(resumed.errors) == 1


def test_the_list_has_them_and_says_what_is_missing(project: CommandLine) -> None:
    (project.folder.parent / "liar").unlink()
    names = project("list").out.splitlines()
    assert any(line.split()[:1] == ["mine"] and "sort.sizes" in line for line in names)
    described = project("list", "mine")
    assert described.code == 0
    own_part = described.out[described.out.index("mine: ") :]
    assert "sort.sizes: Sorting by size" in own_part
    assert "size        10, 1000" in own_part
    assert "missing" in own_part
    assert "liar" in own_part
    only = project("list", "--workload", "../mybench")
    assert "syscall.cost" not in only.out
    assert "items [count]" in only.out


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("garbage", ["broke the protocol (not JSON", "all else on standard error"]),
        ("foreign", ["answered request", '"id" of the request']),
        ("chatter", ["spoke on after the end", "nothing after done"]),
        ("endless", ["a line", "line feed"]),
        ("lacks_metric", ["without the metric cycles", "each metric that describe names"]),
        ("unknown_metric", ["undescribed metric joules", "each metric that describe names"]),
        ("no_iterations", ["iterations is 0", "JSON a line"]),
        ("too_many", ["gave 2 samples where 1 were asked for", "as many repetitions"]),
        ("too_few", ["gave 0 of the 1 samples asked for", "as many repetitions"]),
        ("miscounts", ["gave 1 of the 2 samples", "as many repetitions"]),
    ],
)
def test_a_program_that_lies_ends_the_run_in_one_line(
    project: CommandLine, do: str, words: list[str]
) -> None:
    if do == "endless":
        # It has to be read before its patience ends, however busy this machine is.
        toml = project.folder.parent / "oscope.toml"
        toml.write_text(TOML.replace("1s", "60s"))
    ran = project("run", "fake.work", "--set", f"do={do}", "--reps", "2")
    assert ran.code == 1
    assert len(ran.errors) == 1, ran.err
    for word in ("./liar", "fake.work", *words):
        assert word in ran.errors[0]


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("die", ["killed by SIGSEGV", "segment violated", '"do":"die"', "./liar run"]),
        ("exit", ["ended with status 3", "giving up", "./liar run"]),
    ],
)
def test_a_program_that_is_lost_is_tried_again_and_given_up(
    project: CommandLine, do: str, words: list[str]
) -> None:
    ran = project("run", "fake.work", "--set", f"do={do}", "--reps", "4")
    assert ran.code == 1
    for word in ("./liar", *words):
        assert word in ran.errors[0], ran.err
    assert "was lost over it 2 times" in ran.err
    assert project("show", "last").code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("print('hello')", ["printed no JSON", "docs/own-workloads.md"]),
        ("", ["printed no JSON (it printed nothing): print one JSON object", "docs/own-workloads.md"]),
        ("import sys; sys.exit('no such thing')", ["status 1", "no such thing"]),
        ("print('{}')", ["schema"]),
        ('print(\'{"schema": "oscope.probe/2"}\')', ["oscope.probe/2", "oscope.probe/1"]),
        ('print(\'{"schema": "oscope.probe/1"}\')', ['lacks "workloads"']),
        ('print(\'{"schema": "oscope.probe/1", "workloads": [{"name": "a b"}]}\')', ["'a b'"]),
        ('print(\'{"schema": "oscope.probe/1", "workloads": [{"name": "a"}]}\')', ['a lacks "metrics"']),
        (described(metrics=[{"name": "m"}]), ["metric 1 (m)", 'lacks "unit"']),
        (described(metrics=[{"name": "m", "unit": "s", "better": "higher"}]), ["'higher'", '"more"']),
        (described(metrics=[{"name": "m", "unit": "s", "quantity": "mass"}]), ["'mass'", "cpu_time"]),
        (described(metrics=[{"name": "m", "unit": "s", "what": 7}]), ["metric 1 (m)", '"what" is not']),
        (
            described(parameters=[{"name": "p", "type": "integer", "default": "x"}]),
            ["the default p=x", "whole number"],
        ),
        (described(parameters=[{"name": "p", "type": "float", "default": 1}]), ["'float'", "duration"]),
        (described(metrics=[{"name": "m", "unit": "s"}] * 2), ["the metric m twice"]),
        ("while True: print('x' * 65536)", ["16 MiB"]),
    ],
)
def test_a_wrong_description_is_one_line_that_names_the_part(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    program = tmp_path / "bench"
    program.write_text(f"#!{sys.executable} -IS\n{text}\n")
    program.chmod(0o755)
    with pytest.raises(ProbeError) as error:
        describe(find_program("./bench", tmp_path))
    assert "\n" not in str(error.value)
    for word in ("./bench describe", *words):
        assert word in str(error.value)


def test_a_program_that_cannot_describe_itself_is_told_why(project: CommandLine, tmp_path: Path) -> None:
    command = [str(project.folder.parent / "mybench"), "--disk"]
    with pytest.raises(ProbeError, match="status 2; its last words: ") as refused:
        describe(find_program(command, tmp_path))
    assert refused.value.remedy == "leave out its arguments (--disk), or have the program take them"
    path = tmp_path / "without"
    path.write_text(f"#!{sys.executable} -IS\nimport oscope.workload\n")
    path.chmod(0o755)
    with pytest.raises(ProbeError, match="No module named 'oscope'") as refused:
        describe(find_program("./without", tmp_path))
    assert f"#!{sys.executable}" in str(refused.value.remedy)


def test_the_examples_of_the_page_work_as_printed(oscope: CommandLine, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own-workloads.md").read_text().partition("## Without a kit")[0]
    blocks = re.findall(r"(?:^    .*\n|^\n)+", page, re.MULTILINE)
    program, project = (textwrap.dedent(block).strip() + "\n" for block in blocks if block.strip())
    (tmp_path / "mybench").write_text(program)
    (tmp_path / "mybench").chmod(0o755)
    activated = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    here = CommandLine(tmp_path, oscope.environment | {"PATH": activated, "PYTHONPATH": str(ROOT / "python")})
    ran = here("run", "--workload", "./mybench", "sort.list", "--set", "size=100,10000", "--reps", "2")
    assert ran.code == 0, ran.err
    (tmp_path / "oscope.toml").write_text(project)
    ran = here("run", "sort.sizes", "--reps", "2")
    assert ran.code == 0, ran.err


def test_a_command_never_meets_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "a program"
    text = "import json, sys\nsys.exit(json.dumps(sys.argv[1:]))\n"
    script.write_text(f"#!{sys.executable} -IS\n{text}")
    script.chmod(0o755)
    assert find_program("./a program", tmp_path).command == (str(tmp_path / "a program"),)
    program = find_program("'./a program' $(touch x) ';' `id` --name='a b'", tmp_path)
    assert program.command[1:] == ("$(touch", "x)", ";", "`id`", "--name=a b")
    with pytest.raises(ProbeError, match=r'\["\$\(touch", "x\)", ";", "`id`", "--name=a b", "describe"\]'):
        describe(program)
    assert not (tmp_path / "x").exists()


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        find_program("./missing", tmp_path)
    with pytest.raises(UsageError, match="nor on the PATH"):
        find_program("missing-program-of-oscope", tmp_path)
    (tmp_path / "text").write_text("no program")
    with pytest.raises(UsageError, match="not executable: chmod"):
        find_program("./text", tmp_path)
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(ProbeError, match="#! line"):
        describe(find_program("./text", tmp_path))
    with pytest.raises(UsageError, match="close the quotation"):
        find_program("'./text", tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[workloads", ["Expected"]),
        ("", ["neither [workloads] nor"]),
        ('workload = "x"', ["no key 'workload'"]),
        ("[workloads]\na = 3", ["a: no command"]),
        ('[workloads]\na = { command = "./a", patience = "soon" }', ["soon"]),
        ('[experiments."e"]\nworkload = "a"', ["has no program", '"a" = "./program"']),
        ('[workloads]\na = "./a"\n[experiments.e]\nworkload = "a"\nreps = 0', ["reps = 0"]),
        ('[workloads]\na = "./a"\n[experiments.e]\nworkload = "a"\nfactor = 1', ["no key 'factor'"]),
        ('[workloads]\na = "./a"\n[experiments.e]\nworkload = "a"\nfactors = { x = [[1]] }', ["levels"]),
        ('[workloads]\n"syscall.cost" = "./a"', ["Oscope's own"]),
    ],
)
def test_a_wrong_oscope_toml_is_one_line_that_names_the_part(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    file = tmp_path / "oscope.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        own_project.load_project(file, labs.built_in().names)
    assert "\n" not in str(error.value)
    for word in (str(file), *words):
        assert word in str(error.value)


def test_a_file_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "oscope.toml"
    file.write_text('[workloads]\na = "./a"\n')
    file.chmod(0o666)
    with pytest.raises(UsageError, match="chmod o-w"):
        own_project.load_project(file)
    file.chmod(0o644)
    own_project.load_project(file)
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
        with pytest.raises(UsageError, match="another user"):
            own_project.load_project(file)


def test_an_unknown_name_gets_the_nearest_of_the_project_too(project: CommandLine) -> None:
    ran = project("run", "sort.size")
    assert ran.code == 2
    assert "did you mean 'sort.sizes'?" in ran.err
    assert "oscope.toml" in ran.err
    # Names that are built in need neither the file nor its programs.
    (project.folder.parent / "oscope.toml").write_text("[")
    assert project("run", "null", "--set", "nothing=1").code == 2


def test_it_is_measured_on_this_machine_only(project: CommandLine) -> None:
    ran = project("run", "sort.sizes", "--on", "guest")
    assert ran.code in (1, 2)
    assert len(ran.errors) == 1


def test_a_name_of_the_probes_is_refused(project: CommandLine) -> None:
    (project.folder.parent / "clash").write_text(BENCH.replace("sort.list", "syscall.cost"))
    (project.folder.parent / "clash").chmod(0o755)
    ran = project("run", "--workload", "../clash")
    assert ran.code == 2
    assert "Oscope's own" in ran.err


def test_errors_are_of_the_kind_that_commands_catch() -> None:
    assert issubclass(ProbeError, OscopeError)


def test_two_builds_of_a_program_are_measured_interleaved(project: CommandLine) -> None:
    here = alone(project)
    (here.folder / "better").write_text(BENCH.replace("len(sorted(numbers))", "2 * len(sorted(numbers))"))
    (here.folder / "better").chmod(0o755)
    done = here("ab", "./mybench", "./better", "sort.list", "--budget", "2s", "--json", "ab.json")
    assert done.code == 0, done.err
    verdict = re.compile(r"sort\.list: B \([-\w]+, \./better\) against A \([-\w]+, \./mybench\)")
    assert verdict.search(" ".join(done.out.split()))
    one, two = json.loads((here.folder / "ab.json").read_text())
    assert [each["environment"]["program"]["name"] for each in (one, two)] == ["./mybench", "./better"]
    assert [set(values(each["points"][0], "items")) for each in (one, two)] == [{100}, {200}]
    blocks = [set(each["points"][0]["samples"]["block"]) for each in (one, two)]
    assert blocks[0] == blocks[1]
    before = (here.folder / "mybench").read_bytes()
    for wrong, words in (
        (("--json", "mybench"), ["mybench is a program"]),
        (("--threshold", "0"), ["--threshold 0"]),
    ):
        (reported,) = here("ab", "./mybench", "./better", "sort.list", *wrong).errors
        assert all(word in reported for word in words), reported
    assert (here.folder / "mybench").read_bytes() == before
    (reported,) = here("ab", "./mybench", "./better", "syscall.cost").errors
    assert "./mybench is no build of oscope-probe" in reported
    probe = os.environ["OSCOPE_PROBE"]
    (reported,) = here("ab", probe, "./better", "sort.list").errors
    assert f"{probe}, a build of oscope-probe: there is no experiment 'sort.list'" in reported
    (reported,) = here("ab", "./mybench", "./better", "sort.lost").errors
    assert reported.startswith("oscope: ./mybench: there is no experiment 'sort.lost'")
    mixed = here("ab", "./mybench", "./better", "sort.list", "syscall.cost")
    assert (mixed.code, mixed.errors) == (
        2,
        ["oscope: syscall.cost is measured by the probe, not by ./mybench: leave it out"],
    )


@pytest.mark.usefixtures("real_probe")
def test_python_measures_a_program_and_what_a_project_declares(
    project: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    sizes = api.run("sort.sizes", reps=3, again=False).results.experiments[0]
    assert [list(point.metrics["items"]) for point in sizes.points] == [[10.0] * 3, [1000.0] * 3]
    with pytest.raises(UsageError, match=r"no experiment 'sort.nothing', nor in .*oscope.toml"):
        api.run("sort.nothing")
    monkeypatch.chdir(alone(project).folder)
    run = api.run("sort.list", workload="./mybench", size=[10, 20], reps=3)
    assert [point.factors["size"] for point in run.results.experiments[0].points] == [10, 20]
    assert run.results.experiments[0].environment["program"]["name"] == "./mybench"
