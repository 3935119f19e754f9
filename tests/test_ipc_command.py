"""`oscope ipc`: what it asks of the probe and prints, with a probe that pretends; then real transfers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import fake_session_probe
from cli_driver import Answer, CommandLine, requests
from conftest import TESTS
from fake_session_probe import refusal
from machine_state import family
from oscope.cli import ipc
from oscope.probe.catalogue import load
from waiting import wait_until, wait_until_gone

METRICS = {"throughput": 474.0135, "time_s": 0.033753791, "bytes": 16777216.0, "refusals": None}
NOTE = {"event": "note", "text": "the pipe holds 64 KiB"}
SEEN = "oscope: the pipe holds 64 KiB\n"
LAST_LINE = "485397.33 KBytes/sec\n"
VERBOSE = """\
Benchmark configuration:
  buffersize: 131072
  totalsize: 16777216
  blockcount: 128
  mode: 1thread
  ipctype: pipe
  time: 0.033753791
"""


def sample(failed: str | None = None, **metrics: float | None) -> dict[str, Any]:
    return fake_session_probe.sample(METRICS | metrics, failed)


@pytest.fixture
def pretended(session_command: CommandLine) -> CommandLine:
    """Give the command line with a probe that transfers, or fails, as it is told to."""
    session_command.environment["FAKE_EVENTS"] = json.dumps([NOTE, sample()])
    return session_command


def test_bare_output_is_the_last_line_alone(pretended: CommandLine) -> None:
    assert pretended("ipc", "-B") == Answer(0, LAST_LINE, SEEN)


def test_the_verbose_layout_is_the_document_s(pretended: CommandLine) -> None:
    assert pretended("ipc", "-B", "-v", "-i", "pipe", "1thread") == Answer(0, VERBOSE + LAST_LINE, SEEN)


@pytest.mark.parametrize("flags", ["-Bqv", "-Bvq", "-vqB"])
def test_quiet_prints_nothing_and_wins_over_verbose(flags: str, pretended: CommandLine) -> None:
    assert pretended("ipc", flags, "-t", "1000") == Answer(0, "", "")


def test_the_defaults_are_the_document_s(pretended: CommandLine) -> None:
    begun = time.monotonic()
    assert pretended("ipc").out == LAST_LINE
    assert time.monotonic() - begun > ipc.PAUSE_S
    (request,) = requests(pretended)
    assert (request["workload"], request["reps"], request["cpu"]) == ("ipc.throughput", 1, -1)
    assert request["warmup"] == 1
    assert request["params"] == {
        "channel": "pipe",
        "mode": "1thread",
        "buffer": 131072,
        "total": 16777216,
        "sockbuf": "default",
        "placement": "free",
        "check": "ends",
    }


def test_bare_means_no_warm_up_and_no_check(pretended: CommandLine) -> None:
    pretended("ipc", "-B")
    (request,) = requests(pretended)
    assert (request["warmup"], request["params"]["check"]) == (0, "none")


@pytest.mark.parametrize(
    "words",
    [
        ("-Bs", "-b", "4096", "-i", "local", "-t", "1048576", "2proc"),
        ("-sBv", "-b4K", "-ilocal", "-t1M", "2proc"),
        ("2proc", "-Bst", "1MiB", "-b", "4KiB", "-i", "local"),
    ],
)
def test_flags_are_combined_as_with_getopt(words: tuple[str, ...], pretended: CommandLine) -> None:
    assert pretended("ipc", *words).code == 0
    (request,) = requests(pretended)
    asked = [request["params"][name] for name in ("channel", "mode", "buffer", "total", "sockbuf")]
    assert asked == ["local", "2proc", 4096, 2**20, "buffer"]


def test_a_short_last_block_counts(pretended: CommandLine) -> None:
    answer = pretended("ipc", "-Bv", "-b", "4096", "-t", "10000")
    assert "  totalsize: 10000\n  blockcount: 3\n" in answer.out


def test_notes_are_in_the_words_of_the_options(pretended: CommandLine) -> None:
    note = {"event": "note", "text": "sockbuf=buffer is without effect, see channel=tcp"}
    answer = pretended("ipc", "-Bs", FAKE_EVENTS=json.dumps([note, sample()]))
    assert answer.err == "oscope: -s is without effect, see -i tcp\n"


@pytest.mark.parametrize("placement", ["same", "other"])
def test_a_placement_is_passed_on(placement: str, pretended: CommandLine) -> None:
    pretended("ipc", "-B", "--placement", placement)
    (request,) = requests(pretended)
    assert request["params"]["placement"] == placement


def test_json_has_all_metrics_with_their_units(pretended: CommandLine) -> None:
    answer = pretended("ipc", "-B", "-v", "--json", "-", "2thread")
    assert answer.err == SEEN
    assert json.loads(answer.out) == {
        "buffersize": 131072,
        "totalsize": 16777216,
        "blockcount": 128,
        "mode": "2thread",
        "ipctype": "pipe",
        "sockbuf": "default",
        "placement": "free",
        "check": "none",
        "kbytes_per_s": pytest.approx(485397.33, abs=0.005),
        "metrics": METRICS,
        "units": {"throughput": "MiB/s", "time_s": "s", "bytes": "B"},
    }


def test_json_in_a_file_leaves_the_output_as_it_is(pretended: CommandLine) -> None:
    assert pretended("ipc", "-B", "--json", "f.json").out == LAST_LINE
    assert json.loads((pretended.folder / "f.json").read_text())["metrics"] == METRICS
    assert pretended("ipc", "-Bq", "--json", "quiet.json") == Answer(0, "", "")
    assert json.loads((pretended.folder / "quiet.json").read_text())["metrics"] == METRICS


@pytest.mark.parametrize(
    ("event", "code", "line"),
    [
        (sample("the receiver was killed by SIGKILL"), 1, "the receiver was killed by SIGKILL"),
        (
            refusal("request", "buffer", "buffer: 1 GiB is beyond memory", "use --set buffer=4K"),
            2,
            "-b: 1 GiB is beyond memory: use -b 4K",
        ),
        (
            refusal("unavailable", None, "channel=tcp needs lo", "bring it up"),
            1,
            "-i tcp needs lo: bring it up",
        ),
        (refusal("failed", None, "it broke"), 1, "it broke"),
        (sample(time_s=None), 1, "the probe did not measure time_s"),
        (sample(bytes=0.0), 1, "the probe did not measure bytes"),
    ],
)
@pytest.mark.parametrize("flags", ["-B", "-Bq"])
def test_what_goes_wrong_is_one_line(
    flags: str, event: dict[str, Any], code: int, line: str, pretended: CommandLine
) -> None:
    answer = pretended("ipc", flags, FAKE_EVENTS=json.dumps([event]))
    assert answer == Answer(code, "", f"oscope: {line}\n")


WRONG = {
    "3proc": "invalid value for 'mode': '3proc' is not one of '1thread', '2thread', '2proc'",
    "1thread 2thread": "unexpected extra argument",
    "-i fifo": "invalid value for '-i': 'fifo' is not one of 'pipe', 'local'",
    "-b 0": "-b 0 is nothing: give 1 or more",
    "-b -4K": "-b: '-4K' is not a whole number of bytes",
    "-b 4X": "-b: '4X' has an unknown unit 'X'",
    "-b 1T": "-b 1 TiB is out of range: allowed is 1 B to 1 GiB",
    "-t 0": "-t 0 is nothing: give 1 or more",
    "-t 2T": "-t 2 TiB is out of range: allowed is 1 B to 1 TiB",
    "-t": "'-t' requires an argument",
    "-x": "no such option: -x",
    "--placement else": "'--placement'",
    "--json missing/f.json": "--json missing/f.json: the folder",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_request_gets_one_line_and_nothing_is_done(line: str, pretended: CommandLine) -> None:
    answer = pretended("ipc", "-q", *line.split())
    assert (answer.code, answer.out) == (2, "")
    (reported,) = answer.err.splitlines()
    assert reported.startswith("oscope: ")
    assert WRONG[line] in reported
    assert not Path(pretended.environment["FAKE_REQUESTS"]).exists()
    assert list(pretended.folder.iterdir()) == []


def test_every_option_is_explained_in_the_documentation(pretended: CommandLine) -> None:
    page = (TESTS.parent / "docs" / "commands.md").read_text()
    section = page.partition("\n## oscope ipc\n")[2].partition("\n## ")[0]
    options = set(re.findall(r"^  (-[-\w]+)", pretended("ipc", "--help").out, re.MULTILINE))
    assert {"-B", "-q", "-s", "-v", "-b", "-i", "-t", "--json"} <= options
    for option in options - {"-h"}:
        assert f"`{option}" in section, option


@pytest.fixture
def ipc_command(probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line with the real probe, in a folder of its own."""
    folder = tmp_path / "here"
    folder.mkdir()
    return CommandLine(folder, {"OSCOPE_PROBE": str(probe)})


def test_the_choices_are_those_of_the_probe(probe: Path) -> None:
    workload = load(probe).workload(ipc.WORKLOAD)
    hints = get_type_hints(ipc.transfer)
    for name in ("channel", "mode", "placement"):
        parameter = workload.parameter(name)
        assert parameter is not None
        assert set(get_args(hints[name])) == set(parameter.choices)
    defaults = {name: workload.parameter(name) for name in ("buffer", "total")}
    assert {name: found and found.default for name, found in defaults.items()} == {
        "buffer": 131072,
        "total": 16777216,
    }


@pytest.mark.parametrize("mode", ["1thread", "2thread", "2proc"])
@pytest.mark.parametrize("channel", ["pipe", "local", "seqpacket", "tcp", "shm", "vmsplice"])
def test_every_channel_moves_every_byte(channel: str, mode: str, ipc_command: CommandLine) -> None:
    size = ("-b", "10000", "-t", "1048577")
    answer = ipc_command("ipc", "-Bv", "-i", channel, *size, "--json", "f.json", mode)
    assert answer.code == 0, answer.err
    assert re.fullmatch(
        "Benchmark configuration:\n"
        "  buffersize: 10000\n"
        "  totalsize: 1048577\n"
        "  blockcount: 105\n"
        f"  mode: {mode}\n"
        f"  ipctype: {channel}\n"
        r"  time: \d+\.\d{9}\n"
        r"\d+\.\d\d KBytes/sec\n",
        answer.out,
    )
    assert "the last block has 8577 B" in answer.err
    found = json.loads((ipc_command.folder / "f.json").read_text())
    assert found["metrics"]["bytes"] == 1048577
    assert set(found["metrics"]) == set(found["units"])
    seconds = float(answer.out.splitlines()[-2].split()[-1])
    assert float(answer.out.splitlines()[-1].split()[0]) == pytest.approx(1048577 / 1024 / seconds, rel=1e-4)


@pytest.mark.parametrize("channel", ["pipe", "local"])
def test_a_checked_transfer_with_its_warm_up(channel: str, ipc_command: CommandLine) -> None:
    answer = ipc_command("ipc", "-i", channel, "2proc")
    assert re.fullmatch(r"\d+\.\d\d KBytes/sec\n", answer.out), answer.err


@pytest.mark.parametrize("flags", ["-B", "-Bs"])
def test_a_buffer_beyond_the_channel_s_capacity_does_not_hang(flags: str, ipc_command: CommandLine) -> None:
    answer = ipc_command("ipc", flags, "-b", "16M", "-i", "local", "1thread")
    assert (answer.code, len(answer.out.splitlines())) == (0, 1), answer.err


LONG = ("ipc", "-B", "-b", "64", "-t", "1T", "2proc")


TRANSFERRED_S = 1.5
"""CPU time of a process of the transfer: that which compares the CPUs' clocks before takes less."""


def transferring(process: subprocess.Popen[str]) -> list[int]:
    """Wait until the probe has the second process of the transfer, and return both."""

    def begun() -> bool:
        below = family(process.pid)
        return len(below) == 2 and _cpu_s(below[1]) >= TRANSFERRED_S

    wait_until(begun, "the probe and its second process")
    below = family(process.pid)
    assert len(below) == 2
    return below


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process; 0 of one that has ended (proc(5), stat: utime and stime)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_transfer_that_is_ended_leaves_no_process(number: signal.Signals, ipc_command: CommandLine) -> None:
    process = ipc_command.start(*LONG)
    below = transferring(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert out == ""
    if number != signal.SIGKILL:
        assert (process.returncode, err.splitlines()[-1]) == (1, "oscope: interrupted")
    wait_until_gone(below)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_of_the_probe_that_is_killed_is_one_line(victim: int, ipc_command: CommandLine) -> None:
    process = ipc_command.start(*LONG)
    below = transferring(process)
    os.kill(below[victim], signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "")
    (line,) = err.splitlines()
    assert "kill" in line
    wait_until_gone(below)


def test_a_signal_during_the_pause_ends_it(ipc_command: CommandLine) -> None:
    process = ipc_command.start("ipc")
    wait_until(lambda: family(process.pid), "the probe")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (1, "", "oscope: interrupted\n")
