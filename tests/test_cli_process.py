"""The end of the command's process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENDING = """
import atexit, sys, threading, time
from oscope.cli import process
print("written")
atexit.register(print, "at the end")
threading.Thread(target=lambda: (time.sleep(0.1), print("by a thread"))).start()
try:
    sys.exit(3)
except SystemExit as ended:
    {end}
"""


@pytest.mark.parametrize(("output", "code"), [("pipe", 3), ("full", 120)])
def test_the_command_ends_as_the_interpreter_has_it(output: str, code: int) -> None:
    answers = []
    for end in ("process.end(ended.code)", "sys.exit(ended.code)"):
        with Path("/dev/full").open("w") as full:
            answers.append(
                subprocess.run(
                    [sys.executable, "-c", ENDING.format(end=end)],
                    env=os.environ | {"PYTHONUNBUFFERED": ""},
                    stdout=full if output == "full" else subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    check=False,
                )
            )
    command, interpreter = ((done.returncode, done.stdout, done.stderr) for done in answers)
    assert command == interpreter
    assert command[0] == code
    assert output == "full" or command[1] == "written\nby a thread\nat the end\n"
