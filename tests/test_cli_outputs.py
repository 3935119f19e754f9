"""Every file and folder that a command writes: only a regular file is replaced, and that is checked first."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_driver import CommandLine
from command_tree import Parameter, carry_out, parameters
from oscope.cli.destinations import OutputParser
from oscope.model.atomic_write import atomic_write, write_bytes
from oscope.model.errors import OscopeError
from oscope.storage.store import Store

INPUTS = {
    "assignment --run",
    "bench --cold",
    "bench --cwd",
    "bench --input",
    "compare A",
    "compare B",
    "dhcp read FILE|-",
    "disk fast FILE",
    "disk read FILE",
    "explain --strace",
    "explain-variation RUN",
    "export RUN",
    "fleet compare --file",
    "fleet doctor --file",
    "fleet init --inventory",
    "fleet init --ssh-config",
    "fleet run --file",
    "gate BASELINE",
    "import FILE",
    "report --beside",
    "report [RUN]...",
    "show [RUN]",
    "inject --path",
    "kernel ab --patch",
    "kernel build --config",
    "kernel build --patch",
    "kernel build --tree",
    "kernel check-patch PATCH",
    "kernel check-patch --tree",
    "kernel source --tree",
    "session clean FILE",
    "session clean --timing",
    "transfer send --key",
    "transfer send FILE...",
}
"""What commands read."""
BY_THE_PROBE = {
    "bench --export",
    "bench --output",
    "disk write FILE",
    "disk size FILE",
    "transfer receive --key",
}
"""Files that a command is there to write: see their own tests below, and in `test_bench_command`."""
FREE_TEXT = {
    "disk read --count",
    "fleet doctor --hosts",
    "fleet run --hosts",
    "fleet run --scheduler",
    "transfer receive --stall",
    "transfer send --skip",
    "transfer send --stall",
}
"""Options whose help speaks of a file that another option or argument names, or of what it leaves out."""


def is_output(parameter: Parameter) -> bool:
    """Say whether it is declared as something that is written."""
    return isinstance(getattr(parameter.own.type, "func", None), OutputParser)


def may_be_a_file(parameter: Parameter) -> bool:
    """Say whether its type, name or help speaks of a file or folder."""
    if parameter.is_flag:
        return False
    texts = f"{parameter.own.metavar} {parameter.own.help or ''}"
    return parameter.own.type.name == "path" or bool(
        re.search(r"\b(files?|folders?|dir|path|out|write|store|patch|fragment)\b", texts, re.IGNORECASE)
    )


OUTPUTS = [each for each in parameters() if is_output(each)]
FOLDERS = [each for each in OUTPUTS if each.own.metavar == "DIR"]
FILES = [each for each in OUTPUTS if each.own.metavar != "DIR"]


def test_every_option_that_may_name_a_file_is_declared_as_read_or_written() -> None:
    unknown = {
        each.id
        for each in parameters()
        if may_be_a_file(each) and not is_output(each) and each.id not in INPUTS | BY_THE_PROBE | FREE_TEXT
    }
    assert unknown == set()


def test_outputs_are_found_in_the_commands_that_have_some() -> None:
    assert {each.id for each in OUTPUTS} >= {
        "run --json", "run --report", "run --figures", "report --output", "export --output", "trace --json",
        "gate --json", "history --json", "history --figure", "explain-variation --json", "ipc --json",
        "explain -o", "explain --json", "inject --json", "calibrate --json", "calibrate --report",
        "calibrate --keep", "kernel ab --json", "kernel ab --report", "transfer send --json",
        "transfer receive --into", "session clean --output", "session record OUT", "dhcp lab --output",
        "fleet init --output", "fleet report --output",
    }  # fmt: skip


def make_device(path: Path) -> None:
    """Make a device like /dev/full, where this user may."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root makes devices")


def make_link_to_fifo(path: Path) -> None:
    """Make a symbolic link to a FIFO."""
    os.mkfifo(path.parent / "fifo")
    path.symlink_to("fifo")


STORES = {"calibrate --keep"}
"""What is a store itself, to which runs are added."""
MADE_WITH_PARENTS = {"transfer receive --into"}
"""Where those above it are made, too."""
NOT_FILES: dict[str, Callable[[Path], object]] = {
    "device": make_device,
    "FIFO": os.mkfifo,
    "link to a FIFO": make_link_to_fifo,
    "link to nowhere": lambda path: path.symlink_to("missing/file"),
    "link to itself": lambda path: path.symlink_to(path.name),
}


def kinds(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the type, inode and size of all that is in a folder."""
    found = {path.name: path.lstat() for path in folder.iterdir()}
    return {name: (stat.S_IFMT(one.st_mode), one.st_ino, one.st_size) for name, one in found.items()}


def refuse(parameter: Parameter, target: str) -> str:
    """Have a command refuse a target, given nothing else, and return the line that it tells.

    What is checked only once the command begins would be hidden by the arguments that are missing.
    """
    before = kinds(Path())
    ended = carry_out(parameter.line(target))
    assert ended.code == 2, ended.err
    assert ended.out == ""
    (reported,) = ended.err.splitlines()
    option = min(parameter.own.opts, key=len) if parameter.is_option else parameter.name
    assert reported.startswith(f"oscope: {option}"), reported
    assert kinds(Path()) == before
    return reported


@pytest.mark.parametrize("kind", NOT_FILES)
@pytest.mark.parametrize("parameter", OUTPUTS, ids=lambda each: each.id)
def test_what_is_no_file_is_refused_before_the_work_and_stays(
    parameter: Parameter, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    NOT_FILES[kind](Path("target"))
    assert "target" in refuse(parameter, "target")


@pytest.mark.parametrize("parameter", FILES, ids=lambda each: each.id)
def test_a_folder_and_the_users_streams_are_no_file(
    parameter: Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    refuse(parameter, "folder")
    for name in ("/dev/null", "/dev/stdout", "/proc/self/fd/1", "/dev/fd/2"):
        refuse(parameter, name)


@pytest.mark.parametrize(
    "parameter", [each for each in FILES if each.id not in STORES], ids=lambda each: each.id
)
def test_neither_a_store_nor_a_program_is_replaced(
    parameter: Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(Path("kept.db")):
        pass
    # That of a session is a new file, whatever its name.
    if parameter.id != "session record OUT":
        refuse(parameter, "kept.db-wal")
    error = refuse(parameter, "kept.db")
    assert "store of runs" in error or "is there already" in error
    shutil.copy("/bin/true", "program")
    Path("script").write_text("#!/bin/sh\nexit 0\n")
    for name in ("program", "script"):
        error = refuse(parameter, name)
        assert "is a program" in error or "is there already" in error


@pytest.mark.parametrize("parameter", OUTPUTS, ids=lambda each: each.id)
def test_a_place_that_takes_no_files_is_refused_before_the_work(
    parameter: Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("kept")
    if parameter.id not in MADE_WITH_PARENTS:
        assert "mkdir -p" in refuse(parameter, "missing/target")
    refuse(parameter, "file/target")
    refuse(parameter, "x" * 256)
    refuse(parameter, "")
    # Not even root can make a file there.
    assert "is not writable" in refuse(parameter, "/proc/target")
    if os.geteuid() != 0:
        Path("closed").mkdir(mode=0o555)
        assert "is not writable" in refuse(parameter, "closed/target")


@pytest.mark.parametrize("parameter", FOLDERS, ids=lambda each: each.id)
def test_a_file_is_no_folder(parameter: Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("kept")
    assert "is not a folder" in refuse(parameter, "file")


def test_the_report_of_the_survey_is_checked_though_it_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("oscope-report.html")
    ended = carry_out(["run"])
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("oscope: --report oscope-report.html is a FIFO")
    assert stat.S_ISFIFO(Path("oscope-report.html").lstat().st_mode)


@pytest.mark.parametrize("file", ["same", "-"])
@pytest.mark.parametrize("words", ["run --report", "calibrate --report", "explain -o", "history x --figure"])
def test_one_file_is_not_written_twice(
    words: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "history" in words:
        file += ".html"
    rest = ["--", "true"] if "explain" in words else []
    ended = carry_out([*words.split(), file, "--json", f"./{file}" if file != "-" else file, *rest])
    assert ended.code == 2
    assert "are both" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "session clean data -o data",
        "explain --strace data --json data",
        "explain --strace data -o ./data",
        "gate data --json data",
        "report --beside data -o data",
        "fleet init --inventory data -o data",
        "bench --input data --json data cat",
        "bench --input data --output data cat",
    ],
)
def test_a_file_that_is_read_is_not_replaced(line: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("content")
    answer = CommandLine(tmp_path)(*line.split())
    assert (answer.code, answer.out) == (2, "")
    assert "data would replace a file that is read: name another file" in answer.err
    assert (tmp_path / "data").read_text() == "content"


def test_a_link_stays_and_the_file_behind_it_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    real = tmp_path / "folder/real"
    real.write_text("former")
    real.chmod(0o640)
    (tmp_path / "link").symlink_to("folder/real")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").readlink() == Path("folder/real")
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("new", 0o640)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["real"]


def test_what_took_the_place_of_the_file_meanwhile_stays(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OscopeError, match="is a folder"):
        write_bytes(tmp_path / "file", b"new")
    (tmp_path / "file").rmdir()
    with contextlib.ExitStack() as stack:
        stack.enter_context(atomic_write(tmp_path / "file")).write(b"new")
        (tmp_path / "file").mkdir()
        with pytest.raises(OscopeError, match="its content is in") as failure:
            stack.close()
    kept = Path((failure.value.remedy or "").removeprefix("its content is in "))
    assert kept.read_bytes() == b"new"
    assert (tmp_path / "file").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_users_file_in_a_sticky_folder_is_refused() -> None:
    script = (
        "import os, pathlib, tempfile\nfrom oscope.model.atomic_write import resolve_file\n"
        "os.setuid(65534)\nresolve_file(pathlib.Path('file'))\n"
    )
    # Only its owner may enter pytest's folders.
    with tempfile.TemporaryDirectory(prefix="oscope-sticky-") as folder:
        Path(folder).chmod(0o1777)
        file = Path(folder, "file")
        file.write_text("kept")
        file.chmod(0o666)
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
    assert "OscopeError: file is not writable" in done.stderr


MADE = (
    "disk write target --block-size 4K --count 1 --overwrite",
    "disk size target --block-size 4K --between 1ms,1s",
)


@pytest.mark.parametrize("line", MADE)
@pytest.mark.parametrize("kind", ["device", "FIFO", "link to a FIFO", "link to nowhere", "folder"])
def test_a_file_that_is_to_be_made_takes_the_place_of_nothing_else(
    line: str, kind: str, probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del probe
    monkeypatch.chdir(tmp_path)
    (NOT_FILES | {"folder": Path.mkdir})[kind](Path("target"))
    before = kinds(tmp_path)
    answer = CommandLine(tmp_path)(*line.split())
    assert answer.code in (1, 2)
    assert "target" in answer.err.splitlines()[-1]
    assert "bug" not in answer.err
    assert kinds(tmp_path) == before
