"""What commands print on a terminal of 80 columns: no line is wider; no name, address or number is cut."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from cli_driver import CommandLine
from dhcp_captures import Course, from_client, from_server, link, pcap
from oscope.cli.views.explain import broken, cut
from oscope.report.terminal import print_remedy
from recordings import at_terminal

COLUMNS = 80
_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def oscope(tmp_path: Path, probe: Path) -> CommandLine:
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe), "OSCOPE_STORE": "oscope.db", "PAGER": "cat"})


def on_terminal(oscope: CommandLine, *words: str, code: int = 0) -> list[str]:
    """Return the lines that `oscope WORDS` leaves on a terminal of 80 columns."""
    variables = oscope.all_variables({"TERM": "xterm"})
    command = [sys.executable, "-m", "oscope", *words]
    with at_terminal(command, oscope.folder, variables, columns=COLUMNS) as person:
        assert person.finish() == code
    text = _CONTROL.sub(b"", person.seen).decode().replace("\r\n", "\n")
    return [line.rpartition("\r")[2] for line in text.split("\n")]


def too_wide(lines: list[str]) -> list[str]:
    return [line for line in lines if len(line) > COLUMNS]


def test_a_comparison_of_two_commands_leaves_out_what_matters_before_it_is_too_wide(
    oscope: CommandLine,
) -> None:
    (oscope.folder / "f").write_text("content")
    for _ in range(2):
        bench = ("bench", "cat f", "cat f f", "--reps", "4", "--output", "/dev/null")
        assert oscope(*bench).code == 0
    lines = on_terminal(oscope, "compare", *oscope.runs())
    assert not too_wide(lines)
    assert "involuntary_switches" in "".join(lines)
    # A name that is too long is broken, no figure is.
    long = "cat " + " ".join(["f"] * 30)
    for _ in range(2):
        assert oscope("bench", long, "cat f", "--reps", "4", "--output", "/dev/null").code == 0
    for words in (("compare", *oscope.runs()[2:]), ("show", "last")):
        lines = on_terminal(oscope, *words)
        assert not too_wide(lines), words
        assert "..." not in "".join(lines)


def test_an_explanation_numbers_its_calls_and_is_as_wide_as_the_terminal(oscope: CommandLine) -> None:
    lines = on_terminal(oscope, "explain", "--", "cmp", sys.executable, sys.executable)
    calls = lines[: lines.index("by phase, all programs together")]
    end = next(i for i, line in enumerate(lines) if line == "findings")
    # A path is never broken, since it is to be copied.
    assert [line for line in too_wide(calls[:end]) if len(line.split()[-1]) < 50] == []
    cited = {
        number
        for found in re.findall(r", calls? ([\d, ]+)\):", " ".join(lines[end:]))
        for number in found.split(", ")
    }
    assert cited
    numbers = {line[:5].strip() for line in lines[:end]}
    assert cited <= numbers
    whole = oscope("explain", "--", "cmp", sys.executable, sys.executable)
    assert len(max(whole.out.splitlines(), key=len)) > COLUMNS


def test_bytes_are_cut_between_escapes_and_paths_are_not_cut() -> None:
    assert cut(r'read(3, "\177ELF\2\1\1\3' + r"\0" * 60 + r'", 832) = 832') == (
        r'read(3, "\177ELF\2\1\1\3' + r"\0" * 12 + '"..., 832) = 832'
    )
    for same in (
        r'read(3, "a' + "b" * 90 + r'", 99) = 91',
        r'open("/a\n' + "b" * 90 + r'", 0) = 3',
        r'read(3, "\1\2"..., 4) = 4',
    ):
        assert cut(same) == same
    # What never ends is searched once.
    assert cut('"' + r"\123" * 500) == '"' + r"\123" * 500


@pytest.mark.parametrize("width", range(30, 75))
def test_the_lines_of_a_call_are_joined_the_call_again(width: int) -> None:
    for call in (
        'write(1, "aaaaaaaa     bbbb-cccc  dddddddddddddddddd      e   ", 46) = 46',
        'execve("/bin/echo", ["echo", "  two  ", "--long-option=a well-known   thing"], 0x7ffd) = 0',
        f'write(1, "{" " * 90}x", 91) = 91',
    ):
        lines = broken(call, width, keep_blanks=True)
        assert "".join(lines) == call
        assert all(len(line) <= width or len(line.split()) <= 1 for line in lines)


_LONG = "oscope compare 0123456789abcdef fedcba9876543210 --by 'style=loop, single' --threshold 2%"


@pytest.mark.parametrize(
    ("remedy", "command"),
    [
        (_LONG, _LONG),
        (f"see in which of its many levels they differ ({_LONG}), or measure more samples", _LONG),
        (f"run `./{_LONG}`, which takes two minutes on a machine such as this one", f"./{_LONG}"),
        (
            "as root: echo 1 > /sys/vm/compact_memory, and echo madvise > /sys/kernel/mm/defrag",
            "echo madvise > /sys/kernel/mm/defrag",
        ),
        (
            'add the host\'s name to /etc/hosts: echo "127.0.1.1 $(hostname)" >> /etc/hosts',
            'echo "127.0.1.1 $(hostname)" >> /etc/hosts',
        ),
    ],
)
def test_a_command_in_a_remedy_stays_on_a_line_and_the_text_around_it_wraps(
    remedy: str, command: str
) -> None:
    printed = io.StringIO()
    out = Console(file=printed, width=60, force_terminal=True, color_system=None)
    print_remedy(remedy, out)
    lines = printed.getvalue().splitlines()
    assert any(command in line for line in lines), lines
    assert " ".join(line.strip() for line in lines) == f"→ {remedy}"
    assert all(len(line) <= 60 or line.strip(" →(`),;").startswith(command) for line in lines), lines


def test_no_call_of_its_own_stands_before_the_exit(oscope: CommandLine) -> None:
    found = oscope("explain", "--", "true").out
    if "no call of its own" in found:
        assert found.index("no call of its own") < found.index("\n  exit:")


def test_a_capture_of_dhcp_shows_each_address_and_message_whole(oscope: CommandLine) -> None:
    """At 80 columns, of a lease in an ordinary network with long addresses."""
    server, address = "192.168.100.100", "192.168.100.250"
    course = Course()
    terms, given = ("lease_time", 120), {"yiaddr": address, "server": server}
    course.add(0.0, from_client(1, "discover"))
    course.add(1.0, from_server(1, "offer", terms, **given))
    course.add(2.0, from_client(1, "request", ("requested_addr", address), ("server_id", server)))
    course.add(3.0, from_server(1, "ack", terms, **given))
    (oscope.folder / "d.pcap").write_bytes(pcap(course.frames()))
    lines = on_terminal(oscope, "dhcp", "d.pcap")
    assert not too_wide(lines)
    text = "\n".join(lines)
    assert "..." not in text
    assert "…" not in text
    for whole in ("DISCOVER", "OFFER", "REQUEST", "ACK", "255.255.255.255", server, address, link(1)):
        assert whole in text.partition("▶")[0], whole
    header = next(i for i, line in enumerate(lines) if "▶" in line or "◀" in line)
    assert server in lines[header - 1]
