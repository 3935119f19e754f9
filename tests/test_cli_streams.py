"""Closed, full and abandoned standard streams: a documented exit code and no trace, from every command."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine
from command_tree import commands
from oscope.model import streams
from streams_driver import BROKEN

TESTS = Path(__file__).parent
STRACE = '1 1700000000.000000 execve("/bin/true", ["true"], 0x7ff /* 1 var */) = 0 <0.000100>\n'
LINES = {
    "ab": "ab missing missing syscall.cost",
    "assignment": "assignment --help",
    "bench": "bench --reps 2 -- true",
    "calibrate": "calibrate --help",
    "compare": "compare last last",
    "devices": "devices",
    "dhcp lab": "dhcp lab --help",
    "dhcp read": "dhcp read file",
    "disk fast": "disk fast file",
    "disk read": "disk read file --block-size 4K",
    "disk size": "disk size file --block-size 4K --between 1us,10s",
    "disk write": "disk write new --block-size 4K --count 1",
    "doctor": "doctor --json",
    "explain": "explain --strace -",
    "explain-variation": "explain-variation last",
    "export": "export last --format csv",
    "fleet compare": "fleet compare --help",
    "fleet doctor": "fleet doctor --help",
    "fleet drift": "fleet drift --help",
    "fleet init": "fleet init one two -o kept.toml",
    "fleet outliers": "fleet outliers --help",
    "fleet report": "fleet report --help",
    "fleet run": "fleet run --help",
    "fs": "fs operations",
    "gate": "gate last last",
    "history": "history syscall.cost",
    "import": "import missing.json",
    "inject": "inject",
    "interfaces": "interfaces",
    "ipc": "ipc -B --json kept.json",
    "kernel ab": "kernel ab --help",
    "kernel boot": "kernel boot --dry-run -- true",
    "kernel build": "kernel build --help",
    "kernel check-patch": "kernel check-patch --help",
    "kernel list": "kernel list --json",
    "kernel source": "kernel source --help",
    "list": "list",
    "prune": "prune --older-than 90d",
    "report": "report last -o kept.html",
    "run": "run syscall.cost --set call=getppid --set style=loop --reps 1 --json kept.json",
    "runs": "runs",
    "session clean": "session clean -",
    "session record": "session record new.cast -- echo shown",
    "show": "show last",
    "sources": "sources disk",
    "trace": "trace --json kept.json -- true",
    "transfer receive": "transfer receive --help",
    "transfer send": "transfer send missing 127.0.0.1:1",
    "tune": "tune",
    "view": "view --help",
}
"""A line of each command that takes no longer than a moment."""
INPUT = {"explain": STRACE, "session clean": "shown\r\n"}
"""What those that read standard input find there."""
OTHERS_WRITE = {"fs", "session record"}
"""Their data are written by another program, at the same descriptor."""

SLOW = {"bench", "doctor", "run", "trace"}
"""They take seconds, and are tried with fewer kinds."""

Done = dict[str, Any]


def kinds_of(command: str) -> list[str]:
    """Return the kinds of broken streams that a command is tried with."""
    return ["whole", "all closed", "stdout full"] if command in SLOW else list(BROKEN)


@pytest.fixture(scope="module")
def store(real_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with one run in it."""
    folder = tmp_path_factory.mktemp("store")
    store = folder / "oscope.db"
    oscope = CommandLine(folder, {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(store)})
    answer = oscope("run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop", "--reps", "4")
    assert answer.code == 0, answer.err
    return store


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a device like /dev/full of our own; where this user can make none, that one."""
    path = tmp_path_factory.mktemp("full") / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except PermissionError:
        return "/dev/full"
    return str(path)


@pytest.fixture(scope="module")
def ended(
    real_probe: Path, store: Path, full: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Done]:
    """Return how each command ended with each kind of broken streams."""
    keys = [(command, name) for command in LINES for name in kinds_of(command)]
    cases = []
    for command, name in keys:
        folder = tmp_path_factory.mktemp("case")
        (folder / "file").write_bytes(bytes(8192))
        case = {"words": LINES[command].split(), "streams": name, "folder": str(folder)}
        cases.append(case | {"input": INPUT.get(command, "")})
    variables = {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(store), "CI": "1"}
    driver = subprocess.run(
        [sys.executable, str(TESTS / "streams_driver.py")],
        input=json.dumps({"full": full, "cases": cases}),
        env=CommandLine(store.parent, variables).all_variables({"CI": "1"}),
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert driver.returncode == 0, driver.stderr
    done = json.loads(driver.stdout)
    for case, one in zip(cases, done, strict=True):
        one["kept"] = sorted(path.name for path in Path(case["folder"]).glob("kept.*"))
    return dict(zip(keys, done, strict=True))


def test_every_command_has_a_line() -> None:
    assert {" ".join(words) for words, _ in commands()} == set(LINES)


@pytest.mark.parametrize(
    ("command", "name"), [(command, name) for command in LINES for name in kinds_of(command)]
)
def test_broken_streams_give_a_documented_code_and_no_trace(
    command: str, name: str, ended: dict[tuple[str, str], Done]
) -> None:
    one, whole = ended[command, name], ended[command, "whole"]
    for text in (one["out"], one["err"]):
        assert "Traceback" not in text
        assert "bug in Oscope" not in text
        assert "Exception ignored" not in text
    assert one["code"] in (0, 1, 2)
    prints = bool(whole["out"]) and whole["code"] == 0
    if name == "all closed" or (name == "stdin closed" and command in INPUT):
        assert one["code"] != 0 or not prints or command == "fs"
    elif name in ("stderr closed", "stderr full", "whole", "stdin closed"):
        assert (one["code"], bool(one["out"])) == (whole["code"], bool(whole["out"]))
    elif prints and command not in OTHERS_WRITE:
        assert one["code"] in (1, 2)
        lost = [line for line in one["err"].splitlines() if "standard output" in line]
        assert len(lost) == (0 if name == "reader left" else 1), one["err"]
    if command in ("explain", "session clean") and name == "stdin closed":
        assert one["err"].startswith("oscope: standard input cannot be read"), one["err"]
    if whole["kept"] and command not in INPUT:
        assert one["kept"] == whole["kept"], "a file that was asked for is not written"


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "whole"])
def test_a_process_started_with_broken_streams(name: str, store: Path, full: str, tmp_path: Path) -> None:
    """As above, with an interpreter that found them so."""
    redirect = {
        "stdin closed": "<&-", "stdout closed": ">&-", "stderr closed": "2>&-", "all closed": "<&- >&- 2>&-",
        "stdout full": f">{full}", "stderr full": f"2>{full}", "reader left": "| true",
    }[name]  # fmt: skip
    command = f"set -o pipefail; '{sys.executable}' -m oscope show last {redirect}"
    environment = CommandLine(tmp_path, {"OSCOPE_STORE": str(store)}).all_variables({})
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == (0 if name in ("stdin closed", "stderr closed", "stderr full") else 1)
    lost = name in ("stdout closed", "stdout full")
    assert len(done.stderr.splitlines()) == lost
    assert ("standard output cannot be written" in done.stderr) == lost


def test_no_other_file_becomes_a_standard_stream(tmp_path: Path) -> None:
    script = (
        "import os\nfrom oscope.model import streams\nstreams.secure()\n"
        "assert os.open('file', os.O_CREAT | os.O_RDWR) > 2\n"
        "print('lost')\nos._exit(int(streams.failure_of(__import__('sys').stdout) is None))\n"
    )
    command = f"'{sys.executable}' -c \"$SCRIPT\" <&- >&- 2>&-"
    environment = CommandLine(tmp_path).all_variables({"SCRIPT": script})
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, timeout=300, check=False)
    assert done.returncode == 0
    assert (tmp_path / "file").read_bytes() == b""


def test_what_a_guest_writes_ends_when_nobody_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with streams._lasting(None, writing) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        streams.write_now(stream, b"read")
        assert os.read(reading, 10) == b"read"
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            streams.write_now(stream, b"not read")
    os.close(writing)
