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
    for _ in range(2):
        done = oscope("import", str(FILES / "hyperfine.json"), "--as", "start")
        assert done.code == 0, done.err
    shown = oscope("show", "last")
    assert "Imported from hyperfine" in shown.out
    assert "lacks randomized blocks" in " ".join(shown.out.split())
    first, second = [line.split()[0] for line in oscope("runs").out.splitlines() if line.startswith("20")]
    compared = oscope("compare", first, second)
    assert compared.code == 0, compared.err
    assert "imported from hyperfine, which lacks" in " ".join(compared.out.split())
    assert oscope("export", "last", "--format", "csv").out.count("\n") == 9


def test_a_bandwidth_beside_times_is_shown_too(oscope: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "lmbench.txt"
    file.write_text("Simple syscall: 0.1234 microseconds\nAF_UNIX sock stream bandwidth: 5000.5 MB/sec\n")
    done = oscope("import", str(file), "--as", "here")
    assert done.code == 0, done.err
    assert done.out.startswith("lmbench: 2 benchmarks, 2 samples; lacks ")
    shown = oscope("show", "last").out
    for part in ("here.bytes_per_s", "Simple syscall", "AF_UNIX sock stream bandwidth"):
        assert part in shown


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
