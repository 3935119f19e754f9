"""`oscope-probe ipc`, the program to trace from outside: its calls under strace, options, and output."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_driver import CommandLine
from conftest import ROOT

TOTAL, BLOCK, BLOCKS = 16 << 20, 128 << 10, 128
LIMIT_S = 240
MODES = ("1thread", "2thread", "2proc")
STATIC = ROOT / "target/x86_64-unknown-linux-gnu/release/oscope-probe"
VERBOSE = re.compile(
    r"Benchmark configuration:\n"
    r"  buffersize: (\d+)\n"
    r"  totalsize: (\d+)\n"
    r"  blockcount: (\d+)\n"
    r"  mode: (\w+)\n"
    r"  ipctype: (\w+)\n"
    r"  time: (\d+\.\d{9})\n"
    r"(\d+\.\d\d) KBytes/sec\n"
)
"""What the original printed."""
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def ipc(probe: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [probe, "ipc", *words], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


@dataclass
class Seen:
    """What strace saw of a run."""

    calls: Counter[str]
    errors: Counter[str]


def summary(probe: Path, record: Path, *words: str) -> Seen:
    """Return the table of `strace -f -c`."""
    command = ["strace", "-f", "-c", "-o", record, probe, "ipc", *words]
    subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=True)
    seen = Seen(Counter(), Counter())
    for line in record.read_text().splitlines():
        columns = line.split()
        if len(columns) in (5, 6) and columns[3].isdecimal() and columns[-1] != "total":
            seen.calls[columns[-1]] = int(columns[3])
            seen.errors[columns[-1]] = int(columns[4]) if len(columns) == 6 else 0
    assert seen.calls
    return seen


def moved(probe: Path, record: Path, *words: str) -> tuple[dict[str, list[int]], int]:
    """Return what the calls on the channel moved, by name, and the number of reads and writes elsewhere."""
    command = ["strace", "-f", "-y", "-e", "trace=read,write,sendto,recvfrom", "-o", record]
    # Its own standard output shall be no pipe.
    subprocess.run([*command, probe, "ipc", *words], stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=True)
    found: dict[str, list[int]] = {}
    elsewhere = 0
    on_channel: dict[str, bool] = {}
    for line in record.read_text().splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if begun := re.match(r"(\w+)\(\d+<([^>]*)>", call):
            on_channel[thread] = begun[2].startswith(("pipe:", "socket:", "UNIX"))
        elif not call.startswith("<..."):
            continue
        if not (ended := re.search(r"^(?:<\.\.\. )?(\w+).* = (-?\d+)", call)):
            continue
        if not on_channel[thread]:
            elsewhere += 1
        elif int(ended[2]) >= 0:
            found.setdefault(ended[1], []).append(int(ended[2]))
    return found, elsewhere


@needs_strace
@pytest.mark.parametrize("mode", MODES)
def test_a_tracer_outside_sees_the_transfer_and_little_else(
    mode: str, real_probe: Path, tmp_path: Path
) -> None:
    seen = summary(real_probe, tmp_path / "record", mode)
    # A pipe holds 64 KiB: without waiting (1thread), a block goes through it in two pieces.
    writes = 2 * BLOCKS if mode == "1thread" else BLOCKS
    assert writes <= seen.calls["write"] <= writes + 10
    assert seen.calls["read"] >= BLOCKS
    others = sum(seen.calls.values()) - seen.calls["read"] - seen.calls["write"]
    assert others < 400, seen.calls


@needs_strace
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channel", ["pipe", "local"])
def test_every_byte_is_in_a_call_on_the_channel(
    mode: str, channel: str, real_probe: Path, tmp_path: Path
) -> None:
    found, elsewhere = moved(real_probe, tmp_path / "record", "-B", "-i", channel, mode)
    sent, received = ("write", "read") if channel == "pipe" else ("sendto", "recvfrom")
    if sent not in found:
        sent, received = "write", "read"
    assert sum(found[sent]) == sum(found[received]) == TOTAL
    assert max(found[sent]) <= BLOCK
    # Reading /proc and /sys at the start, and the line that is printed.
    assert elsewhere < 250


@needs_strace
def test_smaller_blocks_and_totals_are_heeded(real_probe: Path, tmp_path: Path) -> None:
    found, _ = moved(real_probe, tmp_path / "record", "-B", "-b", "4K", "-t", "1M")
    assert Counter(found["write"]) == Counter(found["read"]) == {4096: 256}


@needs_strace
def test_s_sets_both_buffers_of_the_sockets(real_probe: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    command = ["strace", "-f", "-e", "trace=setsockopt", "-o", record, real_probe, "ipc"]
    options = ["-B", "-i", "local", "-b", "32768"]
    for words, expected in ((["-s"], 2), ([], 0)):
        subprocess.run([*command, *options, *words], capture_output=True, timeout=LIMIT_S, check=True)
        set_to = re.findall(r"SO_(?:SND|RCV)BUF, \[32768\]", record.read_text())
        assert len(set_to) >= expected
        assert bool(set_to) == bool(expected)


def test_only_without_b_the_machine_is_brought_to_rest(real_probe: Path, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    assert summary(real_probe, tmp_path / "rest").calls["sync"] == 1
    bare = summary(real_probe, tmp_path / "bare", "-B")
    assert bare.calls["sync"] == bare.calls["clock_nanosleep"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_the_output_is_the_original_s(mode: str, real_probe: Path) -> None:
    reported = ipc(real_probe, "-v", "-i", "local", "-b", "10000", "-t", "1000000", mode)
    assert (reported.returncode, reported.stderr) == (0, "")
    shown = VERBOSE.fullmatch(reported.stdout)
    assert shown is not None, reported.stdout
    assert shown.groups()[:5] == ("10000", "1000000", "100", mode, "local")
    assert float(shown[7]) == pytest.approx(1_000_000 / 1024 / float(shown[6]), rel=1e-4)
    short = ipc(real_probe, "-B", mode)
    assert re.fullmatch(r"\d+\.\d\d KBytes/sec\n", short.stdout)
    assert ipc(real_probe, "-Bqv", mode).stdout == ""


def test_the_defaults_are_the_original_s(real_probe: Path) -> None:
    shown = VERBOSE.fullmatch(ipc(real_probe, "-Bv").stdout)
    assert shown is not None
    assert shown.groups()[:5] == ("131072", "16777216", "128", "1thread", "pipe")


def test_it_prints_what_oscope_ipc_prints(real_probe: Path, tmp_path: Path) -> None:
    oscope = CommandLine(tmp_path, {"OSCOPE_PROBE": str(real_probe)})
    words = ("-Bv", "-s", "-i", "local", "-b", "4096", "-t", "40960", "2thread")
    ours, its = oscope("ipc", *words).out, ipc(real_probe, *words).stdout
    digits = re.compile(r"(time: |\n)\d+\.\d+")
    assert digits.sub(r"\1", ours) == digits.sub(r"\1", its)


@pytest.mark.parametrize(
    "words", [["-b", "0"], ["-b", "-1"], ["-b", "2G"], ["-t", "much"], ["-i", "fifo"], ["3proc"], ["-x"]]
)
def test_wrong_words_are_usage_errors(words: list[str], real_probe: Path) -> None:
    reported = ipc(real_probe, *words)
    assert (reported.returncode, reported.stdout) == (2, "")
    assert reported.stderr.startswith("error: ")


def test_what_is_odd_is_noted_unless_quiet(real_probe: Path) -> None:
    reported = ipc(real_probe, "-B", "-s", "-t", "1000")
    assert "without effect" in reported.stderr
    assert "less than" in reported.stderr
    assert ipc(real_probe, "-Bq", "-s", "-t", "1000").stderr == ""


def test_ctrl_c_ends_it_without_a_figure(real_probe: Path) -> None:
    with subprocess.Popen(
        [real_probe, "ipc", "-B", "-t", "1024G", "2proc"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text().split():
            assert process.poll() is None
            os.sched_yield()
        (child,) = children.read_text().split()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (1, "")
    assert "interrupted by a signal" in err
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.skipif(not STATIC.exists(), reason="there is no static probe: `make static-probe` builds it")
def test_the_static_probe_transfers_without_any_library() -> None:
    for mode in MODES:
        assert VERBOSE.fullmatch(ipc(STATIC, "-Bv", mode).stdout)
    content = STATIC.read_bytes()
    assert b"/lib64/ld-linux" not in content[:4096]
