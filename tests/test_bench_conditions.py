"""Which earlier benches count as unchanged runs: those of the same conditions alone."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine
from git_scene import BYTES, SHOW
from oscope.analysis import earlier_runs
from oscope.model.samples import ExperimentResults
from oscope.programs import functions
from oscope.programs.functions import FunctionBench
from oscope.programs.identity import command_digest
from oscope.statistics.earlier import EarlierRuns
from oscope.storage import record
from oscope.storage.store import Store


@pytest.fixture
def bench(tmp_path: Path, real_probe: Path) -> CommandLine:
    """Give the command line in a folder with some files, and a store of its own."""
    (tmp_path / "other").mkdir()
    for name, text in (("one", "1\n"), ("same", "1\n"), ("two", "2\n")):
        (tmp_path / name).write_text(text)
    own = {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "store.db"), "COLUMNS": "200"}
    return CommandLine(tmp_path, own)


def counted(a: ExperimentResults, b: ExperimentResults, runs: list[ExperimentResults]) -> list[str]:
    """Return the ids of the runs of which the only point of `a` has an earlier point."""
    metric = a.metrics["time_ns"]
    return [
        run.run_id for run in runs if len(EarlierRuns.of(a, b, [run]).points(a.points[0], metric).points) == 1
    ]


def test_runs_of_the_same_conditions_count_and_no_others(bench: CommandLine) -> None:
    usual = ("--input", "one")
    others = {
        "another input": ("--input", "two"),
        "no input": (),
        "a cold file": (*usual, "--cold", "two"),
        "a setup": (*usual, "--setup", "true"),
        "a preparation": (*usual, "--prepare", "true"),
        "a cleanup": (*usual, "--cleanup", "true"),
        "a folder": (*usual, "--cwd", "other"),
        "a variable": (*usual, "--env", "ODD=1"),
        "an output": (*usual, "--output", "out"),
        "a CPU": (*usual, "--pin", str(min(os.sched_getaffinity(0)))),
        "failures": (*usual, "--ignore-failure"),
    }
    same = [usual, ("--input", "same"), (*usual, "--cwd", "."), (*usual, "--output", "/dev/null"), usual]
    for options in (*same, *others.values(), usual):
        done = bench("bench", "--reps", "2", "--name", "work", *options, "--", "cat")
        assert done.code == 0, (options, done.err)
    with Store.read(bench.environment["OSCOPE_STORE"]) as store:
        ids = [entry.id for entry in store.runs()]
        found = [store.results(run).experiments[0] for run in ids]
    a, b = found[0], found[-1]
    named = dict(zip(ids[len(same) :], others, strict=False))
    assert [named.get(run, "the same") for run in counted(a, b, found[1:-1])] == ["the same"] * (
        len(same) - 1
    )
    runs = earlier_runs.earlier_runs(bench.environment["OSCOPE_STORE"], a, b)
    assert [named.get(run.run_id, run.run_id) for run in runs] == ids[1 : len(same)]


def test_runs_of_changed_code_do_not_crowd_out_unchanged_ones(
    bench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are their samples read: `MOST_READ` is as small as what is found."""
    for content in ("one", "one", "one", "two", "two", "two", "one", "one"):
        done = bench("bench", "--reps", "2", "--name", "work", "--input", content, "--", "cat")
        assert done.code == 0, done.err
    monkeypatch.setattr(earlier_runs, "NEWEST", 2)
    monkeypatch.setattr(earlier_runs, "MOST_READ", 2)
    with Store.read(bench.environment["OSCOPE_STORE"]) as store:
        ids = [entry.id for entry in store.runs()]
        a, b = (store.results(run).experiments[0] for run in ids[-2:])
        assert [run.run_id for run in earlier_runs.earlier_runs_in(store, a, b)] == ids[1:3]


def test_benches_in_two_checkouts_are_alike(bench: CommandLine, tmp_path: Path) -> None:
    digests = []
    for name in ("first checkout", "second checkout"):
        folder = tmp_path / name
        (folder / "data").mkdir(parents=True)
        there = replace(bench, folder=folder)
        done = there("bench", "--reps", "2", "--json", "record.json", "--cwd", "data", "--", "true")
        assert done.code == 0, done.err
        (measured,) = record.read(folder / "record.json").experiments
        digests.append(measured.settings["programs"][0]["sha256"])
    assert digests[0] == digests[1]


def test_digests_of_the_rule_before_count_only_beside_each_other(bench: CommandLine) -> None:
    assert bench("bench", "--reps", "2", "--name", "work", "--json", "record.json", "--", "cat").code == 0
    (measured,) = record.read(bench.folder / "record.json").experiments
    program = Path("/bin/cat").resolve().read_bytes()
    before = hashlib.sha256(hashlib.sha256(program).digest()).hexdigest()

    def run(number: int, digest: str | None) -> ExperimentResults:
        programs = [{"factors": measured.points[0].factors, "sha256": digest}] if digest else None
        settings = measured.settings if digest is None else {**measured.settings, "programs": programs}
        return replace(measured, run_id=f"run-{number}", settings=settings)

    new, old = run(1, None), run(2, before)
    earlier = [run(3, None), run(4, before), run(5, None), run(6, before)]
    assert counted(new, old, earlier) == ["run-3", "run-5"]
    assert counted(old, new, earlier) == ["run-4", "run-6"]


def test_a_digest_has_the_content_of_what_stands_in_files(tmp_path: Path) -> None:
    def digest(**more: Any) -> str:
        params = {"program": "/bin/cat", "arguments": ["cat"], "folder": str(tmp_path)}
        return command_digest({**params, **more}, begun_ns)

    script, written = tmp_path / "script", tmp_path / "written"
    begun_ns = time.time_ns() + 10**9
    asked: list[dict[str, Any]] = [
        {"setup": ["/bin/sh", "script"]},
        {"prepare": ["/bin/sh", "script"]},
        {"cleanup": ["/bin/sh", "-c", ". ./script"], "shell": ["/bin/sh", "-c", ":"]},
        {"input": str(script)},
        {"cold": [str(script)]},
    ]
    found = []
    for text in ("one", "two", "one"):
        script.write_text(text)
        found.append([digest(**each) for each in asked])
    assert found[0] == found[2]
    assert all(one != two for one, two in zip(found[0], found[1], strict=True))
    assert len({*found[0], *found[1], digest()}) == 2 * len(asked) + 1
    # What the command writes itself is another one in each run.
    for text in ("first", "second"):
        written.write_text(text)
        os.utime(written, ns=(begun_ns, begun_ns))
        found.append([digest(cold=[str(written)]), digest(input=str(written))])
    assert found[3] == found[4]
    assert digest(cold=["a", "b"]) == digest(cold=["b", "a"]) != digest(cold=["a"])


def test_of_a_commit_the_folder_within_its_worktree_counts(bench_git: CommandLine, tmp_path: Path) -> None:
    def digests(*options: str, command: tuple[str, ...] = SHOW) -> list[str]:
        kept = tmp_path / "record.json"
        revisions = ("--git", "c4", "--git", "main", "--build", "mkdir -p sub")
        done = bench_git("bench", *BYTES, *revisions, *options, "--json", str(kept), *command)
        assert done.code == 0, done.err
        (experiment,) = record.read(kept).experiments
        return [each["sha256"] for each in experiment.settings["programs"]]

    first = digests()
    assert digests() == first
    assert first[0] != first[1]
    (tmp_path / "given").write_text("given")
    # The same file is the argument, in another folder.
    assert not set(digests("--cwd", "sub", command=("--", "cat", "../data"))) & set(first)
    assert not set(digests("--input", str(tmp_path / "given"))) & set(first)


def test_functions_on_another_cpu_are_others() -> None:
    points = [{"function": "sorted"}]
    (usual,), (again,), (pinned,) = (
        functions._digests(FunctionBench((sorted,), args=([],), cpu=cpu), points) for cpu in (None, None, 0)
    )
    assert usual == again != pinned
