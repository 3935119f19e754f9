"""A Ctrl-C while the command is still being loaded gives one line, like any later one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cli_driver import ROOT, CommandLine

PRESSED = """\
import os, signal, sys
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
"""


def pressed_at(name: str, folder: Path) -> CommandLine:
    """Give a command line in which Ctrl-C comes as the module `name` is looked for."""
    # Python loads a module of that name before anything else.
    (folder / "sitecustomize.py").write_text(PRESSED.format(name=name))
    return CommandLine(folder, {"PYTHONPATH": f"{folder}:{ROOT / 'python'}"})


@pytest.mark.parametrize("name", ["oscope.cli", "typer", "oscope.cli.ipc", "oscope.probe.catalogue"])
def test_a_signal_while_modules_are_loaded_gives_one_line(
    name: str, fake_probe: Path, tmp_path: Path
) -> None:
    del fake_probe
    answer = pressed_at(name, tmp_path)("ipc")
    assert answer.err == "oscope: interrupted\n"
    assert answer.out == ""
    # Python ends by the signal where the interruption came in code made from a text.
    assert answer.code in (1, -signal.SIGINT)


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    oscope = pressed_at("typer", tmp_path)
    hook = tmp_path / "sitecustomize.py"
    # As nohup has it.
    hook.write_text(f"{hook.read_text()}signal.signal(signal.SIGINT, signal.SIG_IGN)\n")
    answer = oscope("--version")
    assert (answer.code, answer.err) == (0, "")
