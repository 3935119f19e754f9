"""`oscope bench --git` with real repositories: what is measured, and that the user's is left as it was."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from cli_driver import CommandLine
from git_scene import BYTES, SHOW, Repository, Slowness, last_line, left
from oscope.model.samples import ExperimentResults
from oscope.programs.spec import EXPERIMENT
from oscope.storage.store import Store
from oscope.targets import own_folders
from waiting import wait_until


def results_of(bench_git: CommandLine, run: str = "last") -> ExperimentResults:
    with Store.read(bench_git.environment["OSCOPE_STORE"]) as store:
        found = store.results(store.resolve(run)).get(EXPERIMENT)
    assert found is not None
    return found


def test_two_revisions_are_built_measured_and_shown_and_the_checkout_is_left_alone(
    bench_git: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    before = repository.state()
    table, log = tmp_path / "table.csv", tmp_path / "built"
    done = bench_git(
        "bench", *BYTES, "--git", "c4", "--git", "main", "--shell", "--export", "csv", str(table),
        "--build", f"cp data built && echo $PWD >> {log}", "cat built",
    )  # fmt: skip
    assert done.code == 0, done.err
    first, last = (repository.git("rev-parse", name) for name in ("c4", "main"))
    assert f"main ({last[:12]}) uses 50" in done.out
    assert f"more than c4 ({first[:12]})" in done.out
    assert repository.state() == before
    assert left() == []
    # Each commit was built once, in a folder of its own that is not the checkout.
    folders = log.read_text().splitlines()
    assert [Path(folder).name for folder in folders] == [first[:12], last[:12]]
    assert all(folder.startswith(str(tmp_path / "cache")) for folder in folders)
    rows = list(csv.DictReader(table.open()))
    assert [(row["commit"], row["subject"], row["named"]) for row in rows] == [
        (first, "Change 4", "c4"),
        (last, "Change 8", "main"),
    ]
    assert all(row["build"].startswith("cp data built") for row in rows)
    for command in (("show", "last"), ("compare", "--by", f"revision={first[:12]},{last[:12]}", "last")):
        shown = bench_git(*command).out
        assert f"{last[:12]}: main, Change 8" in shown
        assert "built by cp data built" in shown
    kept = json.loads(bench_git("export", "last", "--format", "json").out)["settings"]["revisions"]
    assert [side["commit"] for side in kept["sides"]] == [first, last]


def test_commands_run_in_the_subfolder_that_one_is_in(bench_git: CommandLine, repository: Repository) -> None:
    repository.commit("Add a folder", {"sub/tool": "#!/bin/sh\ncat here\n", "sub/here": "1" * 10_000})
    (repository.folder / "sub" / "tool").chmod(0o755)
    first = repository.commit("Make it run", {})
    repository.commit("Let it grow", {"sub/here": "1" * 40_000})
    inside = CommandLine(repository.folder / "sub", bench_git.environment)
    done = inside("bench", *BYTES, "--git", first, "--git", "HEAD", "--", "./tool")
    assert done.code == 0, done.err
    assert "uses 4.0" in done.out
    folders = {Path(p["folder"]).name for p in _params(bench_git)}
    assert folders == {"sub"}
    done = inside("bench", *BYTES, "--git", "c0", "--git", "HEAD", "--", "./tool")
    assert done.code == 1
    assert "has no folder sub" in last_line(done)


def _params(bench_git: CommandLine) -> list[dict[str, str]]:
    with Store.read(bench_git.environment["OSCOPE_STORE"]) as store:
        (experiment,) = store.plan(store.resolve("last")).experiments
    return [dict(each) for each in experiment.params]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--git", "c0", "--git", "nosuch"), "--git nosuch: there is no such revision in"),
        (("--git", "c0", "--git", "-x"), "names no revision"),
        (("--git", "c0"), "names one revision only"),
        (("--git", "c0", "--git", "main~8"), "are one commit"),
        (("--git", "c0...c3"), "three dots"),
        (("--git", "c0", "--git", "c1", "--bisect"), "--bisect takes one range"),
        (("--git", "c3..c0", "--bisect"), "name the older one first: --git c0..c3"),
        (("--git", "c0..c3", "--bisect", "--cwd", "/"), "an absolute path is not in the worktrees"),
        (("--git", "c0", "--git", "c1", "--build", "nosuchprogram"), "--build: there is no program"),
        (("--git", "c0", "--git", "c1", "--build", ""), "--build is empty"),
        (("--build", "make"), "--build needs --git"),
        (("--bisect",), "--bisect needs --git"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(
    bench_git: CommandLine, repository: Repository, words: tuple[str, ...], message: str
) -> None:
    before = repository.state()
    done = bench_git("bench", *BYTES, *words, *SHOW)
    assert (done.code, done.out) == (2, "")
    assert message in last_line(done)
    assert repository.state() == before
    assert left() == []
    assert bench_git.runs() == []


def test_a_revision_that_does_not_build_or_lacks_the_program_is_told(bench_git: CommandLine) -> None:
    build = "sh -c 'echo one; echo two >&2; exit 4'"
    done = bench_git("bench", *BYTES, "--git", "c0", "--git", "c1", "--build", build, *SHOW)
    assert done.code == 1
    assert [line for line in done.err.splitlines() if "its build" in line] == [
        "oscope: its build: one",
        "oscope: its build: two",
    ]
    assert "does not build: sh -c" in last_line(done)
    assert "ended with exit code 4" in last_line(done)
    done = bench_git("bench", *BYTES, "--git", "c0", "--git", "c1", "--", "./missing")
    assert done.code == 2
    assert "has no program ./missing" in last_line(done)
    assert left() == []


def test_outside_of_a_repository_it_says_so(bench_git: CommandLine, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = CommandLine(elsewhere, bench_git.environment)("bench", "--git", "a", "--git", "b", "true")
    assert done.code == 2
    assert "not a git repository" in last_line(done)


def test_changes_that_are_not_committed_are_told_and_not_measured(
    bench_git: CommandLine, repository: Repository
) -> None:
    (repository.folder / "data").write_text("changed")
    before = repository.state()
    done = bench_git("bench", *BYTES, "--git", "c0", "--git", "c8", *SHOW)
    assert done.code == 0, done.err
    assert "changes in 1 file that are not committed: they are not measured" in done.err
    assert "uses 50" in done.out
    assert repository.state() == before


def test_no_hook_runs_and_variables_of_a_hook_do_not_mislead(
    bench_git: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    ran, hooks = tmp_path / "ran", tmp_path / "hooks"
    hooks.mkdir()
    for folder in (hooks, repository.folder / ".git" / "hooks"):
        hook = folder / "post-checkout"
        hook.write_text(f"#!/bin/sh\necho >> {ran}\n")
        hook.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[core]\n\thooksPath = {hooks}\n")
    before = repository.state()
    variables = {
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_INDEX_FILE": ".git/index",
        "GIT_DIR": "/nonexistent",
    }
    tool = ("--build", "git checkout -q HEAD~0", "--", "git", "status", "--short")
    done = bench_git("bench", "--reps", "2", "--git", "c0", "--git", "c1", *tool, **variables)
    # The build's own git is the user's, with the user's hooks, in the worktree.
    assert done.code == 0, done.err
    assert ran.read_text().count("\n") == 2
    ran.unlink()
    done = bench_git("bench", *BYTES, "--git", "c0", "--git", "c1", *SHOW, **variables)
    assert done.code == 0, done.err
    assert not ran.exists()
    assert repository.state() == before


def test_a_build_sees_tags_a_shallow_clone_works_and_says_where_it_ends(
    bench_git: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    build = "git describe --tags > data"
    done = bench_git("bench", *BYTES, "--shell", "--git", "c4", "--git", "c8", "--build", build, "cat data")
    assert done.code == 0, done.err
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth", "3", f"file://{repository.folder}", str(clone))
    shallow = CommandLine(clone, bench_git.environment)
    done = shallow("bench", *BYTES, "--git", "HEAD~2", "--git", "HEAD", "--build", "git log", *SHOW)
    assert done.code == 0, done.err
    done = shallow("bench", *BYTES, "--git", "HEAD~3", "--git", "HEAD", *SHOW)
    assert done.code == 2
    assert "git fetch --unshallow" in last_line(done)


def test_submodules_are_checked_out_from_the_copies_of_the_checkout(
    bench_git: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    inner = Repository(tmp_path / "inner")
    inner.commit("Inner", {"text": "12345"})
    for name in ("there", "not"):
        repository.git(
            "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.folder), name
        )
    first = repository.commit("Add submodules", {})
    second = repository.commit("Change the note", {"note": "more"})
    repository.git("submodule", "--quiet", "deinit", "not")
    subprocess.run(["rm", "-r", str(repository.folder / ".git/modules/not")], check=True)
    before = repository.state()
    done = bench_git("bench", *BYTES, "--git", first, "--git", second, "--", "cat", "there/text")
    assert done.code == 0, done.err
    assert "submodules that the checkout does not have stay empty: not" in done.err
    assert repository.state() == before


def test_ctrl_c_during_a_build_leaves_nothing(
    bench_git: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    before, mark = repository.state(), tmp_path / "mark"
    build = f"sh -c 'sleep 98771 & echo $! > {mark}; wait'"
    process = bench_git.start("bench", "--git", "c0", "--git", "c8", "--build", build, *SHOW)
    wait_until(lambda: mark.exists() and mark.read_text().strip(), "the build", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert err.splitlines()[-1] == "oscope: interrupted"
    wait_until(lambda: not _lives(mark), "the end of what the build started")
    assert repository.state() == before
    assert left() == []


def _lives(mark: Path) -> bool:
    try:
        return "98771" in Path("/proc", mark.read_text().strip(), "cmdline").read_text()
    except OSError:
        return False


def slow(slowness: Slowness) -> tuple[str, ...]:
    """Return a bench of which 80 runs take as long as `slowness` says."""
    return (
        "bench",
        "--reps",
        "40",
        "--warmup",
        "0",
        "--git",
        "c0",
        "--git",
        "c8",
        "--",
        "sh",
        "-c",
        slowness.script,
    )


def test_ctrl_c_removes_the_worktrees_and_resume_builds_them_again(
    bench_git: CommandLine, repository: Repository, slowness: Slowness
) -> None:
    before = repository.state()
    process = bench_git.start(*slow(slowness))
    wait_until(bench_git.has_samples, "the first sample", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "continue with oscope bench --resume" in err
    assert left() == []
    slowness.end()
    done = bench_git("bench", "--resume", "last")
    assert done.code == 0, done.err
    assert all(len(point) >= 40 for point in results_of(bench_git).points)
    assert repository.state() == before
    assert left() == []


def test_what_a_killed_bench_left_the_next_command_removes(
    bench_git: CommandLine, repository: Repository, slowness: Slowness
) -> None:
    before = repository.state()
    process = bench_git.start(*slow(slowness))
    wait_until(bench_git.has_samples, "the first sample", process)
    (folder,) = left()
    other = bench_git("runs")
    assert other.err == ""
    assert left() == [folder], "a folder in use is left alone"
    process.kill()
    process.communicate()
    assert repository.state() == before
    assert left() == [folder]
    errors = bench_git("runs").err
    assert f"removed, left by a bench that was killed: worktrees in {folder}" in errors
    assert left() == []
    assert repository.state() == before
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_folder_that_is_not_as_it_was_made_is_left_alone(bench_git: CommandLine, tmp_path: Path) -> None:
    root = own_folders.root()
    root.mkdir(parents=True)
    (root / "notes").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "oscope-00000001").symlink_to(elsewhere)
    errors = bench_git("runs").err
    assert "is not the folder that was made" in errors
    assert elsewhere.exists()
    assert (root / "notes").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--git", "c0..c8", "--on", "guest"), "--git and --on guest contradict each other"),
        (("--git", "c0..c8", "--bisect", "--trace", "counts"), "--bisect and --trace contradict each other"),
        (("--git", "c0..c8", "--trace", "counts", "--precision", "2%"), "--trace and --precision contradict"),
        (("--git", "c0..c8", "--cpus", "2"), "--cpus is of a guest"),
    ],
)
def test_conditions_that_revisions_cannot_have_are_refused_before_a_build(
    bench_git: CommandLine, words: tuple[str, ...], text: str
) -> None:
    done = bench_git("bench", *words, "--build", "touch built", *SHOW)
    assert done.code == 2
    (line,) = done.errors
    assert text in line
    assert left() == []


def test_revisions_are_compared_untraced_and_each_with_itself_traced(
    bench_git: CommandLine, repository: Repository, copied_probe: Path
) -> None:
    del repository
    words = ("--git", "c0..c8", "--trace", "counts", *BYTES, *SHOW)
    done = bench_git("bench", *words, OSCOPE_PROBE=str(copied_probe))
    assert done.code == 0, done.err
    first, *_ = done.out.splitlines()
    assert re.match(r"c8 \([0-9a-f]{12}\) uses 50.* more than c0 \([0-9a-f]{12}\)", first)
    assert "tracer=" not in first
    for name in ("c0", "c8"):
        traced = rf"{name} \([0-9a-f]{{12}}\) \(tracer=counts\)"
        assert re.search(
            rf"cost of tracing: .*{traced}.* {name} \(|cost of tracing: .*{name} .*{traced}", done.out
        )
    assert {tuple(point.factors) for point in results_of(bench_git).points} == {
        ("command", "revision", "tracer")
    }
    assert left() == []
