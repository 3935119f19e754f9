"""`oscope bench --git A..B --bisect` with real repositories: which commit it finds, and how sure it is."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_driver import CommandLine
from git_scene import BYTES, SHOW, Repository, Slowness, last_line, left
from oscope.programs.bisection import sentences
from oscope.statistics.bisection import Group
from waiting import wait_until


def test_a_bisection_finds_the_commit_and_says_how_sure_it_is(
    bench_git: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    before = repository.state()
    found = tmp_path / "found.json"
    done = bench_git("bench", *BYTES, "--git", "c0..main", "--bisect", "--export", "json", str(found), *SHOW)
    assert done.code == 0, done.err
    result = json.loads(found.read_bytes())
    assert [each["subject"] for each in result["suspects"]] == ["Change 5"]
    assert result["differ"] == "yes"
    assert 0.95 <= result["probability"] < 1
    assert "(Change 5) changed written_bytes: probability" in done.out
    assert "there written_bytes changes by +50" in done.out
    assert sum(each["probability"] for each in result["commits"]) == pytest.approx(1, abs=1e-4)
    assert bench_git.runs() == result["runs"]
    assert "bisection: " in bench_git("show", "last").out
    assert repository.state() == before
    assert left() == []


def test_commits_that_do_not_build_are_skipped_and_named_with_their_last_lines(
    bench_git: CommandLine, repository: Repository, tmp_path: Path
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
    done = bench_git(
        "bench", *BYTES, "--git", f"c0..{last}", "--bisect", "--build", build,
        "--export", "json", str(found), *SHOW,
    )  # fmt: skip
    assert done.code == 0, done.err
    result = json.loads(found.read_bytes())
    assert [each["subject"] for each in result["suspects"]] == ["Other 4", "Other 5", "Other 6"]
    assert {each["subject"] for each in result["commits"] if each["skipped"]} == {"Other 4", "Other 5"}
    assert "its build: broken on purpose" in done.err
    assert "ended with exit code 3" in done.err
    assert "one of 3 commits changed written_bytes" in done.out
    assert "2 of them could not be measured" in done.out
    assert repository.state() == before
    assert left() == []


def test_ends_that_do_not_differ_end_it_at_once(bench_git: CommandLine) -> None:
    done = bench_git("bench", *BYTES, "--git", "c0..c4", "--bisect", *SHOW)
    assert done.code == 0, done.err
    assert "they do not differ; nothing to bisect" in done.out
    assert len(bench_git.runs()) == 1
    assert left() == []


@pytest.mark.parametrize(("low", "explained"), [(0.93, True), (1.07, False)])
def test_intervals_that_hold_no_change_are_explained_beside_a_high_probability(
    low: float, explained: bool
) -> None:
    commits = [SimpleNamespace(label=name, name=name, short=name, subject=f"Change {name}") for name in "ab"]
    row = SimpleNamespace(ratio=1.32, ci95=(low, 1.88))
    found: Any = SimpleNamespace(
        line=commits, differ=True, group=Group(0, 1, 0.985), skipped={}, jump=row, jumped=(0, 1), ends=[row],
        steps=[0] * 7,
    )  # fmt: skip
    lines = sentences(found, "cpu_ns")
    assert lines[0] == "b (Change b) changed cpu_ns: probability 98.5 %"
    text = "the intervals are of the last step alone; the probability rests on all 7"
    assert (text in lines) is explained


SPIN = """#include "cost.h"
int main(void) {
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < COST; i++) sum += i;
    return 0;
}
"""


def test_a_busy_loop_that_got_slower_is_found_by_its_time(
    bench_git: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    for number in range(6):
        cost = 4_000_000 if number < 4 else 64_000_000
        broken = "\n#error broken on purpose" if number == 3 else ""
        files = {"spin.c": SPIN, "cost.h": f"#define COST {cost}UL{broken}\n", "note": f"loop {number}"}
        repository.commit(f"Loop {number}", files)
        repository.git("tag", f"l{number}")
    found = tmp_path / "found.json"
    done = bench_git(
        "bench", "--reps", "30", "--metric", "cpu_ns", "--seed", "1", "--git", "l0..l5", "--bisect",
        "--build", "cc -O1 -o spin spin.c", "--export", "json", str(found), "--", "./spin",
    )  # fmt: skip
    assert done.code == 0, done.err
    result = json.loads(found.read_bytes())
    suspects = {each["subject"] for each in result["suspects"]}
    assert "Loop 4" in suspects, done.out
    # The one before may be skipped, and is then not told from it.
    assert suspects <= {"Loop 3", "Loop 4"}
    assert 0.5 < result["probability"] < 1
    assert left() == []


def test_along_first_parents_a_merge_is_one_commit_and_says_how_to_look_into_it(
    bench_git: CommandLine, repository: Repository
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
    done = bench_git("bench", *BYTES, "--git", "c0..merged", "--bisect", *show)
    assert done.code == 1
    assert "cat: other" in last_line(done)
    done = bench_git("bench", *BYTES, "-i", "--git", "c0..merged", "--bisect", *show)
    assert done.code == 0, done.err
    assert f"{merge[:12]} (Merge the side) changed written_bytes" in done.out
    base, tip = (repository.git("rev-parse", name)[:12] for name in ("c2", "side"))
    assert f"is a merge; to look into it: --git {base}..{tip} --bisect" in done.out
    done = bench_git("bench", *BYTES, "-i", "--git", f"{base}..{tip}", "--bisect", *show)
    assert "(Side 1) changed written_bytes" in done.out, done.err


def test_a_bisection_that_was_interrupted_goes_on_from_its_runs(
    bench_git: CommandLine, slowness: Slowness, tmp_path: Path
) -> None:
    words = ("--reps", "6", "--warmup", "0", "--metric", "written_bytes", "--git", "c0..c8", "--bisect")
    process = bench_git.start("bench", *words, "--", "sh", "-c", slowness.script)
    wait_until(lambda: len(bench_git.runs()) >= 2, "the second run", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "continue with oscope bench --resume" in err
    slowness.end()
    before, found = bench_git.runs(), tmp_path / "found.json"
    run = err.split("--resume ")[-1].split()[0]
    done = bench_git("bench", "--resume", run, "--export", "json", str(found))
    assert done.code == 0, done.err
    result = json.loads(found.read_bytes())
    assert [each["subject"] for each in result["suspects"]] == ["Change 5"]
    assert result["runs"][: len(before)] == before
    assert left() == []
