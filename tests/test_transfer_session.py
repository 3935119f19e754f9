"""`oscope transfer` with a probe that pretends: what it is asked, and what is made of what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_driver import ROOT, CommandLine
from oscope.tools.transfer.events import Done, Failure, parse_event

PROGRAM = """\
import json, os, sys, time
with open(os.environ["FAKE_WORDS"], "w") as file:
    json.dump(sys.argv[1:], file)
sys.stderr.write(os.environ.get("FAKE_STDERR", ""))
for line in json.loads(os.environ["FAKE_LINES"]):
    print(line if isinstance(line, str) else json.dumps(line), flush=True)
end = os.environ.get("FAKE_END", "0")
os.kill(os.getpid(), 9) if end == "kill" else sys.exit(int(end))
"""
TALLY: dict[str, Any] = {
    "files": 2,
    "skipped": 0,
    "bytes": 3 * 2**30,
    "total_bytes": 3 * 2**30,
    "time_ns": 1_500_000_000,
    "calls": 12_345,
    "cpu_ns": 900_000_000,
    "voluntary": 40,
    "involuntary": 2,
    "method": "sendfile",
}
DONE: dict[str, Any] = {"event": "done", "here": TALLY, "there": {**TALLY, "method": "splice"}}


@pytest.fixture
def pretended(tmp_path: Path) -> CommandLine:
    """Give the command line with a probe that says FAKE_LINES and ends with FAKE_END."""
    program = tmp_path / "fake-verbs"
    program.write_text(f"#!{sys.executable} -IS\n{PROGRAM}")
    program.chmod(0o755)
    folder = tmp_path / "here"
    folder.mkdir()
    return CommandLine(folder, {"OSCOPE_PROBE": str(program), "FAKE_WORDS": str(tmp_path / "words")})


def words(command: CommandLine) -> list[str]:
    found = json.loads(Path(command.environment["FAKE_WORDS"]).read_text())
    assert isinstance(found, list)
    return found


def lines(*events: dict[str, Any] | str) -> str:
    return json.dumps(events)


def cells(row: str) -> str:
    """Return what stands in a row; the narrow spaces within numbers are kept."""
    return ",".join(cell for cell in row.split(" ") if cell)


def test_what_is_asked_reaches_the_verb(pretended: CommandLine) -> None:
    options = ("--method", "mmap", "--digest", "sha512", "--stall", "500ms")
    answer = pretended("transfer", "send", *options, "-x", "a b", "h:1", FAKE_LINES=lines(DONE))
    assert answer.code == 2, "-x is no file"
    answer = pretended("transfer", "send", *options, "--", "-x", "a b", "h:1", FAKE_LINES=lines(DONE))
    assert answer.code == 0, answer.err
    given = ["--method", "mmap", "--stall", "0.5", "--digest", "sha512", "--", "h:1", "-x", "a b"]
    assert words(pretended) == ["send", *given]
    answer = pretended("transfer", "receive", "--into", "d", "--once", "--no-verify", FAKE_LINES=lines(DONE))
    assert answer.code == 0, answer.err
    given = ["--method", "auto", "--stall", "30", "--listen", "127.0.0.1:7025", "--into", "d", "--once"]
    assert words(pretended) == ["receive", *given, "--no-verify"]
    device = ("--device", "mmap", "--descriptors")
    answer = pretended("transfer", "send", *device, "--no-verify", "a", "[::1]:7025", FAKE_LINES=lines(DONE))
    assert answer.code == 0, answer.err
    given = ["--method", "auto", "--stall", "30", *device, "--digest", "none", "--", "[::1]:7025", "a"]
    assert words(pretended) == ["send", *given]
    answer = pretended("transfer", "send", "--device", "fcntl", "a", "h:1", FAKE_LINES=lines(DONE))
    assert answer.code == 0, answer.err
    assert words(pretended)[-5:] == ["--digest", "sha512", "--", "h:1", "a"]


def test_the_table_has_both_sides(pretended: CommandLine) -> None:
    answer = pretended("transfer", "send", "a", "h:1", FAKE_LINES=lines(DONE))
    assert answer.err == ""
    head, _, sender, receiver = answer.out.splitlines()
    assert cells(head) == "side,method,files,bytes,time,throughput,CPU,s/GiB,calls,switches"
    moved = "3\u202f221\u202f225\u202f472"
    assert cells(sender) == f"sender,sendfile,2,{moved},1.500,s,2,GiB/s,0.3000,12\u202f345,42"
    assert receiver.startswith("receiver  splice")


def test_what_was_there_before_is_told(pretended: CommandLine) -> None:
    done = {**DONE, "here": {**TALLY, "skipped": 1, "bytes": 2**30}, "digest": "ab" * 32}
    answer = pretended("transfer", "send", "a", "h:1", FAKE_LINES=lines(done))
    *_, before, digest = answer.out.splitlines()
    assert before.startswith(
        "3\u202f221\u202f225\u202f472 bytes in all: 2\u202f147\u202f483\u202f648 were there"
    )
    assert digest == "blake3 " + "ab" * 32


def test_nothing_moved_has_no_rate(pretended: CommandLine) -> None:
    nothing = {**TALLY, "bytes": 0, "total_bytes": 0, "files": 1}
    done = {"event": "done", "here": nothing, "there": None}
    answer = pretended("transfer", "send", "a", "h:1", FAKE_LINES=lines(done))
    assert cells(answer.out.splitlines()[2]).split(",")[3:8] == ["0", "1.500", "s", "–", "–"]


def test_json_leaves_standard_output_to_the_data(pretended: CommandLine) -> None:
    note = {"event": "note", "text": "a link was left out"}
    answer = pretended("transfer", "send", "a", "h:1", "--json", "-", FAKE_LINES=lines(note, DONE))
    assert answer.err == "oscope: a link was left out\n"
    data = json.loads(answer.out)
    assert data == {"sender": TALLY, "receiver": DONE["there"], "digest_kind": None, "digest": None}
    answer = pretended("transfer", "send", "a", "h:1", "--json", "file", FAKE_LINES=lines(DONE))
    assert json.loads((pretended.folder / "file").read_text()) == data
    assert answer.out.startswith("side")


def test_a_receiver_that_goes_on_tells_each_failure_and_each_transfer(pretended: CommandLine) -> None:
    listening = {"event": "listening", "address": "127.0.0.1:5"}
    peer = {"event": "peer", "address": "127.0.0.1:6"}
    error = {"event": "error", "message": "it went wrong", "remedy": "try again", "kind": "failed"}
    said = lines(listening, peer, error, peer, DONE)
    # A receiver with a device listens nowhere.
    answer = pretended("transfer", "receive", "--into", "d", FAKE_LINES=lines(peer, error, peer, DONE))
    assert (answer.code, len(answer.err.splitlines())) == (0, 3)
    answer = pretended("transfer", "receive", "--into", "d", FAKE_LINES=said)
    assert answer.code == 0
    assert answer.err.splitlines() == [
        "oscope: listening on 127.0.0.1:5",
        "oscope: 127.0.0.1:6 sends",
        "oscope: it went wrong: try again",
        "oscope: 127.0.0.1:6 sends",
    ]
    assert answer.out.splitlines()[2].startswith("receiver")
    answer = pretended("transfer", "receive", "--once", "--into", "d", FAKE_LINES=said, FAKE_END="1")
    assert answer.code == 1
    assert answer.err.splitlines()[-1] == "oscope: it went wrong: try again"


@pytest.mark.parametrize(("kind", "code"), [("usage", 2), ("failed", 1)])
def test_errors_have_their_exit_code(kind: str, code: int, pretended: CommandLine) -> None:
    error = {"event": "error", "message": "no", "remedy": None, "kind": kind}
    for verb in (("send", "a", "h:1"), ("receive", "--into", "d")):
        answer = pretended("transfer", *verb, FAKE_LINES=lines(error), FAKE_END=str(code))
        assert (answer.code, answer.out, answer.err) == (code, "", "oscope: no\n")


@pytest.mark.parametrize(
    ("said", "end", "reported"),
    [
        ("[]", "0", "ended with status 0 and without a result"),
        ("[]", "3", "ended with status 3 and without a result; its last words: panicked"),
        ("[]", "kill", "was killed by SIGKILL"),
        ('["no JSON"]', "0", "broke the protocol"),
        ('[{"event": "new"}]', "0", "broke the protocol (the event 'new' is unknown)"),
        ('[{"event": "peer"}]', "0", "broke the protocol (peer without its fields ('address'))"),
        (lines(DONE), "1", "ended with status 1 and without a result"),
    ],
)
def test_a_probe_that_fails_is_told(said: str, end: str, reported: str, pretended: CommandLine) -> None:
    answer = pretended("transfer", "send", "a", "h:1", FAKE_LINES=said, FAKE_END=end, FAKE_STDERR="panicked")
    assert (answer.code, answer.out) == (1, "")
    (line,) = answer.err.splitlines()
    assert reported in line


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (("send", "a", "b"), "'b' is not ADDR:PORT"),
        (("send", "a", "host:70000"), "'host:70000' is not ADDR:PORT"),
        (("send", "host:1"), "missing argument"),
        (("send", "a", "h:1", "--stall", "0s"), "leaves no time"),
        (("send", "a", "h:1", "--method", "magic"), "magic"),
        (("send", "a", "h:1", "--no-verify", "--digest", "sha512"), "exclude each other"),
        (("send", "a", "h:1", "--descriptors"), "about the pages of a device"),
        (("send", "a", "h:1", "--device", "mmap", "--method", "mmap"), "exclude each other"),
        (("send", "a", "h:1", "--device", "mmap", "--digest", "blake3"), "by sha512, not blake3"),
        (("send", "a", "h:1", "--json", "/nonexistent/file"), "does not exist"),
        (("receive",), "--into"),
        (("receive", "--into", "d", "--listen", "7025"), "'7025' is not ADDR:PORT"),
        (("receive", "--into", "d", "--method", "zerocopy"), "zerocopy"),
    ],
)
def test_wrong_requests_start_nothing(given: tuple[str, ...], reported: str, pretended: CommandLine) -> None:
    answer = pretended("transfer", *given, FAKE_LINES=lines(DONE))
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert reported in line
    assert not Path(pretended.environment["FAKE_WORDS"]).exists()


def test_descriptors_are_a_table(pretended: CommandLine) -> None:
    pages = [{"event": "descriptor", "offset": 4096 * page, "pfn": 70 + page} for page in range(2)]
    given = ("transfer", "send", "--device", "mmap", "--descriptors", "a", "h:1")
    answer = pretended(*given, FAKE_LINES=lines(*pages, DONE))
    assert [line.split() for line in answer.out.splitlines()[-2:]] == [["0", "70"], ["4096", "71"]]


@pytest.mark.parametrize("command", ["send", "receive"])
def test_every_option_is_explained_in_the_documentation(command: str, pretended: CommandLine) -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    section = page.partition("\n## oscope transfer\n")[2].partition("\n## ")[0]
    assert f"oscope transfer {command} " in section
    options = set(re.findall(r"^  (--[-\w]+)", pretended("transfer", command, "--help").out, re.MULTILINE))
    assert {"--method", "--no-verify", "--device", "--descriptors"} <= options
    for option in options - {"--store", "--verbose"}:
        assert f"`{option}" in section, option


def test_the_probe_is_started_before_what_only_the_table_takes_is_loaded() -> None:
    heavy = {"rich", "orjson", "oscope.labs", "oscope.report", "numpy"}
    code = f"import sys, oscope.cli.transfer; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_later_fields_are_passed_over() -> None:
    event = parse_event(json.dumps({**DONE, "here": {**TALLY, "new": 1}, "newer": 2}).encode())
    assert isinstance(event, Done)
    assert event.here.switches == 42
    with pytest.raises(ValueError, match="an error of the kind 'odd'"):
        parse_event(b'{"event":"error","message":"m","remedy":null,"kind":"odd"}')
    failure = parse_event(b'{"event":"error","message":"m","remedy":"r","kind":"failed"}')
    assert failure == Failure("m", "r", "failed")
