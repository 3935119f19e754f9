"""`oscope bench` with real programs: what is measured, compared, stored and written, and what goes wrong."""

from __future__ import annotations

import csv
import html
import json
import math
import os
import re
import signal
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli_driver import Answer, CommandLine, as_nobody
from oscope.storage import record
from waiting import wait_until

MIB = 1 << 20
LOOP = "i=0; while [ $i -lt {n} ]; do i=$((i+1)); done"


@pytest.fixture
def bench(tmp_path: Path, real_probe: Path) -> CommandLine:
    """Give the command line in an empty folder with a store of its own."""
    own = {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "store.db"), "COLUMNS": "200"}
    return CommandLine(tmp_path, own)


def samples(folder: Path, name: str = "record.json") -> dict[str, dict[str, list[float]]]:
    """Return every metric's samples by command, from a record."""
    (experiment,) = record.read(folder / name).experiments
    return {
        " ".join(map(str, point.factors.values())): {
            metric: [float(value) for value in values] for metric, values in point.metrics.items()
        }
        for point in experiment.points
    }


def blocks_of(folder: Path, name: str = "record.json") -> list[dict[int, list[float]]]:
    """Return every command's times by block (ns), in the order of the command line, from a record."""
    (experiment,) = record.read(folder / name).experiments
    found: list[dict[int, list[float]]] = []
    for point in experiment.points:
        found.append({})
        for block, time in zip(point.block, point.metrics["time_ns"], strict=True):
            found[-1].setdefault(int(block), []).append(float(time))
    return found


def alive(word: str) -> list[str]:
    """Return the command lines of living processes that hold `word`."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (place.parent / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if word in line and state not in "ZX":
            found.append(line)
    return found


def one_line(answer: Answer) -> str:
    """Return the only line on standard error that is an error."""
    (line,) = answer.errors
    assert line.startswith("oscope: ")
    return line.removeprefix("oscope: ")


def test_one_command_is_measured_stored_and_shown_like_any_run(bench: CommandLine) -> None:
    done = bench("bench", "--reps", "6", "--json", "record.json", "--", "sh", "-c", LOOP.format(n=20000))
    assert done.code == 0, done.err
    assert re.search(r"^sh -c .* takes [0-9.]+ ms \([0-9.]+ to [0-9.]+\)$", done.out, re.MULTILINE)
    assert "start overhead: a program that does nothing (true) takes" in done.out
    (run,) = bench.runs()
    (metrics,) = samples(bench.folder).values()
    assert len(metrics["time_ns"]) >= 6
    for wall, used in zip(metrics["time_ns"], metrics["cpu_ns"], strict=True):
        # It neither waits nor has threads, so that the CPU time is no more than the wall time.
        assert 0 < used < wall + 1e6
        assert wall > min(metrics["start_ns"]) / 100
    for command in (
        ("show", run),
        ("export", run, "--format", "csv"),
        ("history", "command.run"),
        ("list",),
    ):
        shown = bench(*command)
        assert shown.code == 0, (command, shown.err)
    assert "sh -c" in bench("show", run).out
    assert "command.run: sh -c" in bench("runs").out
    narrow = bench("runs", COLUMNS="60").out.splitlines()
    assert narrow[2].endswith("…")
    assert max(map(len, narrow)) <= 60
    assert bench("report", run, "-o", "report.html").code == 0


def test_an_empty_name_is_refused(bench: CommandLine) -> None:
    done = bench("bench", "--name", " ", "--", "true")
    assert (done.code, one_line(done)) == (2, "--name: a name is empty: give each command a name of its own")


def test_a_command_is_the_same_where_its_content_and_arguments_are(bench: CommandLine) -> None:
    def digest(folder: str, script: str, *words: str) -> str:
        (bench.folder / folder).mkdir(exist_ok=True)
        (bench.folder / folder / "script").write_text(script)
        command = ("sh", f"{folder}/script", *words)
        done = bench("bench", "--reps", "2", "--name", "build", "--json", "record.json", "--", *command)
        assert done.code == 0
        (experiment,) = record.read(bench.folder / "record.json").experiments
        (named,) = experiment.settings["programs"]
        assert named["factors"] == experiment.points[0].factors == {"command": "build"}
        return str(named["sha256"])

    first = digest("a", "true")
    assert digest("b", "true") == first
    others = {digest("a", "true # changed"), digest("b", "true", "word"), digest("b", "true", "words")}
    assert len(others | {first}) == 4


def test_more_work_takes_longer_and_the_sentence_says_by_how_much(bench: CommandLine) -> None:
    done = bench(
        "bench", "--reps", "20", "--json", "record.json", "--export", "json", "table.json", "--",
        "sh", "-c", LOOP.format(n=5000), "--vs", "sh", "-c", LOOP.format(n=100000),
    )  # fmt: skip
    assert done.code == 0, done.err
    (found,) = json.loads((bench.folder / "table.json").read_bytes())["found"]
    match = re.search(r"takes ([0-9.]+) \[([0-9.]+), ([0-9.]+)\] times as long as", found)
    assert match is not None, found
    ratio, low, high = map(float, match.groups())
    # The median of the ratios within the blocks, on their logarithms: on a busy machine it is far from the
    # ratio of the medians, and the two ratios in the middle are far from each other.
    less, more = blocks_of(bench.folder)
    within = [
        math.log(statistics.median(more[block]) / statistics.median(less[block]))
        for block in less.keys() & more.keys()
    ]
    assert len(within) >= 20
    # Of a wide interval fewer digits are printed.
    half_a_digit = 0.5 * 10.0 ** -len(match.group(1).partition(".")[2])
    assert ratio == pytest.approx(math.exp(statistics.median(within)), rel=0.01, abs=half_a_digit)
    assert max(1, low) <= ratio <= high
    # The stored run answers as the bench did, on the terminal and in the report.
    (run,) = bench.runs()
    assert bench("show", run).out.startswith(found)
    assert bench("report", run, "-o", "report.html").code == 0
    answer = re.search(r'<p class="answer">(.*?)</p>', (bench.folder / "report.html").read_text())
    assert answer is not None
    assert " ".join(html.unescape(answer[1]).split()) == found


def test_commands_take_turns_in_random_order_within_blocks(bench: CommandLine) -> None:
    done = bench("bench", "--reps", "8", "--json", "record.json", "true", "sh -c :", "cat /dev/null")
    assert done.code == 0, done.err
    (experiment,) = record.read(bench.folder / "record.json").experiments
    blocks: dict[int, list[tuple[int, str]]] = {}
    for point in experiment.points:
        for block, started in zip(point.block, point.started_ns, strict=True):
            blocks.setdefault(int(block), []).append((int(started), str(point.factors["command"])))
    orders = {tuple(dict.fromkeys(name for _, name in sorted(block))) for block in blocks.values()}
    assert len(blocks) == 8
    assert all(len(order) == 3 for order in orders)
    assert len(orders) > 1


def test_the_largest_resident_set_is_the_programs_own(bench: CommandLine) -> None:
    large = "head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null"
    own = "perl -ne 'print if /VmHWM/' /proc/self/status"
    done = bench("bench", "--reps", "3", "--shell", "--json", "record.json", large, "exec true")
    assert done.code == 0, done.err
    found = samples(bench.folder)
    assert min(found[large]["max_rss_bytes"]) > 300e6
    # It is smaller than the launcher, whose size the kernel reports of it.
    sizes = found["exec true"]["max_rss_bytes"]
    assert len(sizes) == 3
    assert all(map(math.isnan, sizes))
    # A program that says itself how large it is, and is larger than the launcher.
    done = bench("bench", "--reps", "3", "--output", "own.txt", "--json", "own.json", own)
    assert done.code == 0, done.err
    expected = int((bench.folder / "own.txt").read_text().split()[1]) * 1024
    assert expected > 3 * MIB
    for seen in samples(bench.folder, "own.json")[own]["max_rss_bytes"]:
        # The kernel sums its counts of each CPU up exactly for /proc, and only roughly for wait4.
        assert abs(seen - expected) <= 512 * 1024


def test_a_scan_measures_every_combination_of_what_a_command_holds(bench: CommandLine) -> None:
    done = bench(
        "bench", "--reps", "2", "--json", "record.json", "--export", "csv", "table.csv",
        "-P", "size=10..30:10", "-P", "from=zero,null",
        "head -c {size} /dev/{from}", "head -c {size} /dev/zero",
    )  # fmt: skip
    assert done.code == 0, done.err
    (experiment,) = record.read(bench.folder / "record.json").experiments
    points = {frozenset(point.factors.items()): point for point in experiment.points}
    assert len(points) == 3 * 2 + 3
    both = {"command": "head -c {size} /dev/{from}", "size": 20, "from": "zero"}
    alone = {"command": "head -c {size} /dev/zero", "size": 20}
    for factors in (both, alone):
        assert set(points[frozenset(factors.items())].metrics["written_bytes"]) == {20.0}
    with (bench.folder / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["size"] for row in rows[:2]] == ["10", "10"]
    assert len(rows) == 9


def test_files_variables_folder_and_commands_aside_are_as_asked_for(bench: CommandLine) -> None:
    folder = bench.folder / "a folder"
    folder.mkdir()
    (bench.folder / "in.txt").write_text("one\ntwo\n")
    done = bench(
        "bench", "--reps", "3", "--warmup", "0", "--input", "in.txt", "--output", "out.txt",
        "--cwd", str(folder),
        "--env", "ODD=a'b \"$x\"", "--setup", "touch set-up", "--prepare", "touch prepared",
        "--cleanup", "rm set-up", "--", "sh", "-c",
        "test -e set-up && rm prepared && pwd && echo \"$ODD\" && cat",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert (bench.folder / "out.txt").read_text() == f'{folder}\na\'b "$x"\none\ntwo\n'
    assert list(folder.iterdir()) == []


def test_a_shell_is_measured_and_taken_off(bench: CommandLine) -> None:
    done = bench("bench", "--shell", "--reps", "4", "--json", "record.json", "echo $HOME | cat")
    assert done.code == 0, done.err
    assert "the shell's own start takes" in done.out
    (metrics,) = samples(bench.folder).values()
    for time_ns, net_ns, shell_ns in zip(
        *(metrics[n] for n in ("time_ns", "net_ns", "shell_ns")), strict=True
    ):
        assert net_ns == pytest.approx(time_ns - shell_ns)


def test_hyperfines_layout_is_what_its_scripts_read(bench: CommandLine) -> None:
    asleep_for = "perl -e 'select undef, undef, undef, 0.0{n}'"
    done = bench("bench", "--reps", "5", "--hyperfine-json", "-", "-P", "n=1,2", asleep_for)
    assert done.code == 0, done.err
    results: list[dict[str, Any]] = json.loads(done.out)["results"]
    assert [each["parameters"] for each in results] == [{"n": "1"}, {"n": "2"}]
    assert [each["command"] for each in results] == [asleep_for.replace("{n}", n) for n in "12"]
    for each, asleep in zip(results, (0.01, 0.02), strict=True):
        assert len(each["times"]) == len(each["exit_codes"]) == len(each["memory_usage_byte"]) >= 5
        assert asleep <= each["min"] <= each["median"] <= each["max"]
        assert each["mean"] == pytest.approx(sum(each["times"]) / len(each["times"]))
    # Of what is smaller than the launcher the memory is not known.
    small = bench("bench", "--reps", "5", "--hyperfine-json", "-", "true")
    assert "memory_usage_byte" not in json.loads(small.out)["results"][0]


def test_another_metric_is_judged_where_asked_for(bench: CommandLine) -> None:
    done = bench(
        "bench",
        "--reps",
        "10",
        "--metric",
        "written_bytes",
        "head -c 1000 /dev/zero",
        "head -c 3000 /dev/zero",
    )
    assert done.code == 0, done.err
    assert "head -c 3000 /dev/zero uses 3.0" in done.out
    assert "in written_bytes" in done.out
    heading = next(line for line in done.out.splitlines() if line.startswith("command"))
    # The time stays in sight, beside what is judged.
    assert heading.split()[1:7] == ["written", "[KiB]", "95", "%", "interval", "time"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nosuchprogram",), 2, "there is no program nosuchprogram in PATH"),
        (("./missing",), 2, "there is no program ./missing"),
        (("./plain",), 2, "./plain is not executable"),
        (("/usr",), 2, "/usr is a folder"),
        (("./script",), 1, "it is no program of this machine"),
        (("./lost",), 1, "its interpreter or the working folder does not exist"),
        (("sh", "-c", "echo why >&2; exit 3"), 1, "ended with exit code 3; it said: why"),
        (("sh", "-c", "kill -KILL $$"), 1, "was killed by SIGKILL"),
        (("sh", "-c", "kill -SEGV $$"), 1, "was killed by SIGSEGV"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(
    bench: CommandLine, words: tuple[str, ...], code: int, message: str
) -> None:
    (bench.folder / "plain").write_text("#!/bin/sh\n")
    for name, text in (("script", "no first line"), ("lost", "#!/no/interpreter\n")):
        (bench.folder / name).write_text(text)
        (bench.folder / name).chmod(0o755)
    done = bench("bench", "--", *words)
    assert (done.code, done.out) == (code, "")
    assert message in one_line(done)


@pytest.mark.parametrize("name", ["missing/file", "fifo", "", "/dev/stdout", "/proc/self/fd/1"])
@pytest.mark.parametrize("option", [("--output",), ("--export", "md")])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    bench: CommandLine, option: tuple[str, ...], name: str
) -> None:
    os.mkfifo(bench.folder / "fifo")
    done = bench("bench", *option, name, "--", "touch", "ran")
    assert (done.code, done.out) == (2, "")
    assert option[0] in one_line(done)
    assert not (bench.folder / "ran").exists()


def test_a_failure_in_the_trial_ends_the_bench_before_anything_is_measured(bench: CommandLine) -> None:
    done = bench("bench", "--quick", "--", "true", "--vs", "sh", "-c", "exit 3")
    assert (done.code, done.out) == (1, "")
    assert one_line(done).startswith("sh -c 'exit 3': the command ended with exit code 3")
    assert bench.runs() == []


@pytest.mark.parametrize("stdin", ["pipe", "file", "null", "named"])
def test_a_command_that_fails_without_its_input_names_the_option(bench: CommandLine, stdin: str) -> None:
    (bench.folder / "words").write_text("word")
    reader, writer = os.pipe()
    os.close(writer)
    with (bench.folder / "words").open() as file, os.fdopen(reader) as pipe:
        given = {"pipe": pipe, "file": file, "null": subprocess.DEVNULL, "named": pipe}[stdin]
        named = ("--input", "/dev/null") if stdin == "named" else ()
        command = ("bench", *named, "--", "grep", "-q", "word")
        _, err = bench.start(*command, stdin=given).communicate(timeout=300)
    remedy = "correct the command, or count such runs too with --ignore-failure"
    hint = "; its standard input was empty, not that of oscope: write --input FILE if it reads that; else "
    between = hint if stdin in ("pipe", "file") else ": "
    assert err == f"oscope: grep -q word: the command ended with exit code 1{between}{remedy}\n"


def test_failures_count_where_asked_for(bench: CommandLine) -> None:
    done = bench("bench", "--reps", "2", "-i", "--json", "record.json", "--", "sh", "-c", "exit 3")
    assert done.code == 0, done.err
    (metrics,) = samples(bench.folder).values()
    assert set(metrics["exit_code"]) == {3.0}
    assert "note: 2 of 2 runs of sh -c 'exit 3' ended with exit code 3" in done.out


def test_one_that_begins_to_fail_is_given_up_and_the_others_are_kept(bench: CommandLine) -> None:
    line = "echo >> count; test $(wc -l < count) -lt 45"
    done = bench("bench", "--reps", "60", "--", "sh", "-c", line, "--vs", "true")
    assert done.code == 1
    assert "ended with exit code 1" in done.errors[-1]
    assert "true" in done.out


def test_one_that_takes_too_long_is_killed_with_its_children(bench: CommandLine) -> None:
    done = bench("bench", "--timeout", "300ms", "--", "sh", "-c", "sleep 98761 & sleep 98761; true")
    assert done.code == 1
    assert "did not end within 0.3 s" in one_line(done)
    assert alive("sleep 98761") == []


def test_a_daemon_is_ended_and_told_of(bench: CommandLine) -> None:
    line = "setsid sh -c 'sleep 98762 & sleep 98762' >/dev/null 2>&1 </dev/null &"
    done = bench("bench", "--reps", "2", "--", "sh", "-c", line)
    assert done.code == 0, done.err
    assert alive("sleep 98762") == []
    assert "left processes behind" in bench("show", "last").out


def test_much_output_and_reading_stdin_are_no_trouble(bench: CommandLine) -> None:
    before = {path.name for path in bench.folder.iterdir()}
    flood = "head -c 1000000000 /dev/zero; head -c 100000000 /dev/zero >&2; cat"
    done = bench("bench", "--reps", "1", "--warmup", "0", "--json", "record.json", "--", "sh", "-c", flood)
    assert done.code == 0, done.err
    (metrics,) = samples(bench.folder).values()
    assert metrics["written_bytes"][0] == pytest.approx(1.1e9, rel=0.01)
    assert len(done.out) < 2000
    assert {path.name for path in bench.folder.iterdir()} - before <= {
        "record.json",
        "store.db",
        "store.db-wal",
        "store.db-shm",
    }


def test_without_permission_it_is_one_line(real_probe: Path) -> None:
    with as_nobody(real_probe) as nobody:
        done = nobody("bench", "--", "/etc/shadow")
        assert done.code == 2
        assert "not executable" in one_line(done)
        done = nobody("bench", "--output", "/etc/passwd", "true")
        assert done.code == 2
        assert "cannot be written" in one_line(done)
        done = nobody("bench", "--reps", "2", "true")
        assert done.code == 0, done.err


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(bench: CommandLine) -> None:
    (slow := bench.folder / "slow").touch()
    first, second = (("sh", "-c", f"test ! -e slow || sleep 0.098{digit}") for digit in (7, 8))
    process = bench.start("bench", "--reps", "40", "--", *first, "--vs", *second)
    try:
        wait_until(bench.has_samples, "the first sample", process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "continue with oscope bench --resume" in err
    wait_until(lambda: not alive("sleep 0.098"), "the end of the commands")
    slow.unlink()
    done = bench("bench", "--resume", "last", "--json", "record.json")
    assert done.code == 0, done.err
    assert all(len(metrics["time_ns"]) >= 40 for metrics in samples(bench.folder).values())


def test_ctrl_c_while_a_block_is_set_up_loses_nothing_of_it(bench: CommandLine) -> None:
    (slow := bench.folder / "slow").touch()
    options = ("--reps", "8", "--setup", "sh -c 'test ! -e slow || sleep 0.5432'", "--warmup", "0")
    process = bench.start("bench", *options, "--", "true", "--vs", "sleep", "0")
    try:
        wait_until(bench.runs, "the run", process)
        wait_until(lambda: alive("sleep 0.5432"), "the set-up of a block", process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert "continue with oscope bench --resume" in err
    slow.unlink()
    done = bench("bench", "--resume", "last", "--json", "record.json")
    assert done.code == 0, done.err
    (experiment,) = record.read(bench.folder / "record.json").experiments
    assert [len(point) - len(point.again) for point in experiment.points] == [8, 8]


def test_ctrl_c_during_the_trial_leaves_no_process(bench: CommandLine) -> None:
    def slept() -> list[str]:
        return [line for line in alive("sleep 98762") if line.startswith("sleep")]

    process = bench.start("bench", "--", "sleep", "98762")
    wait_until(slept, "the trial of the command", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err.splitlines()[-1]) == (1, "oscope: interrupted")
    assert slept() == []


def test_cleanup_runs_after_ctrl_c_too(bench: CommandLine) -> None:
    here = bench.folder / "here"
    process = bench.start("bench", "--setup", "touch here", "--cleanup", "rm here", "--", "sleep", "98763")
    try:
        wait_until(lambda: here.exists() and alive("sleep 98763"), "the command", process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    finally:
        process.kill()
    wait_until(lambda: not here.exists() and not alive("sleep 98763"), "the end of what was left")


def test_what_a_killed_oscope_measured_ends_with_it(bench: CommandLine) -> None:
    process = bench.start("bench", "--", "sleep", "98764")
    try:
        wait_until(lambda: [line for line in alive("sleep 98764") if line.startswith("sleep")], "it", process)
    finally:
        process.kill()
    process.communicate()
    wait_until(lambda: not alive("sleep 98764"), "the end of the command")
