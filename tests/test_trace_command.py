"""`oscope trace` with the real bpftrace and real programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import traced_program
from cli_driver import CommandLine, as_nobody
from oscope.trace.syscall_events import pair
from traced_program import FAILING_CLOSES, STATUS, TASKS
from waiting import wait_until_gone

CALLS = 1000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="tracing needs root: run the tests as root")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_program.build(tmp_path_factory.mktemp("program"))


@pytest.fixture
def oscope(tmp_path: Path) -> CommandLine:
    folder = tmp_path / "here"
    folder.mkdir()
    return CommandLine(folder)


def traced(oscope: CommandLine, *words: str) -> dict[str, Any]:
    """Trace a command, and return what was written of it."""
    answer = oscope("trace", "--json", "found.json", *words)
    assert "losses: none" in answer.err, answer
    found: dict[str, Any] = json.loads((oscope.folder / "found.json").read_text())
    assert found["schema"] == "oscope.trace/1"
    assert answer.code == found["status"]
    return found


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def begin(oscope: CommandLine, *command: str) -> subprocess.Popen[str]:
    """Start tracing a command, in a session of its own; return once the command has said its first line."""
    running = oscope.start("trace", "--events", "--", *command, start_new_session=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    return running


@needs_root
def test_a_program_is_seen_to_be_loaded(oscope: CommandLine) -> None:
    found = traced(oscope, "--events", "--", "/bin/true")
    assert (found["command"], found["status"]) == (["/bin/true"], 0)
    events = found["events"]
    assert events[0]["call"] == "execve"
    assert events[0]["arguments"][0] == '"/bin/true"'
    assert events[-1]["call"] == "exit_group"
    assert events[-1]["returned"] is None
    steps = [(event["call"], event["arguments"][:2]) for event in events]
    preload = steps.index(("access", ['"/etc/ld.so.preload"', "4"]))
    (libc,) = (
        index for index, (call, words) in enumerate(steps) if call == "openat" and "libc.so" in words[1]
    )
    (storage,) = (index for index, (_, words) in enumerate(steps) if words[:1] == ["ARCH_SET_FS"])
    assert preload < libc < storage
    assert steps[storage][0] == "arch_prctl"
    expected = "ENOENT" if not Path("/etc/ld.so.preload").exists() else None
    assert events[preload]["error"] == expected
    assert [event["at_ns"] for event in events] == sorted(event["at_ns"] for event in events)


@needs_root
@pytest.mark.parametrize("way", TASKS)
def test_every_call_is_told_once(way: str, program: Path, oscope: CommandLine) -> None:
    found = traced(oscope, "--events", "--", str(program), str(CALLS), way)
    assert found["status"] == STATUS
    calls = [event["call"] for event in found["events"]]
    assert calls.count("getppid") == CALLS * TASKS[way]
    failed = [event for event in found["events"] if event["error"] == "EBADF"]
    assert [(event["call"], event["arguments"], event["returned"]) for event in failed] == [
        ("close", ["-1"], -9)
    ] * FAILING_CLOSES
    tasks = {event["tid"] for event in found["events"] if event["call"] == "getppid"}
    assert len(tasks) == TASKS[way]


@needs_root
@pytest.mark.parametrize("way", TASKS)
@pytest.mark.parametrize("kind", ["--syscalls", "--counts"])
def test_calls_are_counted(kind: str, way: str, program: Path, oscope: CommandLine) -> None:
    found = traced(oscope, kind, "--", str(program), str(CALLS), way)
    assert found["status"] == STATUS
    assert found["calls"]["getppid"]["count"] == CALLS * TASKS[way]
    assert found["calls"]["close"]["count"] >= FAILING_CLOSES
    if kind == "--syscalls":
        assert found["calls"]["close"]["errors"] == {"EBADF": FAILING_CLOSES}
        assert sum(count for _, _, count in found["calls"]["getppid"]["times"]) == CALLS * TASKS[way]


@needs_root
def test_the_tables_are_on_standard_error_alone(program: Path, oscope: CommandLine) -> None:
    answer = oscope("trace", "--syscalls", "--sched", "--faults", "--", "sh", "-c", "echo only this; exit 3")
    assert (answer.code, answer.out) == (3, "only this\n"), answer.err
    for words in (
        "ended with status 3",
        "in system calls",
        "context switches:",
        "losses: ",
        "probe effect: ",
    ):
        assert words in answer.err
    errors = " ".join(answer.err.split())
    assert "does not show whether it made the command slower" in errors
    # A command that fails fails there as well.
    command = "oscope bench --trace syscalls,sched,faults --ignore-failure -- sh -c 'echo only this; exit 3'"
    assert f"{command} measures it" in errors
    assert re.search(r"^execve +1 ", answer.err, re.MULTILINE)
    as_data = oscope("trace", "--json", "-", "--", str(program), "10", "alone")
    assert (as_data.code, as_data.err) == (STATUS, "")
    assert json.loads(as_data.out)["calls"]["getppid"]["count"] == 10


@needs_root
def test_json_on_standard_output_is_alone_there(oscope: CommandLine) -> None:
    words = ("sh", "-c", "echo a word; echo another >&2; exit 3")
    answer = oscope("trace", "--json", "-", "--", *words)
    assert (answer.code, answer.err) == (3, "a word\nanother\n")
    assert json.loads(answer.out)["status"] == 3
    # A file leaves standard output to the command.
    answer = oscope("trace", "--json", "found.json", "--", *words)
    assert (answer.code, answer.out) == (3, "a word\n")


@needs_root
def test_faults_of_the_process_that_becomes_the_command_are_not_the_commands(oscope: CommandLine) -> None:
    """A command that does not fork copies the page of zeros at most; Oscope's fork copies what it writes."""
    rows = traced(oscope, "--faults", "--", "/bin/true")["faults"]
    assert sum(row["count"] for row in rows if row["kind"] == "zero-fill") > 0
    copied = [row["count"] for row in rows if row["kind"] == "copy-on-write" and row["class"] != "file"]
    assert sum(copied) < 10


@needs_root
def test_a_table_in_a_pipe_is_whole(oscope: CommandLine) -> None:
    opened = "cat /nope /etc/passwd/x /proc/1/mem /proc/self/map_files/0-1 2>/dev/null; :"
    answer = oscope("trace", "--", "sh", "-c", opened)
    assert answer.code == 0
    (row,) = [line for line in answer.err.splitlines() if line.startswith("openat ")]
    assert len(row) > 80
    assert "…" not in answer.err


@needs_root
def test_paths_of_any_bytes_are_told(oscope: CommandLine) -> None:
    answer = oscope("trace", "--events", "--", "rm", "-f", 'a "name"\nof\ttwo lines', "ü")
    assert answer.code == 0
    assert r'"a \"name\"\nof\ttwo lines"' in answer.err
    assert r'"\xfc"' in answer.err


@needs_root
@pytest.mark.parametrize("to", ["command line", "terminal"])
def test_an_interrupt_is_the_commands(to: str, oscope: CommandLine) -> None:
    script = "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    with begin(oscope, "sh", "-c", script) as running:
        if to == "terminal":
            os.killpg(running.pid, signal.SIGINT)
        else:
            os.kill(running.pid, signal.SIGINT)
        out, reported = running.communicate(timeout=120)
    assert running.returncode == 9
    # A signal of a process to the whole group comes to the command twice: itself, and passed on; mostly it
    # has ended by then.
    assert set(out.splitlines()) == {"interrupted"}
    assert "ended with status 9" in reported


@needs_root
def test_a_killed_command_has_the_code_of_a_shell(oscope: CommandLine) -> None:
    answer = oscope("trace", "--events", "--", "sh", "-c", "kill -TERM $$")
    assert answer.code == 128 + signal.SIGTERM
    assert "was killed by SIGTERM" in answer.err


@needs_root
def test_nothing_outlives_a_killed_command_line(oscope: CommandLine) -> None:
    with begin(oscope, "sh", "-c", "echo ready; exec sleep 60") as running:
        children = children_of(running.pid)
        assert len(children) == 2
        running.kill()
    wait_until_gone(children)


@needs_root
def test_a_tracer_that_dies_is_told_after_the_command(oscope: CommandLine) -> None:
    (oscope.folder / "wait").touch()
    script = "echo ready; while [ -e wait ]; do sleep 0.05; done; echo done"
    with begin(oscope, "sh", "-c", script) as running:
        (tracer,) = (
            pid for pid in children_of(running.pid) if Path(f"/proc/{pid}/comm").read_text() == "bpftrace\n"
        )
        os.kill(tracer, signal.SIGKILL)
        (oscope.folder / "wait").unlink()
        out, reported = running.communicate(timeout=120)
    assert (running.returncode, out) == (1, "done\n")
    assert reported.startswith("oscope: bpftrace ended early")
    assert len(reported.splitlines()) == 1


def test_what_cannot_be_run_is_a_wrong_request(oscope: CommandLine) -> None:
    (oscope.folder / "text").write_text("no program")
    for words, reported in (
        ((), "no command is named"),
        (("--",), "no command is named"),
        (("--", ""), "no command is named"),
        (("nosuchcommand",), "there is no such command"),
        (("./missing",), "there is no such file"),
        (("/",), "is a folder"),
        (("./text",), "may not be executed"),
        (("--json", "missing/file", "true"), "does not exist"),
        (("--nosuch", "true"), "no such option"),
    ):
        answer = oscope("trace", *words)
        assert (answer.code, answer.out) == (2, ""), words
        assert len(answer.err.splitlines()) == 1, answer.err
        assert reported in answer.err


@needs_root
def test_a_file_that_is_no_program_is_told(oscope: CommandLine) -> None:
    (oscope.folder / "text").write_bytes(b"\x00\x01")
    (oscope.folder / "text").chmod(0o755)
    answer = oscope("trace", "--events", "--", "./text")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("oscope: ./text does not start (Exec format error)")


@needs_root
def test_without_bpftrace_the_command_is_not_run(oscope: CommandLine) -> None:
    for kind in ("--events", "--syscalls"):
        answer = oscope("trace", kind, "--", "/usr/bin/touch", "made", PATH=str(oscope.folder))
        assert answer.code == 1
        assert "bpftrace" in answer.err
        assert "apt-get install bpftrace" in answer.err
        assert len(answer.err.splitlines()) == 1
    assert not (oscope.folder / "made").exists()


def test_without_root_the_command_is_not_run(probe: Path) -> None:
    with as_nobody(probe) as oscope:
        for kind in ("--events", "--syscalls"):
            answer = oscope("trace", kind, "--", "touch", "made")
            assert (answer.code, answer.out) == (1, "")
            assert "sudo" in answer.err
            assert len(answer.err.splitlines()) == 1
        assert not (oscope.folder / "made").exists()


def test_lines_of_several_cpus_are_put_in_order() -> None:
    lines = ["end 40 7 0", "begin 30 7 7 39 0 0 0 0 0 0", "begin 10 8 7 110 0 0 0 0 0 0", "end 20 8 -2"]
    found = [(call.at_ns, call.tid, call.returned, call.time_ns) for call in pair(lines)]
    assert found == [(10, 8, -2, 10), (30, 7, 0, 10)]


@needs_root
@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize(("words", "code"), [("", 1), ("--events", 1), ("--json found.json", 7)])
def test_tables_that_are_lost_are_a_failure(stream: str, words: str, code: int, oscope: CommandLine) -> None:
    command = f"'{sys.executable}' -m oscope trace {words} -- sh -c 'exit 7' {stream}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=oscope.folder,
        env=oscope.all_variables({}),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
    assert (oscope.folder / "found.json").exists() == (code == 7)
