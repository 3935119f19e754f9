"""`oscope bench --git` with real repositories: what is measured, and that the user's is left as it was."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli_driver import Answer, CommandLine
from oscope.model.samples import ExperimentResults
from oscope.programs import EXPERIMENT
from oscope.storage.store import Store
from oscope.targets import own_folders
from waiting import wait_until

BYTES = ("--reps", "6", "--warmup", "0", "--metric", "written_bytes")
"""A metric without noise: what a program writes."""
SHOW = ("--", "cat", "data")
IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


class Repository:
    """A repository in a folder, and what it looks like."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        """Return what git prints; it has to succeed."""
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env=os.environ | IDENTITY,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, subject: str, files: Mapping[str, str]) -> str:
        """Return the id of a new commit with these files changed."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def state(self) -> dict[str, tuple[int, int]]:
        """Return every file of the checkout and of .git, with its size and time of change."""
        return {
            str(path.relative_to(self.folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
            for path in self.folder.rglob("*")
        }


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Give a repository whose file grows from 100 kB to 150 kB at commit 5 of 8."""
    made = Repository(tmp_path / "checkout")
    for number in range(9):
        size = 150_000 if number >= 5 else 100_000
        made.commit(f"Change {number}", {"data": "x" * size, "note": str(number)})
        made.git("tag", f"c{number}")
    return made


@pytest.fixture
def bench(
    tmp_path: Path, real_probe: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """Give the command line in the checkout, with a store and a cache of its own outside of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = {
        "OSCOPE_PROBE": str(real_probe),
        "OSCOPE_STORE": str(tmp_path / "store.db"),
        "OSCOPE_STATE": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "COLUMNS": "200",
    }
    return CommandLine(repository.folder, own)


def left() -> list[Path]:
    """Return the folders of Oscope's own that are there."""
    return sorted(own_folders.root().glob("oscope-*"))


def last_line(answer: Answer) -> str:
    return answer.err.splitlines()[-1]


def results_of(bench: CommandLine, run: str = "last") -> ExperimentResults:
    with Store.read(bench.environment["OSCOPE_STORE"]) as store:
        found = store.results(store.resolve(run)).get(EXPERIMENT)
    assert found is not None
    return found


def test_two_revisions_are_built_measured_and_shown_and_the_checkout_is_left_alone(
    bench: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    before = repository.state()
    table, log = tmp_path / "table.csv", tmp_path / "built"
    done = bench(
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
        shown = bench(*command).out
        assert f"{last[:12]}: main, Change 8" in shown
        assert "built by cp data built" in shown
    kept = json.loads(bench("export", "last", "--format", "json").out)["settings"]["revisions"]
    assert [side["commit"] for side in kept["sides"]] == [first, last]


def test_commands_run_in_the_subfolder_that_one_is_in(bench: CommandLine, repository: Repository) -> None:
    repository.commit("Add a folder", {"sub/tool": "#!/bin/sh\ncat here\n", "sub/here": "1" * 10_000})
    (repository.folder / "sub" / "tool").chmod(0o755)
    first = repository.commit("Make it run", {})
    repository.commit("Let it grow", {"sub/here": "1" * 40_000})
    inside = CommandLine(repository.folder / "sub", bench.environment)
    done = inside("bench", *BYTES, "--git", first, "--git", "HEAD", "--", "./tool")
    assert done.code == 0, done.err
    assert "uses 4.0" in done.out
    folders = {Path(p["folder"]).name for p in _params(bench)}
    assert folders == {"sub"}
    done = inside("bench", *BYTES, "--git", "c0", "--git", "HEAD", "--", "./tool")
    assert done.code == 1
    assert "has no folder sub" in last_line(done)


def _params(bench: CommandLine) -> list[dict[str, str]]:
    with Store.read(bench.environment["OSCOPE_STORE"]) as store:
        (experiment,) = store.plan(store.resolve("last")).experiments
    return [dict(each) for each in experiment.params]


def test_a_bisection_finds_the_commit_and_says_how_sure_it_is(
    bench: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    before = repository.state()
    found = tmp_path / "found.json"
    done = bench("bench", *BYTES, "--git", "c0..main", "--bisect", "--export", "json", str(found), *SHOW)
    assert done.code == 0, done.err
    told = json.loads(found.read_bytes())
    assert [each["subject"] for each in told["suspects"]] == ["Change 5"]
    assert told["differ"] == "yes"
    assert 0.95 <= told["probability"] < 1
    assert "(Change 5) changed written_bytes: probability" in done.out
    assert "there written_bytes changes by +50" in done.out
    assert sum(each["probability"] for each in told["commits"]) == pytest.approx(1, abs=1e-4)
    assert bench.runs() == told["runs"]
    assert "bisection: " in bench("show", "last").out
    assert repository.state() == before
    assert left() == []


def test_commits_that_do_not_build_are_skipped_and_named_with_their_last_lines(
    bench: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    # Both that lie around the change: which of them made it cannot be told from the next.
    for number in (4, 5, 6):
        size = 150_000 if number == 6 else 100_000
        repository.git("checkout", "--quiet", "--detach", f"c{number - 1}" if number == 4 else "HEAD")
        build = "echo broken on purpose >&2; exit 3" if number < 6 else "true"
        repository.commit(f"Other {number}", {"data": "x" * size, "build.sh": build})
    last = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "main")
    before, found = repository.state(), tmp_path / "found.json"
    build = "sh -c 'if [ -e build.sh ]; then sh build.sh; fi'"
    done = bench(
        "bench", *BYTES, "--git", f"c0..{last}", "--bisect", "--build", build,
        "--export", "json", str(found), *SHOW,
    )  # fmt: skip
    assert done.code == 0, done.err
    told = json.loads(found.read_bytes())
    assert [each["subject"] for each in told["suspects"]] == ["Other 4", "Other 5", "Other 6"]
    assert {each["subject"] for each in told["commits"] if each["skipped"]} == {"Other 4", "Other 5"}
    assert "its build: broken on purpose" in done.err
    assert "ended with exit code 3" in done.err
    assert "one of 3 commits changed written_bytes" in done.out
    assert "2 of them could not be measured" in done.out
    assert repository.state() == before
    assert left() == []


def test_ends_that_do_not_differ_end_it_at_once(bench: CommandLine) -> None:
    done = bench("bench", *BYTES, "--git", "c0..c4", "--bisect", *SHOW)
    assert done.code == 0, done.err
    assert "they do not differ; nothing to bisect" in done.out
    assert len(bench.runs()) == 1
    assert left() == []


SPIN = """#include "cost.h"
int main(void) {
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < COST; i++) sum += i;
    return 0;
}
"""


def test_a_busy_loop_that_got_slower_is_found_by_its_time(
    bench: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    for number in range(6):
        cost = 10_000_000 if number < 4 else 15_000_000
        broken = "\n#error broken on purpose" if number == 3 else ""
        files = {"spin.c": SPIN, "cost.h": f"#define COST {cost}UL{broken}\n", "note": f"loop {number}"}
        repository.commit(f"Loop {number}", files)
        repository.git("tag", f"l{number}")
    found = tmp_path / "found.json"
    done = bench(
        "bench", "--quick", "--metric", "cpu_ns", "--seed", "1", "--git", "l0..l5", "--bisect",
        "--build", "cc -O1 -o spin spin.c", "--export", "json", str(found), "--", "./spin",
    )  # fmt: skip
    assert done.code == 0, done.err
    told = json.loads(found.read_bytes())
    suspects = {each["subject"] for each in told["suspects"]}
    assert "Loop 4" in suspects
    # The one before may be skipped, and is then not told from it.
    assert suspects <= {"Loop 3", "Loop 4"}
    assert 0.5 < told["probability"] < 1
    assert left() == []


def test_along_first_parents_a_merge_is_one_commit_and_says_how_to_look_into_it(
    bench: CommandLine, repository: Repository
) -> None:
    repository.git("checkout", "--quiet", "-b", "side", "c2")
    for number in range(3):
        repository.commit(f"Side {number}", {"other": "y" * (80_000 if number else 1)})
    repository.git("checkout", "--quiet", "-b", "merged", "c3")
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge the side", "side")
    merge = repository.git("rev-parse", "HEAD")
    repository.commit("After", {"note": "after"})
    show = ("--", "cat", "data", "other")
    repository.git("checkout", "--quiet", "main")
    # Before the merge there is no such file: the program fails at that end.
    done = bench("bench", *BYTES, "--git", "c0..merged", "--bisect", *show)
    assert done.code == 1
    assert "cat: other" in last_line(done)
    done = bench("bench", *BYTES, "-i", "--git", "c0..merged", "--bisect", *show)
    assert done.code == 0, done.err
    assert f"{merge[:12]} (Merge the side) changed written_bytes" in done.out
    base, tip = (repository.git("rev-parse", name)[:12] for name in ("c2", "side"))
    assert f"is a merge; to look into it: --git {base}..{tip} --bisect" in done.out
    done = bench("bench", *BYTES, "-i", "--git", f"{base}..{tip}", "--bisect", *show)
    assert "(Side 1) changed written_bytes" in done.out, done.err


@pytest.mark.parametrize(
    ("words", "told"),
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
    bench: CommandLine, repository: Repository, words: tuple[str, ...], told: str
) -> None:
    before = repository.state()
    done = bench("bench", *BYTES, *words, *SHOW)
    assert (done.code, done.out) == (2, "")
    assert told in last_line(done)
    assert repository.state() == before
    assert left() == []
    assert bench.runs() == []


def test_a_revision_that_does_not_build_or_lacks_the_program_is_told(bench: CommandLine) -> None:
    build = "sh -c 'echo one; echo two >&2; exit 4'"
    done = bench("bench", *BYTES, "--git", "c0", "--git", "c1", "--build", build, *SHOW)
    assert done.code == 1
    assert [line for line in done.err.splitlines() if "its build" in line] == [
        "oscope: its build: one",
        "oscope: its build: two",
    ]
    assert "does not build: sh -c" in last_line(done)
    assert "ended with exit code 4" in last_line(done)
    done = bench("bench", *BYTES, "--git", "c0", "--git", "c1", "--", "./missing")
    assert done.code == 2
    assert "has no program ./missing" in last_line(done)
    assert left() == []


def test_outside_of_a_repository_it_says_so(bench: CommandLine, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = CommandLine(elsewhere, bench.environment)("bench", "--git", "a", "--git", "b", "true")
    assert done.code == 2
    assert "not a git repository" in last_line(done)


def test_changes_that_are_not_committed_are_told_and_not_measured(
    bench: CommandLine, repository: Repository
) -> None:
    (repository.folder / "data").write_text("changed")
    before = repository.state()
    done = bench("bench", *BYTES, "--git", "c0", "--git", "c8", *SHOW)
    assert done.code == 0, done.err
    assert "changes in 1 file that are not committed: they are not measured" in done.err
    assert "uses 50" in done.out
    assert repository.state() == before


def test_no_hook_runs_and_variables_of_a_hook_do_not_mislead(
    bench: CommandLine, repository: Repository, tmp_path: Path
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
    surroundings = {
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_INDEX_FILE": ".git/index",
        "GIT_DIR": "/nonexistent",
    }
    tool = ("--build", "git checkout -q HEAD~0", "--", "git", "status", "--short")
    done = bench("bench", "--reps", "2", "--git", "c0", "--git", "c1", *tool, **surroundings)
    # The build's own git is the user's, with the user's hooks, in the worktree.
    assert done.code == 0, done.err
    assert ran.read_text().count("\n") == 2
    ran.unlink()
    done = bench("bench", *BYTES, "--git", "c0", "--git", "c1", *SHOW, **surroundings)
    assert done.code == 0, done.err
    assert not ran.exists()
    assert repository.state() == before


def test_a_build_sees_tags_a_shallow_clone_works_and_says_where_it_ends(
    bench: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    build = "git describe --tags > data"
    done = bench("bench", *BYTES, "--shell", "--git", "c4", "--git", "c8", "--build", build, "cat data")
    assert done.code == 0, done.err
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth", "3", f"file://{repository.folder}", str(clone))
    shallow = CommandLine(clone, bench.environment)
    done = shallow("bench", *BYTES, "--git", "HEAD~2", "--git", "HEAD", "--build", "git log", *SHOW)
    assert done.code == 0, done.err
    done = shallow("bench", *BYTES, "--git", "HEAD~3", "--git", "HEAD", *SHOW)
    assert done.code == 2
    assert "git fetch --unshallow" in last_line(done)


def test_submodules_are_checked_out_from_the_copies_of_the_checkout(
    bench: CommandLine, repository: Repository, tmp_path: Path
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
    done = bench("bench", *BYTES, "--git", first, "--git", second, "--", "cat", "there/text")
    assert done.code == 0, done.err
    assert "submodules that the checkout does not have stay empty: not" in done.err
    assert repository.state() == before


def test_ctrl_c_during_a_build_leaves_nothing(
    bench: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    before, mark = repository.state(), tmp_path / "mark"
    build = f"sh -c 'sleep 98771 & echo $! > {mark}; wait'"
    process = bench.start("bench", "--git", "c0", "--git", "c8", "--build", build, *SHOW)
    wait_until(lambda: mark.exists() and mark.read_text().strip(), "the build", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
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


SLOW = (
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
    "sleep 0.0981; cat data",
)


def measuring(bench: CommandLine, process: subprocess.Popen[str]) -> None:
    """Wait until the first samples are stored."""
    wait_until(
        lambda: bench.runs() and any(len(point) for point in results_of(bench).points),
        "the first sample",
        process,
    )


def test_ctrl_c_removes_the_worktrees_and_resume_builds_them_again(
    bench: CommandLine, repository: Repository
) -> None:
    before = repository.state()
    process = bench.start(*SLOW)
    measuring(bench, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "go on with oscope bench --resume" in err
    assert left() == []
    done = bench("bench", "--resume", "last")
    assert done.code == 0, done.err
    assert all(len(point) >= 40 for point in results_of(bench).points)
    assert repository.state() == before
    assert left() == []


def test_what_a_killed_bench_left_the_next_command_removes(
    bench: CommandLine, repository: Repository
) -> None:
    before = repository.state()
    process = bench.start(*SLOW)
    measuring(bench, process)
    (folder,) = left()
    other = bench("runs")
    assert other.err == ""
    assert left() == [folder], "a folder in use is left alone"
    process.kill()
    process.communicate()
    assert repository.state() == before
    assert left() == [folder]
    told = bench("runs").err
    assert f"removed, left by a bench that was killed: worktrees in {folder}" in told
    assert left() == []
    assert repository.state() == before
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_folder_that_is_not_as_it_was_made_is_left_alone(bench: CommandLine, tmp_path: Path) -> None:
    root = own_folders.root()
    root.mkdir(parents=True)
    (root / "notes").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "oscope-00000001").symlink_to(elsewhere)
    told = bench("runs").err
    assert "is not the folder that was made" in told
    assert elsewhere.exists()
    assert (root / "notes").exists()


def test_a_bisection_that_was_interrupted_goes_on_from_its_runs(bench: CommandLine, tmp_path: Path) -> None:
    words = ("--reps", "6", "--warmup", "0", "--metric", "written_bytes", "--git", "c0..c8", "--bisect")
    process = bench.start("bench", *words, "--", "sh", "-c", "sleep 0.1; cat data")
    wait_until(lambda: len(bench.runs()) >= 2, "the second run", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "go on with oscope bench --resume" in err
    before, found = bench.runs(), tmp_path / "found.json"
    run = err.split("--resume ")[-1].split()[0]
    done = bench("bench", "--resume", run, "--export", "json", str(found))
    assert done.code == 0, done.err
    told = json.loads(found.read_bytes())
    assert [each["subject"] for each in told["suspects"]] == ["Change 5"]
    assert told["runs"][: len(before)] == before
    assert left() == []
