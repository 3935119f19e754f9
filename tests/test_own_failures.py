"""What a run reports of a workload of the user's own that fails or hangs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli_driver import ROOT, CommandLine
from oscope import api

BENCH = f"""#!{sys.executable}
import sys, time
sys.path.insert(0, {str(ROOT / "python")!r})
import oscope.workload as kit

@kit.workload("my.work")
def work(level: int = 0):
    "Hang at level 1, fail at level 2, and at level 3 in each second sample."
    count = 0
    def once():
        nonlocal count
        count += 1
        if level == 1:
            time.sleep(1000)
        if level == 2 or level == 3 and count % 2 == 0:
            raise ValueError("no luck")
    return once

kit.main()
"""
TOML = '[workloads]\n"my.work" = { command = "./mybench", patience = "1s" }\n'


@pytest.fixture
def here(oscope: CommandLine, tmp_path: Path) -> CommandLine:
    """Give the command line in a folder with a program and its oscope.toml."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mybench").write_text(BENCH)
    (folder / "mybench").chmod(0o755)
    (folder / "oscope.toml").write_text(TOML)
    return CommandLine(folder, oscope.environment)


def status_of(here: CommandLine) -> str:
    """Return the status of the newest run."""
    return here("runs").out.rstrip().split("\n")[-1].split()[3]


@pytest.mark.usefixtures("real_probe")
def test_a_program_that_hangs_is_given_up_at_once(here: CommandLine) -> None:
    ran = here("run", "my.work", "--set", "level=1", "--reps", "4")
    assert ran.code == 1
    assert "oscope: my.work level=1 is skipped: the workload program ./mybench was silent" in ran.err
    # The other is that which ends the run.
    assert ran.err.count("was silent for 1 s and was killed") == 2, ran.err
    for word in ("its threads", "flush standard output", "patience"):
        assert word in " ".join(ran.out.split())
    assert status_of(here) == "failed"


@pytest.mark.usefixtures("real_probe")
def test_a_run_without_a_good_sample_failed(here: CommandLine) -> None:
    assert here("run", "my.work", "--set", "level=2", "--reps", "4", "--no-again").code == 1
    assert status_of(here) == "failed"
    assert here("run", "my.work", "--set", "level=0,2", "--reps", "4", "--no-again").code == 1
    assert status_of(here) == "done"


@pytest.mark.usefixtures("real_probe")
def test_an_exception_is_shown_with_its_place(here: CommandLine) -> None:
    place = "mybench, line 16, in once"
    ran = here("run", "my.work", "--set", "level=2", "--reps", "1", "--no-again")
    assert f"ValueError: no luck ({place})" in ran.err
    program = here.folder / "mybench"
    program.write_text(
        BENCH.replace("kit.main()", "def connect():\n    raise OSError('no database')\nconnect()")
    )
    (reported,) = here("run", "--workload", "./mybench").errors
    assert f"its last words: OSError: no database ({program}, line 20, in connect): correct that" in reported


@pytest.mark.usefixtures("real_probe")
def test_python_says_how_many_samples_failed(
    here: CommandLine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = here.folder / "mybench"
    run = api.run("my.work", workload=program, reps=4, again=False, level=2, store=tmp_path / "store")
    assert (
        "oscope: my.work level=2: 4 of 4 samples failed, the first: ValueError: no luck"
        in capfd.readouterr().err
    )
    assert repr(run).endswith("my.work, 4 of 4 samples failed>")
    assert list(run.summary()["failed"]) == [4]
    assert "my.work 2: 4 of 4 samples failed: ValueError: no luck (mybench" in run._repr_html_()
