"""The page of a run with several experiments: the first screen of its report. The history's sentences."""

from __future__ import annotations

import re
from pathlib import Path

from cli_driver import CommandLine
from viewed import MEASURE, command_in, viewing


def test_a_run_of_several_experiments_begins_with_its_figures(tmp_path: Path, real_probe: Path) -> None:
    oscope = command_in(tmp_path)
    own = {name: value for name, value in oscope.environment.items() if not name.startswith("FAKE")}
    oscope = CommandLine(oscope.folder, own | {"OSCOPE_PROBE": str(real_probe)})
    done = oscope("run", "syscall.cost", "ipc.latency", "--quick", "--reps", "4")
    assert done.code == 0, done.err
    [run] = oscope.runs()
    with viewing(oscope) as viewed:
        page = viewed.page(f"/runs/{run}")
    rungs = re.findall(r'data-rung="([^"]+)"', page)
    assert rungs
    assert re.findall(r"<b>([^<]+)</b> <small>", page)
    # A row of the figure leads to the experiment in the list under it.
    targets = set(re.findall(r'<a href="#([^"]+)" data-rung', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


def test_a_history_too_short_to_be_searched_says_so_once(tmp_path: Path) -> None:
    oscope = command_in(tmp_path)
    for machine in ("e" * 16, "f" * 16):
        for _ in range(2):
            assert oscope(*MEASURE, FAKE_PROBE_MACHINE=machine).code == 0
    with viewing(oscope) as viewed:
        of_two = viewed.page("/history")
    assert of_two.lower().count("not enough runs to look for changes") == 2, "once for each machine"
