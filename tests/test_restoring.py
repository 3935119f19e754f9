"""What a killed measurement left behind is undone by the next command, which says so."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import CommandLine
from machine_state import family, machine_state
from oscope.runner import recovery
from waiting import wait_until, wait_until_gone

pytestmark = pytest.mark.alone

PLACE = f"{Path('/proc/sys/kernel/random/boot_id').read_text()[:8]}-{Path('/proc/self/ns/pid').stat().st_ino}"
"""This boot and PID namespace, as the name of a journal has them."""
DEAD = f"4194305-77-{PLACE}.json"
"""No process has that number: it is beyond the highest there may be (proc(5), pid_max)."""


@pytest.fixture
def journals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give an empty directory of journals."""
    monkeypatch.setenv("OSCOPE_STATE", str(tmp_path / "state"))
    folder = recovery.journals()
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def restorer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have a probe that counts its calls and prints what the file beside it holds; give that file."""
    program, answers = tmp_path / "restorer", tmp_path / "answers"
    answers.write_text("")
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncat {answers}\n[ -e {tmp_path}/fail ] || exit 0\n'
        "echo something broke >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("OSCOPE_PROBE", str(program))
    return answers


def calls(restorer: Path) -> list[str]:
    reported = restorer.parent / "calls"
    return reported.read_text().splitlines() if reported.exists() else []


def own_journal() -> str:
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    return f"{os.getpid()}-{started}-{PLACE}.json"


def restored() -> list[str]:
    lines: list[str] = []
    recovery.restore(lines.append)
    return lines


def test_what_was_undone_and_what_was_not_is_told_a_line_each(journals: Path, restorer: Path) -> None:
    (journals / DEAD).touch()
    reported = [
        {"restored": "swap file /x/swap", "of": 4194305},
        {"failed": "cgroup /sys/x is busy", "remedy": "end process 12"},
    ]
    restorer.write_text("".join(f"{json.dumps(each)}\n" for each in reported))
    assert restored() == [
        f"undoing what a measurement that was killed left behind ({DEAD})",
        "undone, left by process 4194305 that was killed: swap file /x/swap",
        "cannot undo what a measurement that was killed left behind: cgroup /sys/x is busy: end process 12",
    ]
    assert calls(restorer) == ["restore"]


@pytest.mark.parametrize("name", [None, "living", "notes.txt", DEAD.replace(".json", "0.json")])
def test_the_probe_is_not_asked_where_nothing_was_left(
    name: str | None, journals: Path, restorer: Path
) -> None:
    if name is not None:
        (journals / (own_journal() if name == "living" else name)).touch()
    assert restored() == []
    assert calls(restorer) == []


def test_a_later_process_of_the_same_number_is_not_the_owner(journals: Path, restorer: Path) -> None:
    pid, _, _ = own_journal().partition("-")
    (journals / f"{pid}-1-{PLACE}.json").touch()
    restored()
    assert calls(restorer) == ["restore"]


def test_no_process_of_another_boot_lives(journals: Path, restorer: Path) -> None:
    boot, _, _ = PLACE.partition("-")
    other = f"{int(boot, 16) ^ 1:08x}"
    (journals / own_journal().replace(boot, other)).touch()
    restored()
    assert calls(restorer) == ["restore"]


def test_without_a_directory_of_journals_nothing_is_done(
    restorer: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OSCOPE_STATE", str(tmp_path / "none"))
    assert restored() == []
    assert calls(restorer) == []


def test_a_probe_that_fails_is_told_with_what_it_said(journals: Path, restorer: Path) -> None:
    (journals / DEAD).touch()
    (restorer.parent / "fail").touch()
    _, line = restored()
    assert line.startswith("cannot undo what a measurement that was killed left behind: ")
    assert line.endswith("restore ended with status 1 something broke")


def test_an_answer_that_is_no_answer_is_told(journals: Path, restorer: Path) -> None:
    (journals / DEAD).touch()
    restorer.write_text("42\n")
    _, line = restored()
    assert "the probe said '42'" in line


def test_without_a_probe_the_journal_is_named(
    journals: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (journals / DEAD).touch()
    monkeypatch.setenv("OSCOPE_PROBE", str(tmp_path / "none"))
    (line,) = restored()
    assert str(journals / DEAD) in line
    assert "OSCOPE_PROBE" in line


def test_every_command_restores_first_and_its_data_stay_clean(journals: Path, oscope: CommandLine) -> None:
    (journals / DEAD).touch()
    answer = oscope("run", "syscall.cost", "--set", "call=getppid", "--reps", "2", "--json", "-")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["experiment"] == "syscall.cost"
    for err in (answer.err, oscope("runs").err, oscope("disk", "read", "none").err):
        # The pretended probe knows no such verb.
        first, second = err.splitlines()[:2]
        assert first == f"oscope: undoing what a measurement that was killed left behind ({DEAD})"
        assert second.startswith("oscope: cannot undo what a measurement that was killed left behind: ")


def test_help_and_version_leave_all_as_it_is(journals: Path, restorer: Path, tmp_path: Path) -> None:
    (journals / DEAD).touch()
    for words in ((), ("--help",), ("--version",)):
        answer = CommandLine(tmp_path)(*words)
        assert (answer.code, answer.err) == (0, "")
    assert calls(restorer) == []


def test_looking_loads_nothing_heavy(journals: Path) -> None:
    del journals
    script = (
        "import sys; from oscope.runner import recovery; recovery.restore(print); "
        "print({'json', 'subprocess', 'oscope.probe.process', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=CommandLine(Path.cwd()).all_variables({}),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "set()\n"


def test_a_program_that_uses_the_library_restores_once(
    journals: Path, fake_probe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import oscope
    from cli_driver import described

    del fake_probe
    monkeypatch.setenv("FAKE_PROBE_DESCRIBE", described())
    (journals / DEAD).touch()
    for expected in (2, 0):
        oscope.run("syscall.cost", call="getppid", style="loop", reps=2)
        reported = capsys.readouterr()
        assert reported.out == ""
        assert len(reported.err.splitlines()) == expected


# ---- with the real probe, as root

LONG = {
    "swap": ("memory.fault", "kind=swap-in", "size=64M", "swap=file"),
    "pressure": ("memory.access", "pressure=compete", "size=64M", "limit=64M", "sets=1000000", "wait=60s"),
}
PATIENCE_S = 60


@pytest.fixture
def killable(
    journals: Path, probe: Path, tmp_path: Path
) -> Iterator[tuple[CommandLine, list[subprocess.Popen[str]]]]:
    """Give a command line, and a list of processes to be ended with the test; restore whatever it left."""
    if os.geteuid() != 0:
        pytest.skip("only root makes swap and control groups")
    del journals
    started: list[subprocess.Popen[str]] = []
    yield CommandLine(tmp_path), started
    for process in started:
        process.kill()
        process.communicate()
    subprocess.run([probe, "restore"], capture_output=True, timeout=PATIENCE_S, check=True)


def own_swap() -> list[str]:
    """Return the swap in use that a journal of this test names."""
    reported = [path.read_text() for path in recovery.journals().glob("*.json")]
    used = [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    return [path for path in used if any(path in text for text in reported)]


def own_groups() -> list[str]:
    """Return the control groups that a journal of this test names and that are there."""
    found: dict[int, str] = {}
    for path in recovery.journals().glob("*.json"):
        # The last line may be half written.
        for line in path.read_text().split("\n")[:-1]:
            reported = json.loads(line)
            if "undone" in reported:
                found.pop(reported["undone"], None)
            elif "made" in reported and reported["made"][1]["kind"] == "group":
                found[reported["made"][0]] = reported["made"][1]["path"]
    return [path for path in found.values() if Path(path).is_dir()]


def in_full_swing(
    killable: tuple[CommandLine, list[subprocess.Popen[str]]], what: str
) -> tuple[subprocess.Popen[str], list[int]]:
    """Begin a long measurement; return it, and the processes below it, once all is there that it makes."""
    command, started = killable
    name, *levels = LONG[what]
    settings = [word for level in levels for word in ("--set", level)]
    process = command.start("run", name, *settings, "--reps", "100000", start_new_session=True)
    started.append(process)
    wait_until(
        lambda: own_swap() and (what != "pressure" or own_groups()), "swap and a control group", process
    )
    return process, family(process.pid)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that this test started, if it still lives."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.mark.parametrize("what", LONG)
def test_after_a_kill_of_all_the_next_command_restores_and_says_so(
    what: str, killable: tuple[CommandLine, list[subprocess.Popen[str]]], journals: Path
) -> None:
    before = machine_state()
    process, below = in_full_swing(killable, what)
    # The others stand still first: none of them may see another's end and put things back.
    for pid in below:
        send(pid, signal.SIGSTOP)
    os.killpg(process.pid, signal.SIGKILL)
    for pid in below:
        send(pid, signal.SIGKILL)
    process.communicate()
    wait_until_gone(below)
    assert list(journals.glob("*.json"))
    command, _ = killable
    answer = command("runs")
    assert answer.code == 0
    began, *undone = answer.err.splitlines()
    assert began.startswith("oscope: undoing what a measurement that was killed left behind (")
    assert undone
    assert all(line.startswith("oscope: undone, left by process ") for line in undone)
    assert "swap" in answer.err
    if what == "pressure":
        assert "cgroup" in answer.err or "control group" in answer.err
    assert machine_state() == before
    assert list(journals.glob("*.json")) == []
    again = command("runs")
    assert again.err == ""


def test_after_a_kill_of_the_laboratory_alone_the_probe_puts_all_back(
    killable: tuple[CommandLine, list[subprocess.Popen[str]]], journals: Path
) -> None:
    before = machine_state()
    process, below = in_full_swing(killable, "swap")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until_gone(below)
    assert list(journals.glob("*.json")) == []
    assert machine_state() == before
    command, _ = killable
    assert command("runs").err == ""
