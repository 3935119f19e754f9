"""What `oscope disk` asks of the probe, and what it makes of the answers; the probe here only pretends."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

import fake_session_probe
from cli_driver import CommandLine, requests
from conftest import TESTS
from fake_session_probe import refusal
from waiting import wait_until

METRICS = {
    "throughput": 1234.567,
    "time_s": 0.8294,
    "bytes": 2**30,
    "calls": 8193.0,
    "xor": 0xAB,
    "cpu_s": 0.5,
}
NOTE = {"event": "note", "text": "engine mmap, 2 threads"}


def sample(failed: str | None = None, **metrics: float | None) -> dict[str, Any]:
    return fake_session_probe.sample(METRICS | metrics, failed)


@pytest.fixture
def disk(session_command: CommandLine) -> CommandLine:
    """Give the command line with a probe that reads, or fails, as it is told to."""
    session_command.environment["FAKE_EVENTS"] = json.dumps([NOTE, sample()])
    return session_command


def test_reading_asks_for_one_pass_and_prints_what_it_gave(disk: CommandLine) -> None:
    answer = disk("disk", "read", "some file", "--block-size", "128K", "--count", "3")
    assert answer.out.splitlines() == [
        "throughput  1234.57 MiB/s (whether from the page cache or the device could not be seen)",
        "time        0.829400 s",
        "bytes       1073741824 (1 GiB)",
        "calls       8193",
        "XOR         000000ab",
    ]
    assert answer.err == "oscope: engine mmap, 2 threads\n"
    assert answer.code == 0
    (request,) = requests(disk)
    assert (request["workload"], request["reps"], request["cpu"]) == ("disk.read", 1, -1)
    assert request["params"] == {
        "file": str(disk.folder / "some file"),
        "block_size": 131072,
        "count": 3,
        "cache": "found",
        "engine": "read",
        "threads": 1,
        "work": "xor",
        "longest": 86400.0,
    }


def test_one_json_object_instead(disk: CommandLine) -> None:
    answer = disk("disk", "read", "f", "--block-size", "4K", "--json")
    assert json.loads(answer.out) == {
        "mib_per_s": 1234.567,
        "time_s": 0.8294,
        "bytes": 2**30,
        "calls": 8193,
        "xor": "000000ab",
    }


def test_folding_prints_one_line(disk: CommandLine) -> None:
    answer = disk("disk", "fast", "f")
    assert answer.out == "000000ab  0.829400 s  1.21 GiB/s\n"
    assert answer.err == "oscope: engine mmap, 2 threads\n"


@pytest.mark.parametrize(
    ("options", "engine", "threads", "block_size"),
    [
        ((), "auto", 0, 0),
        (("--threads", "3"), "auto", 3, 0),
        (("--block-size", "64K"), "auto", 0, 65536),
        (("--engine", "uring", "--threads", "2"), "uring", 2, 2**20),
        (("--engine", "direct", "--threads", "64"), "direct", 64, 2**19),
        (("--engine", "read", "--threads", "1", "--block-size", "5"), "read", 1, 5),
    ],
)
def test_folding_sends_what_is_given_and_a_size_that_memory_allows(
    options: tuple[str, ...], engine: str, threads: int, block_size: int, disk: CommandLine
) -> None:
    assert disk("disk", "fast", "f", *options).code == 0
    (request,) = requests(disk)
    chosen = [request["params"][name] for name in ("engine", "threads", "block_size", "count", "work")]
    assert chosen == [engine, threads, block_size, 0, "xor"]


@pytest.mark.parametrize(
    ("options", "sync", "existing", "on_failure"),
    [
        ((), "none", "refuse", "remove"),
        (("--sync", "direct", "--overwrite", "--keep"), "direct", "replace", "keep"),
    ],
)
def test_writing_asks_for_what_is_given(
    options: tuple[str, ...], sync: str, existing: str, on_failure: str, disk: CommandLine
) -> None:
    reported = {"FAKE_EVENTS": json.dumps([sample(xor=None)])}
    answer = disk("disk", "write", "f", "--block-size", "1M", "--count", "7", *options, **reported)
    assert [line.split()[0] for line in answer.out.splitlines()] == ["throughput", "time", "bytes", "calls"]
    (request,) = requests(disk)
    assert request["workload"] == "disk.write"
    assert request["params"] == {
        "file": str(disk.folder / "f"),
        "block_size": 2**20,
        "count": 7,
        "sync": sync,
        "existing": existing,
        "on_failure": on_failure,
    }


@pytest.mark.parametrize(
    ("event", "code", "line"),
    [
        (sample("f: read error at byte 4096"), 1, "f: read error at byte 4096"),
        (refusal("request", "file", "file: f is a FIFO"), 1, "f is a FIFO"),
        (
            refusal("request", "block_size", "block_size: must be 1 to 9"),
            2,
            "--block-size: must be 1 to 9",
        ),
        (refusal("unavailable", None, "no io_uring", "use direct"), 1, "no io_uring: use direct"),
        (refusal("unavailable", None, "no", "try --set engine=read"), 1, "no: try --engine read"),
        (
            refusal("request", "existing", "existing: f is there; use existing=replace"),
            1,
            "f is there; use --overwrite",
        ),
        (refusal("failed", None, "it broke"), 1, "it broke"),
        (sample(time_s=None), 1, "the probe did not measure time_s"),
    ],
)
def test_what_goes_wrong_is_one_line(event: dict[str, Any], code: int, line: str, disk: CommandLine) -> None:
    answer = disk("disk", "fast", "f", FAKE_EVENTS=json.dumps([event]))
    assert (answer.code, answer.out, answer.err) == (code, "", f"oscope: {line}\n")


def test_a_reading_that_ended_too_early_has_no_xor_and_is_no_result(disk: CommandLine) -> None:
    events = json.dumps([sample(xor=None, bytes=5000, time_s=86400.1)])
    answer = disk("disk", "read", "f", "--block-size", "1", FAKE_EVENTS=events)
    assert (answer.code, answer.out) == (1, "")
    assert "only 5000 (4.883 KiB) bytes were read in 86400 s" in answer.err
    assert answer.err.endswith("read a part of it with --count\n")


WRONG = {
    "read f": "missing option '--block-size'",
    "read --block-size 4K": "missing argument 'FILE'",
    "read f --block-size 0": "--block-size 0 is nothing: give 1 or more",
    "read f --block-size 12x": "--block-size: '12x' has an unknown unit 'x'",
    "read f --block-size -4K": "--block-size: '-4K' is not a whole number of bytes",
    "read f --block-size 4K --count 0": "--count 0 is nothing",
    "read f --block-size 4K --count -1": "--count -1 is nothing",
    "read f --block-size 4K --count many": "--count many is not a whole number",
    "write f --block-size 4K": "missing option '--count'",
    "write f --block-size 4K --count 0": "--count 0 is nothing",
    "write f --block-size 4K --count 1 --sync maybe": "'--sync'",
    "fast f --threads 0": "--threads 0 is nothing",
    "fast f --block-size 0": "--block-size 0 is nothing",
    "fast f --engine pread": "'--engine'",
    "size f --block-size 4K --between 15s,5s": "--between 15s,5s: not a shorter and a longer time",
    "size f --block-size 4K --between 5s,soon": "--between: 'soon' is not a duration",
    "size f --block-size 33M": "block_size=33 MiB is out of range: allowed is 0 B to 32 MiB",
    "slow f": "no such command 'slow'",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_request_gets_one_line_and_nothing_is_done(line: str, disk: CommandLine) -> None:
    answer = disk("disk", *line.split())
    assert (answer.code, answer.out) == (2, "")
    (reported,) = answer.err.splitlines()
    assert reported.startswith("oscope: ")
    assert WRONG[line] in reported
    assert not Path(disk.environment["FAKE_REQUESTS"]).exists()
    assert list(disk.folder.iterdir()) == []


def test_a_file_without_a_name_is_refused(disk: CommandLine) -> None:
    answer = disk("disk", "fast", "")
    assert (answer.code, answer.err) == (2, "oscope: FILE is empty: name a file\n")


def test_a_name_that_is_not_utf_8_is_refused(disk: CommandLine) -> None:
    answer = disk("disk", "fast", b"\xff\xfe.data".decode(errors="surrogateescape"))
    assert (answer.code, answer.out) == (2, "")
    (reported,) = answer.err.splitlines()
    assert ".data" in reported
    assert "UTF-8" in reported


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(number: signal.Signals, disk: CommandLine) -> None:
    disk.environment["FAKE_EVENTS"] = json.dumps([{"event": "wait"}])
    process = disk.start("disk", "write", "f", "--block-size", "1M", "--count", "7")
    asked = Path(disk.environment["FAKE_REQUESTS"])
    wait_until(asked.exists, "a request to the probe")
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "")
    assert err.splitlines() == ["oscope: what was written is removed", "oscope: interrupted"]


@pytest.mark.parametrize("command", ["write", "read", "fast", "size"])
def test_every_option_is_explained_in_the_documentation(command: str, disk: CommandLine) -> None:
    page = (TESTS.parent / "docs" / "commands.md").read_text()
    assert f"oscope disk {command}" in page
    options = set(re.findall(r"^  (--[-\w]+)", disk("disk", command, "--help").out, re.MULTILINE))
    assert "--block-size" in options
    for option in options - {"--store", "--verbose"}:
        assert f"`{option}" in page, option


def test_without_a_word_it_tells_its_commands(disk: CommandLine) -> None:
    answer = disk("disk")
    assert answer.code == 0
    for command in ("write", "read", "fast", "size"):
        assert f"  {command}" in answer.out
