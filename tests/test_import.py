"""`oscope import`: real files of other tools, what they lack, and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_driver import CommandLine
from oscope.model.errors import UsageError
from oscope.tools.importing.reading import read

FILES = Path(__file__).parent / "fixtures" / "imported"


@pytest.mark.parametrize(
    ("file", "tool", "samples"),
    [
        ("hyperfine.json", "hyperfine", [4, 4]),
        ("pyperf.json", "pyperf", [6]),
        ("google-benchmark.json", "google-benchmark", [3, 3]),
        ("fio.json", "fio", [1, 1]),
        ("perf.json", "perf-stat", [1]),
        ("perf.csv", "perf-stat", [1]),
    ],
)
def test_a_format_is_recognised_by_its_content(file: str, tool: str, samples: list[int]) -> None:
    found = read(FILES / file)
    assert found.tool == tool
    assert [len(series.readings) for series in found.series] == samples


def test_the_figures_are_those_of_the_files() -> None:
    theirs = json.loads((FILES / "hyperfine.json").read_text())["results"][0]["times"]
    ours = [reading.metrics["time_ns"] for reading in read(FILES / "hyperfine.json").series[0].readings]
    assert ours == pytest.approx([1e9 * each for each in theirs])
    runs = json.loads((FILES / "pyperf.json").read_text())["benchmarks"][0]["runs"]
    readings = read(FILES / "pyperf.json").series[0].readings
    assert [each.metrics["time_ns"] for each in readings] == pytest.approx(
        [1e9 * v for r in runs for v in r["values"]]
    )
    assert [(each.block, each.iterations) for each in readings] == [
        (0, 64),
        (0, 64),
        (1, 64),
        (1, 64),
        (2, 64),
        (2, 64),
    ]
    (job,) = json.loads((FILES / "fio.json").read_text())["jobs"]
    for series, way in zip(read(FILES / "fio.json").series, ("read", "write"), strict=True):
        assert series.readings[0].metrics["bytes_per_s"] == job[way]["bw_bytes"]
    for file, task_clock in (("perf.json", 533455), ("perf.csv", 420000)):
        (reading,) = read(FILES / file).series[0].readings
        assert reading.metrics["task-clock"] == pytest.approx(task_clock)
        assert reading.metrics["cycles"] is None


def test_criterions_folder_and_lmbenchs_lines_are_read(tmp_path: Path) -> None:
    new = tmp_path / "criterion" / "sum" / "100" / "new"
    new.mkdir(parents=True)
    (new / "sample.json").write_text('{"sampling_mode":"Linear","iters":[10.0,20.0],"times":[50.0,80.0]}')
    found = read(tmp_path / "criterion")
    assert [(each.metrics["time_ns"], each.iterations) for each in found.series[0].readings] == [
        (5, 10),
        (4, 20),
    ]
    assert found.series[0].name == "sum/100"
    file = tmp_path / "lmbench.txt"
    file.write_text("Simple syscall: 0.1234 microseconds\nAF_UNIX sock stream bandwidth: 5000.5 MB/sec\n")
    first, second = read(file).series
    assert first.readings[0].metrics["time_ns"] == pytest.approx(123.4)
    assert second.readings[0].metrics["bytes_per_s"] == pytest.approx(5.0005e9)


def test_an_import_is_shown_and_compared_with_what_it_lacks(oscope: CommandLine) -> None:
    for again in range(2):
        done = oscope("import", str(FILES / "hyperfine.json"), "--as", "start")
        assert done.code == 0, done.err
        assert ("has the same content already" in " ".join(done.out.split())) == bool(again)
    shown = oscope("show", "last")
    assert "Imported from hyperfine" in shown.out
    assert "lacks randomized blocks" in " ".join(shown.out.split())
    first, second = [line.split()[0] for line in oscope("runs").out.splitlines() if line.startswith("20")]
    compared = oscope("compare", first, second)
    assert compared.code == 0, compared.err
    assert "imported from hyperfine, which lacks" in " ".join(compared.out.split())
    assert oscope("export", "last", "--format", "csv").out.count("\n") == 9
    assert oscope("import", str(FILES / "pyperf.json")).code == 0
    unlike = oscope("compare", first, "last")
    assert unlike.code == 2
    assert "oscope import FILE --as NAME" in " ".join(unlike.err.split())


def test_a_bandwidth_beside_times_is_shown_too(oscope: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "lmbench.txt"
    file.write_text("Simple syscall: 0.1234 microseconds\nAF_UNIX sock stream bandwidth: 5000.5 MB/sec\n")
    done = oscope("import", str(file), "--as", "here")
    assert done.code == 0, done.err
    assert done.out.startswith("lmbench: 2 benchmarks, 2 samples; lacks ")
    shown = oscope("show", "last").out
    for part in ("here.bytes_per_s", "Simple syscall", "AF_UNIX sock stream bandwidth"):
        assert part in shown


LMBENCH = """[lmbench3.0 results for Linux box]
Simple syscall: 0.1303 microseconds
Pagefaults on /var/tmp/XXX: 13098 usecs
File /var/tmp/XXX write bandwidth: 899118 KB/sec

"mappings
0.524288 9.824

"File system latency
0k\t469\t84505\t138552

localhost: RPC: Timed out

Socket bandwidth using localhost
0.000001 1.80 MB/sec
10.485760 6790.20 MB/sec

Avg xfer: 3.2KB, 41.8KB in 1.4040 millisecs, 29.75 MB/sec

"libc bcopy unaligned
0.000512 114131.34
1.05 58243.29

"size=4k ovr=0.74
2 3.54

tlb: 32 pages
Memory load parallelism
0.001024 3.91

Memory load latency
"stride=128
0.00049 1.667
0.00586 7.5

Random load latency
"stride=16
0.00049 1.700
"""


def test_each_table_of_lmbench_is_read_at_its_levels(tmp_path: Path) -> None:
    file = tmp_path / "lmbench"
    file.write_text(LMBENCH)
    found = read(file)
    values = {}
    for series in found.series:
        (reading,) = series.readings
        figures = [value for value in reading.metrics.values() if value is not None]
        values[series.name, *series.levels.values()] = figures
    assert values == {
        ("Simple syscall",): [pytest.approx(130.3)],
        ("Pagefaults on /var/tmp/XXX",): [pytest.approx(13_098_000)],
        ("File /var/tmp/XXX write bandwidth",): [pytest.approx(899_118_000)],
        ("mmap", 512 * 1024): [pytest.approx(9824)],
        ("File system latency", 0): [84505, 138552],
        ("Socket bandwidth using localhost", 1): [pytest.approx(1.8e6)],
        ("Socket bandwidth using localhost", 10 * 2**20): [pytest.approx(6790.2e6)],
        # lmbench rounds 1048576 to 1.05 MB, and 512/1048576 to 0.00049.
        ("libc bcopy unaligned", 512): [pytest.approx(114131.34e6)],
        ("libc bcopy unaligned", 2**20): [pytest.approx(58243.29e6)],
        ("context switch", 4096, 2): [pytest.approx(3540)],
        ("Memory load parallelism", 1024): [3.91],
        ("Memory load latency", 128, 512): [1.667],
        ("Memory load latency", 128, 6144): [7.5],
        ("Random load latency", 16, 512): [1.7],
    }
    (note,) = found.notes
    assert note.startswith("left out, since their heading or unit is not known: 'Avg xfer: 3.2KB, ")
    assert note.endswith(", 'tlb: 32 pages'")


def test_a_table_alone_is_recognised_as_lmbenchs(oscope: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "lat_mem_rd"
    file.write_text('"stride=128\n0.00049 1.667\n0.00098 1.668\n')
    done = oscope("import", str(file))
    assert done.out.startswith("lmbench: 1 benchmark at 2 points, 2 samples; lacks "), done.err
    shown = oscope("show", "last").out
    assert "benchmark=lat_mem_rd, stride=128 B" in shown
    assert "1 KiB" in shown


def test_what_is_left_out_is_printed(oscope: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "lmbench"
    file.write_text("Simple syscall: 0.1303 microseconds\n32.00 9516.73\n")
    assert "note: left out, since their heading or unit is not known: '32.00 9516.73'" in " ".join(
        oscope("import", str(file)).out.split()
    )


def test_a_result_of_lmbench_that_comes_again_is_a_further_sample(tmp_path: Path) -> None:
    file = tmp_path / "lmbench"
    file.write_text("Simple read: 0.2 microseconds\n" * 3)
    (series,) = read(file).series
    assert [reading.block for reading in series.readings] == [0, 1, 2]


def _hyperfine(tmp_path: Path, *results: dict[str, object]) -> Path:
    file = tmp_path / "hyperfine.json"
    file.write_text(json.dumps({"results": [{"command": "sleep", **each} for each in results]}))
    return file


def test_commands_of_one_name_are_levels_or_samples(tmp_path: Path) -> None:
    file = _hyperfine(
        tmp_path,
        {"times": [0.1], "parameters": {"n": "1"}},
        {"times": [0.2], "parameters": {"n": "2"}},
        {"times": [0.3, 0.4], "parameters": {"n": "2"}},
    )
    found = read(file)
    assert [parameter.name for parameter in found.parameters] == ["n"]
    assert [(series.name, dict(series.levels), len(series.readings)) for series in found.series] == [
        ("sleep", {"n": "1"}, 1),
        ("sleep", {"n": "2"}, 3),
    ]
    assert [reading.block for reading in found.series[1].readings] == [0, 1, 2]


def test_jobs_of_fio_of_one_name_are_levels_by_their_options(tmp_path: Path) -> None:
    (job,) = json.loads((FILES / "fio.json").read_text())["jobs"]
    file = tmp_path / "fio.json"
    jobs = [{**job, "job options": {"rw": "rw", "bs": size}} for size in ("4k", "64k", "64k")]
    file.write_text(json.dumps({"jobs": jobs}))
    found = read(file)
    reads = [series for series in found.series if "read" in series.name]
    assert [(each.levels["bs"], len(each.readings)) for each in reads] == [("4k", 1), ("64k", 2)]


@pytest.mark.parametrize(
    ("result", "reported"),
    [
        ({"times": [0.1, -0.2]}, "a time of sleep is negative: -0.2"),
        ({"times": [0.1, float("nan")]}, "a time of sleep is no number: 'nan'"),
        ({"times": [0.1, 0.2], "exit_codes": [0]}, "sleep has 2 times, but 1 exit codes"),
    ],
)
def test_a_time_that_cannot_be_is_refused(result: dict[str, object], reported: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=reported):
        read(_hyperfine(tmp_path, result))


@pytest.mark.parametrize(
    "file", ["hyperfine.json", "pyperf.json", "google-benchmark.json", "fio.json", "perf.json"]
)
def test_a_file_that_is_cut_short_is_one_line(file: str, tmp_path: Path) -> None:
    whole = (FILES / file).read_bytes()
    cut = tmp_path / file
    for length in range(0, len(whole) - 2, max(1, len(whole) // 40)):
        cut.write_bytes(whole[:length])
        reported = ""
        try:
            found = read(cut)
        except UsageError as error:
            reported = str(error)
        else:
            # Lines of perf that are whole are a file of their own.
            assert found.tool == "perf-stat"
            continue
        assert str(cut) in reported
        assert "\n" not in reported


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"results": 3}', '{"benchmarks": [{"runs": [{"values": ["x"]}]}]}', "\x00", "a,b,c,d"],
)
def test_a_wrong_file_is_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read(file)
    assert "\n" not in str(error.value)


def test_the_table_of_perf_stat_is_refused_with_the_options_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "perf.txt"
    path.write_text("\n Performance counter stats for 'true':\n\n  0.52 msec task-clock\n")
    with pytest.raises(UsageError) as error:
        read(path)
    assert "with -j or -x" in error.value.message


def test_a_file_that_is_no_record_is_told_what_import_reads(tmp_path: Path) -> None:
    path = tmp_path / "program.c"
    path.write_text("int main(void) { return 0; }\n")
    with pytest.raises(UsageError) as error:
        read(path)
    assert error.value.message == f"{path}: it is neither JSON nor the output of a tool that import reads"
    assert "hyperfine" in str(error.value.remedy)


def test_a_real_folder_of_criterion_is_read() -> None:
    found = read(FILES / "criterion")
    assert (found.tool, [series.name for series in found.series]) == ("criterion", ["sum/100"])
    assert len(found.series[0].readings) == 10
    estimates = read(FILES / "criterion" / "sum" / "100" / "new" / "estimates.json")
    assert "single readings (it has only means)" in estimates.lacks


def _imported_twice(oscope: CommandLine, tmp_path: Path) -> list[str]:
    file = tmp_path / "lmbench"
    for value in ("0.1", "0.2"):
        file.write_text(f"Simple read: {value} microseconds\n")
        assert oscope("import", str(file)).code == 0
    return [line.split()[0] for line in oscope("runs").out.splitlines() if line.startswith("20")]


def test_tables_for_programs_have_sizes_as_numbers(oscope: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "lmbench"
    file.write_text(LMBENCH)
    for _ in range(2):
        assert oscope("import", str(file)).code == 0
    shown = oscope("show", "last", "--format", "csv").out
    assert "benchmark,stride,size,time [ns],95 % low,95 % high,n,ess,stride [B],size [B]" in shown
    assert "Memory load latency,128 B,6 KiB,7.5,,,1,1,128,6144" in shown
    first, second = [line.split()[0] for line in oscope("runs").out.splitlines() if line.startswith("20")]
    compared = oscope("compare", first, second, "--format", "json")
    assert compared.code == 0, compared.err
    rows = [row for table in json.loads(compared.out) for row in table["rows"]]
    assert [row["size [B]"] for row in rows if row.get("benchmark") == "libc bcopy unaligned"] == [512, 2**20]
    # One reading on each side has no uncertainty.
    assert {row["mde"] for row in rows if row["metric"] == "parallelism"} == {None}


def test_levels_of_an_import_are_compared_with_what_it_lacks(oscope: CommandLine, tmp_path: Path) -> None:
    times = [0.1, 0.101, 0.102]
    file = _hyperfine(tmp_path, *({"times": times, "parameters": {"n": n}} for n in "12"))
    assert oscope("import", str(file)).code == 0
    compared = oscope("compare", "last", "--by", "n=1,2")
    assert "note: imported from hyperfine, which lacks randomized blocks" in " ".join(compared.out.split())


def test_an_interval_beyond_all_samples_is_explained(oscope: CommandLine, tmp_path: Path) -> None:
    file = _hyperfine(tmp_path, {"command": "true", "times": [0.101, 0.1015, 0.102, 0.103]})
    assert oscope("import", str(file)).code == 0
    shown = " ".join(oscope("--verbose", "show", "last").out.split())
    assert "100.5 to 103.2" in shown
    assert "The interval reaches beyond all samples: it is Student's t over 4 medians" in shown


def test_advice_on_an_import_names_commands_that_exist(oscope: CommandLine, tmp_path: Path) -> None:
    first, second = _imported_twice(oscope, tmp_path)
    gated = " ".join(oscope("gate", first, second).out.split())
    assert "oscope run" not in gated
    advice = (
        "take more with lmbench and import them, or measure both sides interleaved: "
        "oscope bench -- ./OLD --vs ./NEW"
    )
    assert f"seen there: {advice}" in gated
    compared = " ".join(oscope("compare", first, second).out.split())
    assert "undecided in 1 of 1 (one reading a side shows none" in compared
    assert f"shows none; {advice})" in compared
    assert "oscope run" not in compared


def test_the_report_of_an_import_claims_nothing_of_a_probe(oscope: CommandLine, tmp_path: Path) -> None:
    _imported_twice(oscope, tmp_path)
    page = tmp_path / "report.html"
    assert oscope("report", "last", "-o", str(page)).code == 0
    text = page.read_text()
    for untrue in (
        "probe process",
        "Checked whenever a probe starts",
        "not calibrated",
        "commands that repeat",
    ):
        assert untrue not in text
    assert "What was imported was measured by another tool" in text


def test_an_import_is_not_resumed(oscope: CommandLine, tmp_path: Path) -> None:
    _imported_twice(oscope, tmp_path)
    answer = oscope("run", "--resume", "last")
    assert answer.code == 2
    assert "the run was imported, and cannot be resumed: import a newer file" in answer.err
    assert "failed" not in oscope("runs").out


STAMPED = """     1.000101342,12.50,Joules,power/energy-pkg/,1000,100.00,,
     1.000101342,7,,page-faults,1000,100.00,,
     1.000101342,,,,,,0.10,stalled cycles per insn
     2.000202000,14.50,Joules,power/energy-pkg/,1000,100.00,,
123456.000303000,9,,page-faults,1000,100.00,,
"""


def test_time_stamps_and_derived_figures_of_perf_are_no_values(tmp_path: Path) -> None:
    file = tmp_path / "perf"
    file.write_text(STAMPED)
    (series,) = read(file).series
    assert [dict(each.metrics) for each in series.readings] == [
        {"power/energy-pkg/": 12.5, "page-faults": 7},
        {"power/energy-pkg/": 14.5, "page-faults": 9},
    ]
    counted = {"counter-value": "7", "event": "page-faults"}
    derived = {"metric-value": "0.1", "metric-unit": "stalled cycles per insn"}
    file.write_text("".join(f"{json.dumps(each)}\n" for each in (counted, derived)))
    (series,) = read(file).series
    assert [dict(each.metrics) for each in series.readings] == [{"page-faults": 7}]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("CPU0,7,,page-faults,1000,100.00,,", "CPU0"),
        ("     1.000101342,CPU12,0.42,msec,task-clock,1000,100.00,,", "CPU12"),
        ("S0-D0-C0,1,7,,page-faults,1000,100.00,,", "S0-D0-C0"),
        ("bash-4242,7,,page-faults,1000,100.00,,", "bash-4242"),
        ('{"cpu" : "0", "counter-value" : "7", "unit" : "", "event" : "page-faults"}', "cpu 0"),
        ('{"core" : "S0-D0-C0", "counter-value" : "7", "unit" : "", "event" : "x"}', "core S0-D0-C0"),
    ],
)
def test_counts_of_a_part_are_refused_by_its_name(line: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "perf"
    file.write_text(f"{line}\n")
    with pytest.raises(UsageError, match=f"line 1 has counts of {part} alone"):
        read(file)


def test_a_latency_that_fio_did_not_measure_is_none(tmp_path: Path) -> None:
    (job,) = json.loads((FILES / "fio.json").read_text())["jobs"]
    off = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0}
    file = tmp_path / "fio.json"
    parts = [{**job["read"], "lat_ns": {**off, **more}, "clat_ns": off} for more in ({"N": 0}, {})]
    jobs = [{"jobname": str(number), "read": part} for number, part in enumerate(parts)]
    file.write_text(json.dumps({"jobs": jobs}))
    for series in read(file).series:
        (reading,) = series.readings
        assert (reading.metrics["latency_ns"], reading.metrics["latency_p99_ns"]) == (None, None)
        assert reading.metrics["iops"] == job["read"]["iops"]


def test_a_benchmark_that_was_skipped_has_no_time(tmp_path: Path) -> None:
    data = json.loads((FILES / "google-benchmark.json").read_text())
    skipped = {"skipped": True, "skip_message": "no such device", "iterations": 0}
    data["benchmarks"][0] |= {**skipped, "real_time": 0.0, "cpu_time": 0.0}
    file = tmp_path / "google.json"
    file.write_text(json.dumps(data))
    first = read(file).series[0].readings[0]
    assert (dict(first.metrics), first.failed) == ({}, "skipped: no such device")
