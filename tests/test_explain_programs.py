"""`oscope explain` on the programs of a Debian system: every call is named, and phases are found in each."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import traced_program
from cli_driver import TIME_LIMIT_S, CommandLine, as_nobody
from explained import phases
from oscope.tools.explain import tracing
from oscope.tools.explain.phases import PHASES
from oscope.tools.explain.purposes import UNKNOWN_GROUP

CALLS = 50
LEAST_PROGRAMS = 30
COMMANDS = (
    "true", "false", "ls -l /", "cat /etc/passwd", "echo hello", "id", "date", "uname -a", "df /",
    "du -s /etc/ssl", "env", "sort /etc/passwd", "wc /etc/passwd", "head -1 /etc/passwd",
    "tail -1 /etc/passwd", "cut -d: -f1 /etc/passwd", "grep root /etc/passwd", "sed -n 1p /etc/passwd",
    "awk {print} /etc/passwd", "find /etc/ssl -type f", "tar -cf - /etc/ssl", "gzip -c /etc/passwd",
    "xz -c /etc/passwd", "bzip2 -c /etc/passwd", "sha256sum /etc/passwd", "base64 /etc/passwd",
    "od /etc/passwd", "dd if=/dev/zero of=/dev/null count=3", "ps", "sleep 0.01", "timeout 5 true",
    "nice true", "stat /etc/passwd", "getent passwd root", "perl -e print(1)", "git --version",
    "gcc --version", "make --version", "su --help", "mount", "ip link", "ss -l", "lsblk", "free",
    "xargs -r echo", "diff /etc/passwd /etc/group", "tmux -V", "sqlite3 -version", "openssl version",
    "curl --version", "vim --version", "less --version", "dpkg -l bash", "bash -c :",
)  # fmt: skip
SHELL = (
    "cat /etc/passwd | sort | uniq -c | wc -l",
    "for i in 1 2 3; do (true); done",
    "exec /bin/echo replaced",
    "kill -TERM $$",
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root: run the tests as root")


@pytest.fixture
def oscope(tmp_path: Path) -> CommandLine:
    folder = tmp_path / "here"
    folder.mkdir()
    return CommandLine(folder)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_program.build(tmp_path_factory.mktemp("program"))


def found_of(oscope: CommandLine, *words: str) -> dict[str, Any]:
    """Explain a command, and return what was written of it."""
    options = ("--json", "found.json", "-o", "report.txt")
    # What the programs write may be no text.
    with oscope.start("explain", *options, "--", *words, stdout=subprocess.DEVNULL) as running:
        _, errors = running.communicate(timeout=TIME_LIMIT_S)
    assert "oscope:" not in errors
    found: dict[str, Any] = json.loads((oscope.folder / "found.json").read_text())
    status = found["status"]
    assert running.returncode == (status if status >= 0 else 128 - status)
    assert found["schema"] == "oscope.explain/1"
    return found


def check_named(found: dict[str, Any]) -> None:
    """Every call is known, tells a purpose and has one phase; the sums hold them all."""
    assert [call["call"] for call in found["calls"] if call["group"] == UNKNOWN_GROUP] == []
    for call in found["calls"]:
        assert call["purpose"]
        assert call["phase"] in PHASES
    count = len(found["calls"])
    assert sorted(call["number"] for call in found["calls"]) == list(range(1, count + 1))
    assert sum(each["count"] for each in found["summary"]["calls"]) == count
    assert sum(each["calls"] for each in found["summary"]["phases"]) == count
    assert not any("not understood" in note for note in found["notes"]), found["notes"]


def libraries_of(program: str) -> set[str]:
    """Return the names of the libraries that ldd tells of a program, without the loader's own."""
    reported = subprocess.run(
        ["ldd", program], capture_output=True, text=True, timeout=300, check=False
    ).stdout
    return set(re.findall(r"(\S+) => /", reported))


def program_of(command: str) -> str | None:
    """Return the path of a command's program; None where it is not installed."""
    return shutil.which(command.split()[0], path="/usr/bin:/bin:/usr/sbin:/sbin")


def test_enough_programs_are_explained() -> None:
    assert sum(program_of(command) is not None for command in COMMANDS) >= LEAST_PROGRAMS


@pytest.mark.parametrize("command", COMMANDS)
def test_programs_of_this_system_are_explained(command: str) -> None:
    path = program_of(command)
    if path is None:
        pytest.skip(f"{command.split()[0]} is not installed")
    found = tracing.run([path, *command.split()[1:]]).to_object()
    check_named(found)
    first, last = found["tasks"][0]["programs"][0], found["tasks"][0]["programs"][-1]
    assert set(phases(first)) >= {"exec", "loader", "libraries", "storage", "protection", "program"}
    assert phases(last)["exit"] == 1
    about = {each["name"] for each in first["findings"]}
    assert {"preload", "thread-local-storage", "read-only"} <= about
    script = Path(path).read_bytes()[:2] == b"#!"
    assert ("script" in about) == script
    if not script:
        opened = {
            each["arguments"][1].strip('"').rpartition("/")[2]
            for each in found["calls"]
            if (each["task"], each["program"], each["phase"], each["call"]) == (0, 0, "libraries", "openat")
            and each["error"] is None
        }
        assert opened == libraries_of(path)


@pytest.mark.parametrize("line", SHELL)
def test_shells_and_their_children_are_explained(line: str, oscope: CommandLine) -> None:
    found = found_of(oscope, "/bin/sh", "-c", line)
    check_named(found)
    makers = {
        call["number"]: call
        for call in found["calls"]
        if call["call"] in ("clone", "clone3", "vfork", "fork")
    }
    children = found["tasks"][1:]
    assert len(children) == len(makers)
    for child in children:
        assert child["kind"] == "process"
        assert int(makers[child["made_by"]]["result"]) == child["pid"]
        assert child["ended"] == "exited with 0"
    if line.startswith("kill"):
        assert found["status"] == -15
        assert found["tasks"][0]["ended"] == "killed by SIGTERM"
        assert found["tasks"][0]["signals"][-1]["text"].startswith("SIGTERM")
    if line.startswith("exec"):
        assert [program["path"] for program in found["tasks"][0]["programs"]] == ["/bin/sh", "/bin/echo"]
        for program in found["tasks"][0]["programs"]:
            assert set(phases(program)) >= {"exec", "loader", "libraries", "storage", "protection", "program"}
    if "|" in line:
        assert len(children) == 4
        assert {child["programs"][-1]["path"] for child in children} == {
            shutil.which(name, path="/usr/bin:/bin") for name in ("cat", "sort", "uniq", "wc")
        }


@pytest.mark.parametrize(("way", "kind"), [("alone", None), ("thread", "thread"), ("fork", "process")])
def test_counts_are_those_of_a_known_program(
    way: str, kind: str | None, program: Path, oscope: CommandLine
) -> None:
    found = found_of(oscope, str(program), str(CALLS), way)
    check_named(found)
    assert found["status"] == traced_program.STATUS
    sums = {each["call"]: each for each in found["summary"]["calls"]}
    assert sums["getppid"]["count"] == CALLS * traced_program.TASKS[way]
    assert sums["close"]["errors"] == {"EBADF": traced_program.FAILING_CLOSES}
    assert [task["kind"] for task in found["tasks"][1:]] == ([] if kind is None else [kind])
    for task in found["tasks"][1:]:
        made = [call for call in found["calls"] if call["task"] == 1 and call["call"] == "getppid"]
        assert len(made) == CALLS
        assert task["maker"] == 0


def test_a_static_program_has_no_loader(oscope: CommandLine, tmp_path: Path) -> None:
    static = tmp_path / "static"
    source = tmp_path / "static.c"
    source.write_text(traced_program.SOURCE)
    built = subprocess.run(
        ["cc", "-static", "-o", static, source, "-lpthread"], capture_output=True, timeout=300, check=False
    )
    if built.returncode != 0:
        pytest.skip("no static C library: apt-get install libc6-dev")
    found = found_of(oscope, str(static), str(CALLS), "thread")
    check_named(found)
    (only,) = found["tasks"][0]["programs"]
    assert list(phases(only)) == ["exec", "storage", "protection", "program", "exit"]
    reported = {each["name"]: each for each in only["findings"]}
    assert set(reported) == {"static", "thread-local-storage", "read-only"}
    setting, room = (found["calls"][number - 1] for number in reported["thread-local-storage"]["calls"])
    assert (setting["call"], room["call"]) == ("arch_prctl", "brk")


def test_python_and_its_script_are_told_apart(oscope: CommandLine) -> None:
    script = oscope.folder / "hello.py"
    script.write_text(f"#!{sys.executable}\nprint('hello')\n")
    script.chmod(0o755)
    found = found_of(oscope, "./hello.py")
    check_named(found)
    reported = {each["name"]: each["text"] for each in found["tasks"][0]["programs"][0]["findings"]}
    assert f"names {sys.executable}" in reported["script"]


def test_the_two_findings_of_the_document_are_told(oscope: CommandLine) -> None:
    found = found_of(oscope, "/bin/true")
    reported = {each["name"]: each for each in found["tasks"][0]["programs"][0]["findings"]}
    look, libc = (found["calls"][number - 1] for number in reported["preload"]["calls"])
    assert (look["call"], look["file"]) == ("access", "/etc/ld.so.preload")
    assert libc["arguments"][1].endswith('libc.so.6"')
    assert look["number"] < libc["number"]
    setting, room = (found["calls"][number - 1] for number in reported["thread-local-storage"]["calls"])
    assert setting["arguments"][0] == "ARCH_SET_FS"
    begin = int(room["result"], 0)
    assert begin <= int(setting["arguments"][1], 0) < begin + int(room["arguments"][1])
    assert room["phase"] == setting["phase"] == "storage"


@needs_root
def test_a_preload_list_is_read_and_its_libraries_told(oscope: CommandLine, tmp_path: Path) -> None:
    library = tmp_path / "libearly.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"],
        input=b"int early;\n",
        timeout=300,
        check=True,
    )
    copy = tmp_path / "etc"
    shutil.copytree("/etc", copy, symlinks=True)
    (copy / "ld.so.preload").write_text(f"{library}\n")
    # In a mount namespace of its own: the machine's list stays as it is.
    script = f'mount --bind {copy} /etc; exec "$@"'
    prefix = ("unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh")
    inside = CommandLine(oscope.folder, prefix=prefix)
    found = found_of(inside, "/bin/true")
    check_named(found)
    reported = {each["name"]: each["text"] for each in found["tasks"][0]["programs"][0]["findings"]}
    assert "loaded first: libearly.so" in reported["preload"]
    assert not Path("/etc/ld.so.preload").exists()


def test_bytes_are_those_that_were_moved(oscope: CommandLine) -> None:
    (oscope.folder / "source").write_bytes(b"x" * 100_000)
    found = found_of(oscope, "dd", "if=source", "of=target", "bs=30000")
    files = {Path(each["path"]).name: each for each in found["summary"]["files"]}
    assert files["source"]["read_bytes"] == files["target"]["written_bytes"] == 100_000
    assert files["source"]["opened"] == files["target"]["opened"] == 1


def test_what_is_left_running_is_let_go(oscope: CommandLine) -> None:
    found = found_of(oscope, "sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $! > pid")
    pid = int((oscope.folder / "pid").read_text())
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        assert re.search(r"^TracerPid:\s*0$", status, re.MULTILINE)
        assert [task["ended"] for task in found["tasks"] if task["pid"] == pid] == [None]
    finally:
        os.kill(pid, 9)


def test_another_user_may_explain_too() -> None:
    with as_nobody(Path("/bin/true")) as oscope:
        found = found_of(oscope, "/bin/true")
        check_named(found)
        assert "storage" in phases(found["tasks"][0]["programs"][0])
