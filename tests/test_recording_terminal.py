"""`oscope session clean` beside a real terminal: what tmux shows of the same bytes of real programs."""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import terminal_streams
from cli_driver import CommandLine
from recordings import Person, Tmux, at_terminal, content_of, trimmed
from terminal_streams import stream

BEFORE = "[full-screen program: its last screen]"
AFTER = "[end]"
LEAVE = b"\x1b[?1049l"
# A shell that runs a command does not hand PS1 on.
SHELL = ("env", "PS1='$ '", "bash", "--norc", "--noprofile")
COLUMNS, ROWS = 60, 12

PROGRESS = r"""
for i in 10 40 70 100; do
  printf '\r%3d %% [%-20s] %s' $i "$(printf '#%.0s' $(seq $((i / 5))))" "part $i"
done
printf '\r\033[Kdone: 4 parts\n'
"""


@pytest.fixture
def session(probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line with the real probe, in a folder of its own."""
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "long.txt").write_text("".join(f"line {n} of a long file\n" for n in range(200)))
    (folder / "progress.sh").write_text(PROGRESS)
    return CommandLine(folder, {"OSCOPE_PROBE": str(probe)})


@pytest.fixture
def tmux(tmp_path: Path) -> Tmux:
    folder = tmp_path / "tmux"
    folder.mkdir()
    return Tmux(folder)


def variables(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
        "PS1": "$ ",
        "SHELL": "/bin/bash",
        "LESSHISTFILE": "-",
    }


def typescript(session: CommandLine, act: Callable[[Person], None]) -> bytes:
    """Return what `script` recorded of a shell in which `act` was done."""
    command = ("script", "-q", "-O", "typescript", "-c", " ".join(SHELL))
    with at_terminal(command, session.folder, variables(session.folder), COLUMNS, ROWS) as person:
        person.wait_for(b"$ ")
        act(person)
        os.write(person.terminal, b"exit\r")
        assert person.finish() == 0
    return (session.folder / "typescript").read_bytes()


def edit_lines(person: Person) -> None:
    person.type(b"echo helo\x1b[D\x7fl\x1b[Clo\x01\x05 w\xc3\xb6rld\r", b"rld\r\n$ ")
    person.type(b"echo gone\x15echo kept\r", b"kept\r\n$ ")  # Ctrl-U.
    person.type(b"\x1b[A\x1b[A", b"helolo")
    person.type(b"\x15echo \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e e\xcc\x81\x7fx\r", b"x\r\n$ ")
    person.type(b"\x12ke", b"e': echo")  # Ctrl-R: a search in the history.
    person.type(b"\r", b"kept\r\n$ ")
    long = b"echo " + b"0123456789" * 9
    person.type(long + b"\x1b[D" * 30 + b"middle" + b"\r", b"\n$ ")
    person.type(b"\x1b[A\x01\x1b[3~\x1b[3~\x1b[3~\x1b[3~printf '%s\\n'\r", b"\n$ ")
    person.type(b"seq 30\r", b"30\r\n$ ")


def page(person: Person) -> None:
    person.type(b"less long.txt\r", b"line 10 of")
    person.type(b" ", b"line 20 of")
    person.type(b"/line 150\r", b"line 155 of")
    person.type(b"q", b"$ ")
    person.type(b"echo after\r", b"after\r\n$ ")


def edit_file(person: Person) -> None:
    person.type(b"vi -u NONE -N new.txt\r", b"[New]")
    person.type(b"ihello from the editor\rsecond line", b"second line")
    person.type(b"\x1bggOfirst line\x1b", b"first line")
    person.type(b":wq\r", b"$ ")
    person.type(b"cat new.txt\r", b"second line\r\n$ ")


def show_progress(person: Person) -> None:
    person.type(b"bash progress.sh\r", b"done: 4 parts\r\n$ ")
    person.type(b"printf '\\033]0;a title\\007\\033[1;31mred\\033[0m\\n'\r", b"red\x1b[0m\r\n$ ")
    person.type(b"clear\r", b"$ ")
    person.type(b"echo after clearing\r", b"clearing\r\n$ ")
    person.type(b"\x0c", b"$ ")  # Ctrl-L.
    person.type(b"tput csr 2 6; tput cup 6 0; seq 20; tput csr 0 11; tput cup 9 0\r", b"20\r\n")


def without_screens(lines: list[str]) -> tuple[list[str], list[list[str]]]:
    """Part the ordinary lines from the last screens of full-screen programs."""
    ordinary: list[str] = []
    screens: list[list[str]] = []
    place = ordinary
    for line in lines:
        if line == BEFORE:
            screens.append([])
            place = screens[-1]
        elif line == AFTER:
            place = ordinary
        else:
            place.append(line)
    return ordinary, screens


@pytest.mark.parametrize("act", [edit_lines, page, edit_file, show_progress])
def test_a_recording_by_script_is_what_a_terminal_shows(
    act: Callable[[Person], None], session: CommandLine, tmux: Tmux
) -> None:
    recorded = typescript(session, act)
    answer = session("session", "clean", "typescript")
    assert (answer.code, answer.err) == (0, "")
    ordinary, screens = without_screens(trimmed(answer.out))
    # tmux forgets what is above the screen when it is told to; a person has seen it.
    content = content_of(recorded).replace(b"\x1b[3J", b"")
    assert ordinary == tmux.show(content, COLUMNS, ROWS)
    left = [found.start() for found in re.finditer(re.escape(LEAVE), content)]
    assert len(left) == (act in (page, edit_file))
    assert screens == [tmux.show(content[:place], COLUMNS, ROWS, joined=False) for place in left]
    assert "\x1b" not in answer.out


def test_the_last_screen_stands_where_the_program_ran(session: CommandLine) -> None:
    typescript(session, page)
    lines = trimmed(session("session", "clean", "typescript").out)
    begin, end = lines.index(BEFORE), lines.index(AFTER)
    assert lines[begin - 1] == "$ less long.txt"
    assert lines[begin + 1] == "line 150 of a long file"
    assert lines[end + 1] == "$ echo after"
    bare = trimmed(session("session", "clean", "typescript", "--marks", "none").out)
    assert bare == [line for line in lines if line not in (BEFORE, AFTER)]


@pytest.mark.parametrize("seed", range(12))
def test_any_stream_is_what_a_terminal_shows(seed: int, session: CommandLine, tmux: Tmux) -> None:
    content = stream(random.Random(seed))
    (session.folder / "stream").write_bytes(content)
    answer = session(
        "session", "clean", "stream", "--size", f"{terminal_streams.COLUMNS}x{terminal_streams.ROWS}"
    )
    assert answer.code == 0
    assert trimmed(answer.out) == tmux.show(content, terminal_streams.COLUMNS, terminal_streams.ROWS)


def test_windows_that_change_their_size_are_followed(session: CommandLine) -> None:
    def act(person: Person) -> None:
        person.type(b"seq -s' ' 30\r", b"30\r\n$ ")
        person.resize(30, 8)
        person.type(b"stty size\r", b"8 30\r\n$ ")
        person.type(b"echo " + b"abc " * 12 + b"\r", b"\n$ ")
        person.resize(100, 30)
        person.type(b"stty size\r", b"30 100\r\n$ ")

    command = ("script", "-q", "-O", "typescript", "-T", "times", "-m", "advanced", "-c", " ".join(SHELL))
    with at_terminal(command, session.folder, variables(session.folder), COLUMNS, ROWS) as person:
        person.wait_for(b"$ ")
        act(person)
        os.write(person.terminal, b"exit\r")
        person.finish()
    times = (session.folder / "times").read_text()
    assert times.count("SIGWINCH") == 2
    answer = session("session", "clean", "typescript", "--timing", "times")
    assert (answer.code, answer.err) == (0, "")
    assert trimmed(answer.out) == [
        "$ seq -s' ' 30",
        " ".join(map(str, range(1, 31))),
        "$ stty size",
        "8 30",
        "$ echo " + " ".join(["abc"] * 12),
        " ".join(["abc"] * 12),
        "$ stty size",
        "30 100",
        "$ exit",
        "exit",
    ]


def test_what_we_record_is_what_script_records(session: CommandLine, tmux: Tmux) -> None:
    typescript(session, page)
    expected = session("session", "clean", "typescript").out
    command = (
        sys.executable,
        "-m",
        "oscope",
        "session",
        "record",
        "ours.cast",
        "--",
        "sh",
        "-c",
        " ".join(SHELL),
    )
    own = session.all_variables(variables(session.folder))
    with at_terminal(command, session.folder, own, COLUMNS, ROWS) as person:
        person.wait_for(b"$ ")
        page(person)
        os.write(person.terminal, b"exit\r")
        assert person.finish() == 0
    assert trimmed(session("session", "clean", "ours.cast").out) == trimmed(expected)
    header, *events = map(json.loads, (session.folder / "ours.cast").read_text().splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, COLUMNS, ROWS)
    sent = "".join(event[2] for event in events if event[1] == "o").encode()
    assert sent == person.seen
    assert without_screens(trimmed(expected))[0] == tmux.show(sent, COLUMNS, ROWS)
