"""The IPC lab: its designs, and answers that follow results whose causes are known."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import synthetic
import synthetic_ipc
from oscope import labs
from oscope import questions as q
from oscope.figures.analysed import Analysed
from oscope.labs.ipc import SOCKETS
from oscope.labs.ipc.moving import best_sizes
from oscope.labs.ipc.throughput import RATE, plain
from oscope.model.document import Section
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.report.figures import draw
from synthetic import column, number, prose
from synthetic_disk import changed, with_first
from synthetic_ipc import sections

IPC = labs.lab("ipc")
PERFORMANCE, ROUND, SIZES = "How the configurations perform", "Round trips", "What read and write return"
SOCKBUF, INSIDE, SWITCHES = "Setting the socket buffers", "Time in system calls", "Context switches"
KNEE, THREADS = "Where a larger buffer stops helping", "Threads or processes"
CALLS, FAULTS, EFFECT = "Which calls, and how long they take", "Page faults", "The probe effect"
TITLES = [
    PERFORMANCE,
    ROUND,
    SIZES,
    SOCKBUF,
    INSIDE,
    SWITCHES,
    KNEE,
    THREADS,
    CALLS,
    FAULTS,
    EFFECT,
]


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return sections(*synthetic_ipc.survey().experiments)


# ---- designs


def _points(name: str, profile: str) -> list[dict[str, Level]]:
    experiment = labs.experiment(name)
    design = experiment.full if profile == "full" else experiment.quick
    assert design is not None
    every = [
        dict(zip(design.factors, levels, strict=True))
        for levels in itertools.product(*design.factors.values())
    ]
    rules = [rule for rule in (experiment.exclude, design.omit) if rule is not None]
    return [point for point in every if not any(rule(point) for rule in rules)]


@pytest.mark.parametrize("profile", ["full", "quick"])
def test_only_sockets_have_buffers_to_set_and_one_thread_has_no_place_beside_another(profile: str) -> None:
    points = _points("ipc.throughput", profile)
    assert {point["channel"] for point in points if point["sockbuf"] == "buffer"} <= SOCKETS
    assert {point["placement"] for point in points if point["mode"] == "1thread"} == {"free"}
    assert {point["mode"] for point in points} == {"1thread", "2thread", "2proc"}


def test_the_full_sweep_has_every_buffer_from_64_bytes_to_16_mebibytes_for_every_channel() -> None:
    plain = {
        (point["channel"], point["mode"], point["buffer"])
        for point in _points("ipc.throughput", "full")
        if (point["sockbuf"], point["placement"]) == ("default", "free")
    }
    assert len(plain) == 6 * 3 * 19
    assert {buffer for _, _, buffer in plain} == {1 << power for power in range(6, 25)}


def test_tracers_are_compared_with_none_at_the_same_points() -> None:
    for name in ("ipc.trace", "trace.effect", "trace.cost", "trace.fault"):
        for profile in ("full", "quick"):
            by_tracer: dict[Level, list[tuple[Level, ...]]] = {}
            for point in _points(name, profile):
                rest = tuple(level for factor, level in point.items() if factor != "tracer")
                by_tracer.setdefault(point["tracer"], []).append(rest)
            assert next(iter(by_tracer)) == "none"
            assert len(by_tracer) > 1
            assert len({tuple(rows) for rows in by_tracer.values()}) == 1


# ---- all sections


def test_every_question_is_answered_with_a_table_and_a_figure(survey: dict[str, Section]) -> None:
    assert list(survey) == TITLES
    for section in survey.values():
        assert prose(section)
        assert section.tables
        assert section.figures
        assert section.missing == ""
        for table in section.tables:
            assert all(len(row) == len(table.columns) for row in table.rows), table.title


def test_every_figure_can_be_drawn_for_a_paper(survey: dict[str, Section]) -> None:
    for section in survey.values():
        for figure in section.figures:
            draw(figure)


@pytest.mark.parametrize("name", [each.name for each in IPC.experiments])
def test_an_experiment_by_itself_is_answered_as_far_as_it_goes(name: str) -> None:
    only = [each for each in synthetic_ipc.survey().experiments if each.experiment == name]
    assert len(only) == 1
    assert any(prose(section) for section in sections(*only).values())


def test_what_was_skipped_altogether_makes_no_answer_but_says_why() -> None:
    for experiment in synthetic_ipc.survey().experiments:
        missing = tuple(synthetic.skipped(point.factors) for point in experiment.points)
        found = sections(dataclasses.replace(experiment, points=missing))
        assert found
        assert all(not prose(section) for section in found.values())
        assert any("no huge pages are free: echo" in section.missing for section in found.values())


def _cut(experiment: ExperimentResults, samples: int) -> ExperimentResults:
    def cut(point: PointSamples) -> PointSamples:
        arrays = {
            field.name: value[:samples]
            for field in dataclasses.fields(point)
            if isinstance(value := getattr(point, field.name), np.ndarray)
        }
        metrics = {name: values[:samples] for name, values in point.metrics.items()}
        traces = point.traces[:samples]
        return dataclasses.replace(point, **arrays, metrics=metrics, covariates={}, failed=(), traces=traces)

    return dataclasses.replace(experiment, points=tuple(cut(point) for point in experiment.points))


@pytest.mark.parametrize("samples", [0, 1, 2])
def test_few_samples_break_nothing_and_prove_nothing(samples: int) -> None:
    found = sections(*(_cut(each, samples) for each in synthetic_ipc.survey().experiments))
    for section in found.values():
        for figure in section.figures:
            draw(figure)
    if samples == 1:
        assert "At none of 12 points can threads and processes be distinguished" in prose(found[THREADS])
        assert "faster at" not in prose(found[SOCKBUF])


# ---- performance


def test_one_channel_is_not_called_the_fastest() -> None:
    every = synthetic_ipc.survey().experiments
    pipes = [
        dataclasses.replace(
            e, points=tuple(p for p in e.points if p.factors.get("channel", "pipe") == "pipe")
        )
        for e in every
    ]
    answer = prose(sections(*pipes)[PERFORMANCE])
    assert answer.startswith("pipe carries ")
    assert "fastest" not in answer


def test_the_runner_up_of_the_fastest_channel_is_tested_as_well() -> None:
    made = synthetic_ipc.throughput()
    speeds = {"shm": 3001.0, "pipe": 3000.0}

    def rate(point: PointSamples) -> dict[str, np.ndarray]:
        channel = str(point.factors["channel"])
        spread = np.roll([-50.0, -25.0, 0.0, 25.0, 50.0], len(channel))
        return {"throughput": speeds.get(channel, 900.0) + spread}

    chosen = [each for each in made.points if each.factors["channel"] in ("shm", "pipe", "tcp")]
    answer = prose(sections(changed(dataclasses.replace(made, points=tuple(chosen)), rate))[PERFORMANCE])
    assert "shm is the fastest channel between processes: 3" in answer
    assert "(not distinguished from 1 other); tcp, the slowest, reaches 9" in answer


def test_the_fastest_of_each_mode_is_the_one_put_in(survey: dict[str, Section]) -> None:
    answer = prose(survey[PERFORMANCE])
    assert answer.startswith("shm is the fastest channel between processes: ")
    assert "; tcp, the slowest, reaches " in answer
    speeds = {
        (row[0], row[1]): float(row[4].replace("\u202f", "")) for row in survey[PERFORMANCE].tables[0].rows
    }
    alone = {channel: speed for (mode, channel), speed in speeds.items() if mode == "1thread"}
    assert max(alone, key=alone.__getitem__) == "pipe"
    over = column(survey[PERFORMANCE].tables[0], "over a 2proc pipe by 128 KiB (95 %)")
    assert (
        number(over[[tuple(row[:2]) for row in survey[PERFORMANCE].tables[0].rows].index(("2proc", "shm"))])
        > 1
    )


def test_the_best_sizes_are_judged_among_all_sizes_that_were_measured() -> None:
    measured = synthetic_ipc.throughput()
    own = plain(q.Run(Analysed((measured,)), measured))
    found = [each.over_default for each in best_sizes(own) if each.over_default is not None]
    assert len(found) > 2
    assert {(row.tests, row.correction) for row in found} == {(len(own.points(RATE)) - 1, "Holm")}
    assert all(row.p_holm >= min(1.0, len(found) * min(each.p for each in found)) for row in found)


def test_cpu_time_stands_beside_throughput(survey: dict[str, Section]) -> None:
    table = survey[PERFORMANCE].tables[0]
    busy = dict(zip((tuple(row[:2]) for row in table.rows), column(table, "CPUs busy"), strict=True))
    assert busy["2proc", "shm"] == "2.00"
    assert busy["2proc", "pipe"] == "1.00"


def test_a_channel_that_spins_is_not_the_cheapest_for_being_fast() -> None:
    def spin(point: PointSamples) -> dict[str, np.ndarray]:
        return {"cpu_s": 20 * point.metrics["cpu_s"]}

    slow = changed(synthetic_ipc.throughput(), spin, channel="shm")
    cpu = {row[1]: number(row[7]) for row in sections(slow)[PERFORMANCE].tables[0].rows if row[0] == "2proc"}
    assert min(cpu, key=cpu.__getitem__) == "vmsplice"


# ---- round trips


def test_the_quickest_round_trip_and_the_longest_tail_are_named(survey: dict[str, Section]) -> None:
    answer = prose(survey[ROUND])
    assert "by shm · 2" in answer
    assert "by tcp · 2" in answer
    assert ", the slowest, " in answer
    table = survey[ROUND].tables[0]
    tails = [number(row[5]) / number(row[2]) for row in table.rows]
    assert max(tails) == pytest.approx(9, rel=0.1)


# ---- what calls return


def test_short_transfers_are_tied_to_the_capacity(survey: dict[str, Section]) -> None:
    table = survey[SIZES].tables[0]
    heading = "commonest return, where some are short"
    commonest = dict(zip(column(table, heading), column(table, "capacity"), strict=True))
    commonest.pop("–")
    assert {size.partition(" (")[0]: capacity for size, capacity in commonest.items()} == {"64 KiB": "64 KiB"}
    rows = {(row[0], row[1]): row for row in survey[SIZES].tables[0].rows}
    assert rows["4 KiB · pipe · 2proc", "read"][5] == "none"
    assert rows["128 KiB · pipe · 2proc", "read"][5] == "100 %"
    assert rows["128 KiB · pipe · 1thread", "read"][6] == "EAGAIN: 640"


def test_return_values_have_their_distribution_as_a_figure(survey: dict[str, Section]) -> None:
    figures = {figure.title: figure for figure in survey[SIZES].figures}
    assert list(figures)[1:] == [
        *(
            f"Bytes that {call} returned, {channel}"
            for call in ("read", "write")
            for channel in ("pipe", "local")
        ),
        "Return values of the calls that move no bytes",
    ]
    lines = {trace["name"]: trace for trace in figures["Bytes that read returned, pipe"].traces}
    line = lines["128 KiB · pipe · 1thread, EAGAIN 50%"]
    # Half of the calls are refused; all others return what the pipe holds.
    assert line["x"][1:-1] == [65536.0]
    assert line["y"] == [50.0, 100.0, 100.0]
    assert lines["4 KiB · pipe · 2proc"]["x"][1:-1] == [4096.0]
    shares = {trace["name"]: trace["x"] for trace in figures[list(figures)[-1]].traces}
    assert set(shares) == {"0", "1", "EINTR", "4 KiB to 8 KiB"}
    for row in zip(*shares.values(), strict=True):
        assert sum(row) == pytest.approx(100, abs=0.01)


def test_no_return_value_of_many_is_left_out_of_the_figure() -> None:
    trace = synthetic_ipc.trace()
    sizes = [[size, 1 + size % 3] for size in range(1, 400, 7)]
    count = sum(each for _, each in sizes)
    readings = []
    for point in trace.points:
        traces = [
            {
                **each,
                "calls": {"read": {**each["calls"]["read"], "sizes": sizes, "errors": {}, "count": count}},
            }
            for each in point.traces
        ]
        readings.append(dataclasses.replace(point, traces=traces))
    section = sections(dataclasses.replace(trace, points=tuple(readings)))[SIZES]
    figure = next(one for one in section.figures if one.title == "Bytes that read returned, pipe")
    for line in figure.traces:
        assert line["x"][1:-1] == [float(size) for size, _ in sizes]
        steps = np.diff(line["y"][:-1])
        assert steps == pytest.approx([100 * each / count for _, each in sizes], abs=0.01)


def test_transfers_that_return_less_than_the_capacity_are_not_tied_to_it() -> None:
    trace = synthetic_ipc.trace()
    points = tuple(
        dataclasses.replace(point, metrics={**point.metrics, "capacity": 2 * point.metrics["capacity"]})
        for point in trace.points
    )
    table = sections(dataclasses.replace(trace, points=points))[SIZES].tables[0]
    short = [row for row in table.rows if row[8] != "–"]
    assert len(short) == 6
    assert {(row[8].partition(" (")[0], row[9]) for row in short} == {("64 KiB", "128 KiB")}


def test_without_traces_the_workloads_own_counts_are_told_with_the_remedy() -> None:
    section = sections(synthetic_ipc.throughput())[SIZES]
    assert prose(section).startswith("By the workload's own counts, reads are short most often at pipe")
    assert section.missing == "ipc.trace was not run: `oscope run ipc.trace` does it."
    assert section.tables[0].columns[0] == "point"


# ---- socket buffers, knee, threads


def test_setting_the_socket_buffers_helps_where_they_become_larger(survey: dict[str, Section]) -> None:
    verdicts = {(row[0], row[2]): row[-1] for row in survey[SOCKBUF].tables[0].rows}
    assert verdicts["2proc", "1 MiB"] == "yes"
    assert "yes" not in {verdicts["2proc", size] for size in ("256 B", "4 KiB", "16 KiB", "64 KiB")}
    assert "local by 1 MiB" in survey[SOCKBUF].answer
    assert all(number(row[7]) > 1 for row in survey[SOCKBUF].tables[0].rows if row[-1] == "yes")


def test_the_knee_is_at_the_capacity(survey: dict[str, Section]) -> None:
    rows = {tuple(row[:3]): row for row in survey[KNEE].tables[0].rows}
    assert rows["2proc", "pipe", "default"][3:5] == ["64 KiB", "64 KiB"]
    assert rows["2proc", "local", "default"][3:5] == ["128 KiB", "128 KiB"]
    assert rows["2proc", "local", "set"][3] == "1 MiB"
    assert [rows[mode, "pipe", "default"][3] for mode in ("1thread", "2thread", "2proc")] == ["64 KiB"] * 3
    assert "stops helping at 64 KiB; it holds 64 KiB" in survey[KNEE].answer


def test_a_knee_elsewhere_is_found_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synthetic_ipc.CAPACITY, "pipe", 16384)
    rows = sections(synthetic_ipc.throughput())[KNEE].tables[0].rows
    assert {row[3] for row in rows if row[1] == "pipe"} == {"16 KiB"}


def test_without_a_knee_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synthetic_ipc.CAPACITY, "pipe", 1 << 30)
    section = sections(synthetic_ipc.throughput())[KNEE]
    assert "stops helping at no size measured" in section.answer
    assert {row[3] for row in section.tables[0].rows if row[1] == "pipe"} == {"1 MiB"}


def test_buffers_that_are_too_large_are_said_to_be_slower() -> None:
    def slow(point: PointSamples) -> dict[str, np.ndarray]:
        return {"throughput": point.metrics["throughput"] / 2}

    section = sections(changed(synthetic_ipc.throughput(), slow, channel="pipe", buffer=1 << 20))[KNEE]
    after = [number(row[7]) for row in section.tables[0].rows if row[1] == "pipe"]
    assert after == pytest.approx([0.5] * len(after), rel=0.1)


@pytest.mark.parametrize(("processes", "reported"), [(0.5, "threads faster"), (1.8, "processes faster")])
def test_threads_and_processes_are_told_apart_as_the_data_say(
    processes: float, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(synthetic_ipc.MODE_SPEED, "2proc", processes)
    verdicts = column(sections(synthetic_ipc.throughput())[THREADS].tables[0], "verdict")
    assert verdicts == [reported] * 12


def test_equal_threads_and_processes_are_not_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synthetic_ipc.MODE_SPEED, "2proc", synthetic_ipc.MODE_SPEED["2thread"])
    rows = sections(synthetic_ipc.throughput())[THREADS].tables[0].rows
    assert {row[5] for row in rows} <= {"no difference", "cannot tell"}


# ---- a tracer is no level of what is shown untraced


def test_traced_points_are_not_taken_for_untraced_ones() -> None:
    plain = synthetic_ipc.throughput()
    both = []
    for point in plain.points:
        both.append(dataclasses.replace(point, factors={**point.factors, "tracer": "strace"}))
        both.append(dataclasses.replace(point, factors={**point.factors, "tracer": "none"}))
    slow = {name: values / 50 if name == "throughput" else values for name, values in both[0].metrics.items()}
    found = [
        dataclasses.replace(point, metrics={**point.metrics, "throughput": slow["throughput"]})
        if point.factors["tracer"] == "strace"
        else point
        for point in both
    ]
    mixed = dataclasses.replace(plain, points=tuple(found))
    for title in (PERFORMANCE, SOCKBUF, KNEE, THREADS):
        assert prose(sections(mixed)[title]) == prose(sections(plain)[title])


def test_a_skipped_point_is_told_with_its_remedy() -> None:
    plain = synthetic_ipc.throughput()
    first = plain.points[0]
    missing = with_first(
        plain,
        **{
            field.name: getattr(synthetic.skipped(first.factors), field.name)
            for field in dataclasses.fields(first)
        },
    )
    assert "1 of 78 points: no huge pages are free" in sections(missing)[PERFORMANCE].missing


def test_a_knee_that_noise_hides_is_told_as_a_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        synthetic_ipc.Maker, "spread", lambda maker: maker.generator.lognormal(0, 1.2, maker.blocks)
    )
    rows = sections(synthetic_ipc.throughput())[KNEE].tables[0].rows
    assert any(" to " in row[3] for row in rows)
