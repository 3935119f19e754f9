"""`oscope disk` with the real probe and real files. No time is judged here, only what was done."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cli_driver import Answer, CommandLine, as_nobody
from oscope.model.factors import Level
from oscope.tools.disk.file_transfers import FileSession
from recordings import at_terminal
from waiting import wait_until_gone

ENGINES = ("auto", "read", "mmap", "direct", "uring")


def xor(content: bytes) -> str:
    padded = content + bytes(-len(content) % 4)
    return f"{np.bitwise_xor.reduce(np.frombuffer(padded, '<u4'), initial=0):08x}"


@pytest.fixture
def disk(probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line with the real probe, in a folder on a disk."""
    folder = tmp_path / "files"
    folder.mkdir()
    return CommandLine(folder, {"OSCOPE_PROBE": str(probe)})


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20240601)


def put(disk: CommandLine, content: bytes, name: str = "data") -> Path:
    path = disk.folder / name
    path.write_bytes(content)
    return path


def rows(answer: Answer) -> dict[str, str]:
    assert answer.code == 0, answer.err
    return dict(line.split(maxsplit=1) for line in answer.out.splitlines())


def only_line(answer: Answer) -> str:
    """Return the error, of a command that printed no data."""
    assert answer.code == 1, answer
    assert answer.out == ""
    return answer.err.splitlines()[-1]


@pytest.mark.parametrize("length", [1, 4097, 3 * 2**20 + 2])
def test_every_way_of_reading_gives_the_xor_of_numpy(
    length: int, disk: CommandLine, random: np.random.Generator
) -> None:
    content = random.bytes(length)
    put(disk, content)
    found = [rows(disk("disk", "read", "data", "--block-size", size))["XOR"] for size in ("1000", "64K")]
    lines = [disk("disk", "fast", "data", "--engine", engine) for engine in ENGINES]
    for line in lines:
        assert re.fullmatch(r"[0-9a-f]{8}  \d+\.\d{6} s  (?!0\.00)[\d.]+ ([KMG]i)?B/s\n", line.out), line
    found += [line.out[:8] for line in lines]
    assert found == [xor(content)] * len(found)


def test_notes_wrap_on_a_terminal(disk: CommandLine, random: np.random.Generator) -> None:
    put(disk, random.bytes(4097))
    command = [sys.executable, "-m", "oscope", "disk", "fast", "data"]
    noted = disk("disk", "fast", "data").errors[0]
    assert len(noted) > 80
    with at_terminal(command, disk.folder, {**os.environ, **disk.environment}) as person:
        person.wait_for(b"B/s")
        lines = person.seen.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(noted.split()[:6]) in " ".join(lines)


def test_every_length_has_the_xor_of_numpy(probe: Path, tmp_path: Path, random: np.random.Generator) -> None:
    del probe
    content = random.bytes(5000)
    path = tmp_path / "data"
    path.write_bytes(content)
    ways = itertools.cycle(itertools.product(ENGINES, (1, 3)))
    with FileSession(lambda _: None) as session:
        # From the longest on, so that the file needs only be cut.
        for length in range(5000, 0, -1):
            os.truncate(path, length)
            engine, threads = next(ways)
            params: dict[str, Level] = {
                "file": str(path),
                "engine": engine,
                "threads": threads,
                "work": "xor",
            }
            block_size = 512 if engine in ("direct", "uring", "auto") else random.integers(1, 5000)
            done = session.transfer("disk.read", params | {"block_size": int(block_size)}, limit_s=60)
            assert (done.bytes, done.xor_text) == (length, xor(content[:length])), (engine, length)


def test_reading_tells_bytes_and_calls(disk: CommandLine, random: np.random.Generator) -> None:
    content = random.bytes(10_000)
    put(disk, content)
    reported = rows(disk("disk", "read", "data", "--block-size", "4K"))
    assert list(reported) == ["throughput", "time", "bytes", "calls", "XOR"]
    assert reported["bytes"] == "10000 (9.766 KiB)"
    assert int(reported["calls"]) >= 3
    assert re.fullmatch(r"\d+\.\d\d MiB/s \(from the page cache\)", reported["throughput"])
    assert re.fullmatch(r"\d+\.\d{6} s", reported["time"])


def test_a_count_reads_the_first_blocks_only(disk: CommandLine, random: np.random.Generator) -> None:
    content = random.bytes(10_000)
    put(disk, content)
    for count, length in ((2, 6000), (3, 9000), (4, 10_000), (10**9, 10_000)):
        reported = disk("disk", "read", "data", "--block-size", "3000", "--count", str(count), "--json")
        found = json.loads(reported.out)
        assert (found["bytes"], found["xor"]) == (length, xor(content[:length]))


def test_threads_and_block_sizes_do_not_change_the_xor(
    disk: CommandLine, random: np.random.Generator
) -> None:
    content = random.bytes(3 * 2**20 + 5)
    put(disk, content)
    for options in (("--threads", "3"), ("--block-size", "12K"), ("--threads", "2", "--engine", "read")):
        assert disk("disk", "fast", "data", *options).out[:8] == xor(content)


def test_what_was_picked_is_told_beside_the_data(disk: CommandLine, random: np.random.Generator) -> None:
    put(disk, random.bytes(10_000))
    answer = disk("disk", "fast", "data")
    assert len(answer.out.splitlines()) == 1
    assert re.search(r"engine \w+, \d+ threads?", answer.err)


def test_a_sparse_file_is_read_as_the_zeros_that_it_has(disk: CommandLine) -> None:
    with (disk.folder / "data").open("wb") as file:
        file.truncate(2**30 + 6)
        file.seek(2**29 + 1)
        file.write(b"\x01\x02\x03")
    answer = disk("disk", "fast", "data")
    assert answer.out[:8] == "03020100"


def test_a_link_and_a_path_through_it_are_followed(disk: CommandLine, random: np.random.Generator) -> None:
    content = random.bytes(5000)
    put(disk, content)
    (disk.folder / "folder").mkdir()
    (disk.folder / "folder" / "up").symlink_to("..")
    (disk.folder / "link").symlink_to("data")
    for name in ("link", "folder/up/data", "folder/../data", str(disk.folder / "data")):
        assert disk("disk", "fast", name).out[:8] == xor(content)


def test_what_cannot_be_read_is_one_line(disk: CommandLine) -> None:
    put(disk, b"", "empty")
    os.mkfifo(disk.folder / "pipe")
    for name, words in (
        ("missing", "missing: No such file or directory: name a file that exists"),
        (".", "is a directory: name a regular file"),
        ("pipe", "is a FIFO: name a regular file"),
        ("empty", "is empty: name a file that has content"),
        ("/proc/self/status", "has no length: copy it"),
        ("/dev/zero", "is a character device: name a regular file"),
    ):
        for command in (("read", name, "--block-size", "4K"), ("fast", name)):
            answer = disk("disk", *command)
            assert len(answer.err.splitlines()) == 1
            assert words in only_line(answer)


def test_more_threads_than_can_be_are_refused_with_what_can_be_given(disk: CommandLine) -> None:
    put(disk, b"content")
    answer = disk("disk", "fast", "data", "--threads", "10000")
    assert answer.code == 2
    assert answer.err == "oscope: --threads 10000 is out of range: allowed is 1 to 1024\n"


def test_a_file_that_may_not_be_read_is_told(probe: Path) -> None:
    with as_nobody(probe) as disk:
        put(disk, b"secret").chmod(0)
        answer = disk("disk", "fast", "data")
    assert "Permission denied" in only_line(answer)


def test_a_block_that_direct_reading_cannot_have_is_a_wrong_request(disk: CommandLine) -> None:
    put(disk, bytes(10_000))
    answer = disk("disk", "fast", "data", "--engine", "direct", "--block-size", "1000")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("oscope: --block-size: ")


@pytest.mark.parametrize("sync", ["none", "fdatasync", "direct"])
def test_a_file_is_written_whole(sync: str, disk: CommandLine) -> None:
    reported = rows(disk("disk", "write", "new", "--block-size", "64K", "--count", "33", "--sync", sync))
    assert list(reported) == ["throughput", "time", "bytes", "calls"]
    assert reported["bytes"] == f"{33 * 65536} (2.062 MiB)"
    assert int(reported["calls"]) >= 33
    content = (disk.folder / "new").read_bytes()
    assert len(content) == 33 * 65536
    assert disk("disk", "fast", "new").out[:8] == xor(content)


def test_a_file_that_is_there_is_replaced_only_when_asked(disk: CommandLine) -> None:
    put(disk, b"precious")
    write = ("disk", "write", "data", "--block-size", "5", "--count", "3")
    assert "--overwrite" in only_line(disk(*write))
    assert (disk.folder / "data").read_bytes() == b"precious"
    assert rows(disk(*write, "--overwrite"))["bytes"] == "15"
    assert (disk.folder / "data").stat().st_size == 15


@pytest.fixture
def small(disk: CommandLine) -> CommandLine:
    """Let files be 1 MiB long at most: the disk is full after so much, for this command line."""
    return CommandLine(disk.folder, disk.environment, ("prlimit", f"--fsize={2**20}"))


@pytest.mark.parametrize(("options", "left"), [((), []), (("--keep",), [2**20])])
def test_a_writing_that_fails_says_how_far_it_got(
    options: tuple[str, ...], left: list[int], small: CommandLine
) -> None:
    answer = small("disk", "write", "new", "--block-size", "64K", "--count", "100", *options)
    line = only_line(answer)
    assert str(2**20) in line
    assert str(100 * 65536) in line
    assert [path.stat().st_size for path in small.folder.iterdir()] == left


WIDE = ("--between", "1us,100s")
"""Any size is right."""


def test_a_size_is_found_and_nothing_is_left(disk: CommandLine) -> None:
    answer = disk("disk", "size", "new", "--block-size", "128K", *WIDE)
    reported = rows(answer)
    assert list(reported) == ["size", "blocks", "time", "throughput"]
    size = int(reported["size"].split()[0])
    assert int(reported["blocks"]) * 2**17 == size
    assert "drop_caches" in answer.err or "DONTNEED" in answer.err
    assert "/proc/" not in answer.err.replace("/proc/sys", "")
    assert list(disk.folder.iterdir()) == []


def test_a_size_is_kept_when_asked_and_measured_again_as_it_is(disk: CommandLine) -> None:
    found = json.loads(disk("disk", "size", "new", "--block-size", "1M", *WIDE, "--keep", "--json").out)
    path = disk.folder / "new"
    assert path.stat().st_size == found["bytes"] == found["blocks"] * 2**20
    content = path.read_bytes()
    # Neither sparse nor something that a file system could press together.
    assert path.stat().st_blocks * 512 >= len(content)
    assert len({content[i : i + 4096] for i in range(0, len(content), 4096)}) == len(content) // 4096
    again = disk("disk", "size", "new", "--block-size", "1M", *WIDE)
    assert rows(again)["size"].split()[0] == str(len(content))
    assert path.read_bytes() == content


def test_a_file_that_is_there_and_takes_another_time_is_left_alone(disk: CommandLine) -> None:
    path = put(disk, b"precious")
    answer = disk("disk", "size", "data", "--block-size", "4K", "--between", "1h,2h")
    line = only_line(answer)
    assert "is there already" in line
    assert "--between" in line
    assert path.read_bytes() == b"precious"


def test_no_size_without_room_for_it(small: CommandLine) -> None:
    line = only_line(small("disk", "size", "new", "--block-size", "4K", "--between", "1h,2h"))
    assert "after 0 of 8388608 bytes" in line
    assert list(small.folder.iterdir()) == []


def test_a_file_in_memory_has_no_size(disk: CommandLine) -> None:
    name = f"/dev/shm/oscope-test-{os.getpid()}"  # noqa: S108 - memory is what is wanted.
    answer = disk("disk", "size", name, "--block-size", "4K", *WIDE)
    assert "stay in the page cache" in only_line(answer)
    assert not Path(name).exists()


@pytest.fixture
def searching(disk: CommandLine) -> Iterator[subprocess.Popen[str]]:
    """Give a search that is well under way and would not end."""
    process = disk.start("disk", "size", "new", "--block-size", "4K", "--between", "1h,2h")
    assert process.stderr is not None
    for line in process.stderr:
        if "16 MiB: " in line:
            break
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_search_that_is_ended_leaves_nothing(
    number: signal.Signals, searching: subprocess.Popen[str], disk: CommandLine
) -> None:
    children = Path(f"/proc/{searching.pid}/task/{searching.pid}/children").read_text().split()
    assert children
    searching.send_signal(number)
    out, err = searching.communicate(timeout=300)
    assert out == ""
    if number != signal.SIGKILL:
        assert searching.returncode == 1
        assert err.splitlines()[-1] == "oscope: interrupted"
    wait_until_gone([int(child) for child in children])
    assert list(disk.folder.iterdir()) == []
