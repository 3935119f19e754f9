"""`oscope.bench(git=...)`: the revisions that the command measures, from Python."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import oscope
from cli_driver import CommandLine
from git_scene import Repository, left
from oscope.model.errors import OscopeError, UsageError

BYTES = {"reps": 6, "warmup": 0, "metric": "written_bytes"}


@pytest.fixture
def place(
    bench_git: CommandLine, repository: Repository, real_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Work in the checkout, and return the path of the command line's store."""
    monkeypatch.chdir(repository.folder)
    monkeypatch.setenv("OSCOPE_PROBE", str(real_probe))
    return Path(bench_git.environment["OSCOPE_STORE"])


def test_python_measures_the_revisions_that_the_command_does(
    place: Path,
    bench_git: CommandLine,
    repository: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A variable that a hook has misleads neither git nor the build, and is the caller's again afterwards.
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    before, log = repository.state(), tmp_path / "built"
    found = oscope.bench(  # noqa: S604 - the words are the test's own
        "cat built",
        git=["c4", "main"],
        build=f"cp data built && echo $PWD >> {log}",
        shell="sh",
        store=place,
        **BYTES,  # type: ignore[arg-type]
    )
    assert os.environ.pop("GIT_DIR") == "/nonexistent"
    first, last = (repository.git("rev-parse", name) for name in ("c4", "main"))
    (sentence,) = found.sentences
    assert sentence.startswith(f"main ({last[:12]}) uses 50")
    assert f"more than c4 ({first[:12]})" in sentence
    assert [row["revision"] for row in found.rows()] == [first[:12], last[:12]]
    assert [Path(folder).name for folder in log.read_text().splitlines()] == [first[:12], last[:12]]
    assert repository.state() == before
    assert left() == []
    kept = json.loads(bench_git("export", "last", "--format", "json").out)["settings"]["revisions"]
    assert [side["commit"] for side in kept["sides"]] == [first, last]


def test_a_range_names_two_revisions(place: Path, repository: Repository) -> None:
    found = oscope.bench(["cat data"], git="c4..c8", store=place, **BYTES)  # type: ignore[arg-type]
    commits = [repository.git("rev-parse", name)[:12] for name in ("c4", "c8")]
    assert [row["revision"] for row in found.rows()] == commits
    assert left() == []


def test_what_makes_no_sense_is_refused_and_a_failing_build_says_why(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for options, text in (
        ({"git": "c0"}, "names one revision only"),
        ({"git": ["c0", "nosuch"]}, "there is no such revision"),
        ({"build": "make"}, "build= needs git="),
        ({"git": ["c0", "c1"], "on": "guest"}, "guest"),
    ):
        with pytest.raises(UsageError, match=text):
            oscope.bench("cat data", store=place, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="git= belongs to programs"):
        oscope.bench(len, git=["c0", "c1"], store=place)
    with pytest.raises(OscopeError, match="does not build"):
        oscope.bench("cat data", git=["c0", "c1"], build="sh -c 'echo no; exit 4'", store=place)
    assert "oscope: its build: no\n" in capfd.readouterr().err
    assert not place.exists() or not oscope.runs(store=place)
    assert left() == []
