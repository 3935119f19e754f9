"""A run with injected interference is marked wherever its figures are shown, and says when it was at work."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import synthetic
import synthetic_kernel
from cli_driver import CommandLine
from oscope.labs import LABS
from oscope.labs.kernel import KERNEL
from oscope.model.samples import ExperimentResults
from oscope.report.origins import command as repeat_command
from oscope.runner.injection.causes import load
from oscope.runner.injection.spec import Injection
from oscope.statistics import injected
from oscope.storage import record
from oscope.targets.kernel.kernel import NOT_BUILT
from viewed import viewing

BANNER = "Interference was injected on purpose: delay=2us: no clean measurement."


@pytest.fixture
def oscope(probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with the real probe and a store."""
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe), "OSCOPE_STORE": str(tmp_path / "oscope.db")})


def measured(oscope: CommandLine, *words: str) -> str:
    """Measure one point 60 times, and return the run's id."""
    point = ("syscall.cost", "--set", "call=getppid", "--set", "style=loop", "--reps", "60", "--seed", "5")
    answer = oscope("run", *point, "--json", "record.json", *words)
    assert answer.code == 0, answer.err
    return oscope.runs()[-1]


def plain(page: str) -> str:
    """Return the words of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.alone
def test_an_injected_run_is_marked_in_every_view_of_it(oscope: CommandLine) -> None:
    clean, run = measured(oscope), measured(oscope, "--inject", "delay=2us")
    (read,) = record.read(oscope.folder / "record.json").experiments
    (point,) = read.points
    is_on = point.covariates["injected_ns"] > 0
    counted = f"{BANNER} It was at work in {is_on.sum()} of {len(is_on)} samples: median "
    assert counted in " ".join(oscope("show", run).out.split())
    assert counted in " ".join(oscope("explain-variation", run).out.split())
    for each, causes in ((clean, []), (run, ["delay=2us"])):
        (explained,) = json.loads(oscope("explain-variation", each, "--json", "-").out)["experiments"]
        assert explained["injected"] == causes
    repeat = "oscope run syscall.cost --set call=getppid --set style=loop --reps 60 --inject delay=2us"
    assert oscope("report", run, "-o", "report.html").code == 0
    report = (oscope.folder / "report.html").read_text()
    words = plain(report)
    assert words.index(counted) < words.index("getppid costs")
    assert f"<code>{repeat}</code>" in report
    listed = {
        each["run"]: each for each in csv.DictReader(io.StringIO(oscope("runs", "--format", "csv").out))
    }
    assert [listed[each]["injected"] for each in (clean, run)] == ["", "delay=2us"]
    assert [listed[each]["status"] for each in (clean, run)] == ["done", "done"]
    lines = oscope("runs").out.splitlines()
    assert ["injected" in line for line in lines[-2:]] == [False, True]
    (row,) = csv.DictReader(io.StringIO(oscope("show", run, "--format", "csv").out))
    assert row["injected"] == "delay=2us"
    (row,) = csv.DictReader(io.StringIO(oscope("show", clean, "--format", "csv").out))
    assert "injected" not in row
    with viewing(oscope) as viewed:
        page = plain(viewed.page(f"/runs/{run}"))
        assert page.index(counted) < page.index("getppid costs")
        assert "injected on purpose" not in plain(viewed.page(f"/runs/{clean}"))
        every = viewed.page("/")
        assert every.count('class="status injected"') == 1
        assert "injected on purpose: delay=2us" in every


def with_injection(results: ExperimentResults, injection: Injection, **more: object) -> ExperimentResults:
    """Return results as if they had been injected."""
    return replace(results, settings={**results.settings, "injection": {**injection.to_object(), **more}})


def test_a_cause_of_the_machine_is_at_work_in_samples_that_its_phases_overlap() -> None:
    cost = synthetic.cost()
    hz = 1e9
    point = cost.points[0]
    began = 1_000_000_000 + 1000 * np.arange(len(point))
    point = replace(point, started_ns=began, raw=np.full(len(point), 500.0))
    cost = replace(
        cost, points=(point,), environment={**cost.environment, "clock": {"kind": "tsc", "hz": hz}}
    )
    # The second phase lies within a sample, as with samples that take longer than a phase.
    phases = [
        {"cause": "hog", "from_ns": int(began[2]), "to_ns": int(began[4]) + 500, "done": 1},
        {"cause": "hog", "from_ns": int(began[6]), "to_ns": int(began[6]) + 100, "done": 1},
    ]
    found = with_injection(cost, Injection(causes=("hog",)), phases=phases)
    mask = injected.at_work(found, point)
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == [2, 3, 4, 6]
    text = injected.banner([found])
    assert text is not None
    assert text.startswith(
        "Interference was injected on purpose: hog: no clean measurement. It was at work in 4 of "
    )
    # A run that recorded no phases, such as one that was killed, is marked all the same.
    plain = "Interference was injected on purpose: hog: no clean measurement."
    assert injected.banner([with_injection(cost, Injection(causes=("hog",)))]) == plain
    assert injected.banner([with_injection(cost, Injection(causes=("hog",)), phases=[])]) == plain
    assert injected.banner([cost]) is None


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize(
    "texts", [["delay=2us"], ["delay=1.5us,drift=100ns"], ["hog,delay=50ns"], ["drift=3ms"]]
)
def test_what_was_injected_is_written_as_the_option_takes_it(texts: list[str]) -> None:
    given = Injection.parse(texts, load(), 1)
    assert ",".join(given.names) == texts[0]
    assert Injection.parse([",".join(given.names)], load(), 1) == given


def test_the_command_that_repeats_has_the_amounts_of_the_run() -> None:
    cost = synthetic.cost()

    def command(**settings: object) -> str:
        return repeat_command(replace(cost, settings={**cost.settings, "reps": 0, **settings}), LABS)

    designed = next(each for lab in LABS for each in lab.experiments if each.name == cost.experiment)
    reps = designed.design("full").reps
    assert "--reps" not in command(profile="full", reps=reps)
    assert command(profile="full", reps=reps + 1).endswith(f" --reps {reps + 1}")
    # So many in each block of an interleaved run.
    assert "--reps" not in command(profile="full", reps=5, blocks=None)
    assert command(precision=0.02, budget_s=30.0, reps=1).endswith(" --precision 2% --budget 30s")
    assert command(spread_s=600.0).endswith(" --spread 600s")


def test_the_command_that_repeats_measures_in_the_same_place_with_the_same_settings() -> None:
    cost, fork = synthetic.cost(), synthetic_kernel.fork("instructions")

    def command(
        results: ExperimentResults, guest: dict[str, object] | None = None, **settings: object
    ) -> str:
        there = {**results.environment, **({} if guest is None else {"guest": guest})}
        return repeat_command(
            replace(results, environment=there, settings={**results.settings, "reps": 0, **settings}), LABS
        )

    def held(name: str, now: str, left: str | None = None) -> dict[str, str | None]:
        return {"name": name, "path": f"/{name}", "before": "-", "now": now, "left": left}

    plain = command(cost, again=True)
    tuned = [held("aslr", "off"), held("aslr", "off"), held("interrupts", "0", left="busy")]
    assert command(cost, tuned=tuned, again=False) == f"{plain} --tune aslr=off --no-again"
    # A fleet's name of a host is not its address.
    assert command(cost, place="ssh:web1", address="root@10.0.0.1") == f"{plain} --on ssh:root@10.0.0.1"
    assert command(cost, place="ssh:web1") == ""
    guest = {"kernel": {"name": "my_precious"}, "clock": "wall", "cpus": 2, "memory_bytes": 1 << 30}
    assert command(cost, guest) == f"{plain} --on guest:my_precious"
    more = {"cpus": 4, "memory_bytes": 2 << 30}
    assert command(cost, guest | more) == f"{plain} --on guest:my_precious --cpus 4 --memory {2 << 30}"
    assert command(cost, guest, interleaved=["a", "b"]) == "", "oscope kernel ab"
    kernel = {"id": "0123456789ab", "source": "linux-source-6.1 6.1.192-2", "patches": ["my_precious"]}
    names = {
        "my_precious": kernel | {"name": "my_precious"},
        "my_precious,debug": kernel | {"name": "my_precious,debug", "variant": "debug"},
        # Built from what is the user's own: its name would mean another kernel.
        "0123456789ab": kernel | {"name": "base", "source": "a tree", "patches": []},
        "0123456789ab ": kernel | {"name": "my", "patches": ["my"]},
        "0123456789ab  ": kernel | {"name": "base,fast", "variant": "fast", "patches": []},
    }
    for name, one in names.items():
        assert command(cost, guest | {"kernel": one}) == f"{plain} --on guest:{name.strip()}"
    assert command(cost, guest | {"kernel": kernel | {"name": "bzImage", "source": NOT_BUILT}}) == ""
    # The experiment itself names its guest.
    designed = {"kernel": {"name": KERNEL}, "cpus": 1, "memory_bytes": 1 << 30}
    assert "--" not in command(fork, designed).partition(" --set")[0]
    assert command(fork, designed | {"kernel": {"name": "base"}}).endswith(" --on guest:base")
