"""The disk lab: what explains its curves follows results whose causes are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

import synthetic
import synthetic_disk
from oscope.figures.analysed import Analysed
from oscope.labs.disk import POWERS, drift, model, time_breakdown
from oscope.model.document import Section
from oscope.model.formatting import MISSING
from oscope.model.samples import PointSamples, Results
from oscope.statistics.bounded import Bounded
from synthetic import column, number, prose
from synthetic_disk import changed, sections, with_first

WHERE, ENGINES, DRIFT = "Where the time goes", "Ways of reading", "First and later cold reads"
XOR, WRITING, DROPPED = "The XOR of a file", "Writing, and how large a file must be", "What drop_caches frees"


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return sections(*synthetic_disk.survey().experiments)


# ---- where the time goes


def test_the_parts_are_those_put_in(survey: dict[str, Section]) -> None:
    cold, warm, primitives = survey[WHERE].tables
    assert len(primitives.rows) >= 3
    for table, wait in ((cold, 600.0), (warm, 0.0)):
        for row, size in zip(table.rows, POWERS[::3], strict=True):
            calls, file_part, copying, _, waiting = (float(cell.replace("\u202f", "")) for cell in row[4:9])
            assert calls == pytest.approx((1 << 20) / size * 0.24, rel=0.02, abs=0.1)
            assert file_part == pytest.approx((1 << 20) / size * 0.16, rel=0.06, abs=0.1)
            assert copying == pytest.approx(100, rel=0.03)
            assert waiting == pytest.approx(wait, rel=0.03, abs=0.1)
    assert [round(float(row[7])) for row in warm.rows[1:]] == pytest.approx([20] * 5, abs=5)
    assert "Cold, the largest part of the time is system calls at 128 B (50 %)" in survey[WHERE].answer
    assert "and waiting" in survey[WHERE].answer
    assert _most(warm.rows[0]) == ("system calls", pytest.approx(0.58, abs=0.01))
    assert _most(warm.rows[-1])[0] == "copying"


def test_a_point_whose_time_on_the_cpu_is_not_known_is_left_out() -> None:
    size = POWERS[0]
    read = changed(
        synthetic_disk.read(),
        lambda point: {"cpu_s": np.full(len(point), np.nan)} if point.factors["block_size"] == size else {},
    )
    cold, warm, *_ = sections(read)[WHERE].tables
    known = [each for each in POWERS[::3] if each != size]
    assert len(cold.rows) == len(warm.rows) == len(known)


def _most(row: Sequence[str]) -> tuple[str, float]:
    """Return the part that takes most of a MiB's time, and its share."""
    parts = dict(zip(time_breakdown.NAMES, (number(cell) for cell in row[4:9]), strict=True))
    name = max(parts, key=parts.__getitem__)
    return name, parts[name] / number(row[2])


def _predicted(column: int) -> list[float]:
    """Return the predictions over the measured warm time."""
    warm = sections(*synthetic_disk.survey().experiments)[WHERE].tables[1]
    return [number(row[column]) for row in warm.rows]


def test_a_file_that_costs_more_than_the_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_disk, "FILE_S", 900e-9)
    warm = sections(*synthetic_disk.survey().experiments)[WHERE].tables[1]
    assert _most(warm.rows[0]) == ("the file’s part of the calls", pytest.approx(0.77, abs=0.01))


def test_the_prediction_holds_where_there_is_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [abs(share - 1) <= 0.1 for share in _predicted(10)] == [True, True, False, False, False, False]
    monkeypatch.setattr(synthetic_disk, "OTHER_S", 0.0)
    assert min(_predicted(9)) == pytest.approx(0.61, abs=0.01)
    assert all(abs(share - 1) <= 0.1 for share in _predicted(10))
    monkeypatch.setattr(synthetic_disk, "OTHER_S", 3e-3)
    assert not any(abs(share - 1) <= 0.1 for share in _predicted(10))


def test_what_the_model_takes_too_much_is_shown_below_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    read, throughput = synthetic_disk.read(), synthetic_disk.throughput()
    monkeypatch.setattr(synthetic_disk, "COPY", 5_000.0)
    section = sections(read, synthetic_disk.bandwidth(), synthetic.cost(), throughput)[WHERE]
    warm = section.tables[1]
    assert all(float(row[7]) < 0 for row in warm.rows[1:])
    rest = next(trace for trace in section.figures[1].traces if trace["name"] == "other work on the CPU")
    assert max(rest["x"][1:]) < 0
    assert section.figures[1].layout["barmode"] == "relative"
    assert float(warm.rows[-1][10].split()[0]) == pytest.approx(200 / 120, rel=0.05)


def test_without_a_primitive_its_part_is_not_told_apart() -> None:
    section = sections(synthetic_disk.read(), synthetic_disk.bandwidth())[WHERE]
    assert section.missing.startswith(
        "syscall.cost was not run: `oscope run syscall.cost` does it; syscall.th"
    )
    for place in (4, 5, 9, 10):
        assert {row[place] for row in section.tables[0].rows} == {MISSING}
    assert "Calls × c" not in prose(section)
    assert {trace["name"] for trace in section.figures[0].traces} == {
        "copying",
        "other work on the CPU",
        "waiting for device or CPU",
        "measured",
    }


@pytest.mark.parametrize("given", ["cost", "throughput"])
def test_one_of_the_two_calls_alone_is_used_as_far_as_it_goes(given: str) -> None:
    call = synthetic.cost() if given == "cost" else synthetic_disk.throughput()
    section = sections(synthetic_disk.read(), synthetic_disk.bandwidth(), call)[WHERE]
    rows = section.tables[1].rows
    own, other = (9, 10) if given == "cost" else (10, 9)
    assert all(row[own] != MISSING and row[other] == MISSING for row in rows)
    shown = {trace["name"] for trace in section.figures[1].traces}
    assert ("system calls" in shown) == (given == "cost")
    assert ("the file’s part of the calls" in shown) == (given == "throughput")
    sums = [
        sum(trace["x"][0] for trace in section.figures[1].traces if trace["type"] == "bar" and trace["x"][0])
    ]
    assert sums == pytest.approx([100], abs=1)


def test_primitives_of_another_machine_are_not_used() -> None:
    cost = synthetic.cost()
    other = dataclasses.replace(cost, environment={**cost.environment, "machine": "another"})
    section = sections(synthetic_disk.read(), synthetic_disk.bandwidth(), other)[WHERE]
    assert "syscall.cost was run on another machine" in section.missing


def test_bounds_of_the_prediction_take_the_ends_of_the_intervals() -> None:
    one, two = Bounded(10.0, 9.0, 11.0), Bounded(4.0, 3.0, 5.0)
    assert one + two == Bounded(14.0, 12.0, 16.0)
    assert one - two == Bounded(6.0, 4.0, 8.0)
    assert one.over(two) == Bounded(2.5, pytest.approx(9 / 5), pytest.approx(11 / 3))  # type: ignore[arg-type]
    vague = one.over(Bounded(4.0, -1.0, 9.0))
    assert vague.value == 2.5
    assert np.isnan([vague.low, vague.high]).all()


def test_each_block_size_takes_the_nearest_window() -> None:
    analysed = Analysed.of(Results((synthetic_disk.read(), synthetic_disk.bandwidth(), synthetic.cost())))
    known = model.primitives(analysed, analysed.experiments[0])
    windows = {window: seconds for window, seconds, _ in known.copies}
    assert sorted(windows) == [1 << 17, 1 << 22, 1 << 27]
    for size, window in ((128, 1 << 17), (1 << 19, 1 << 17), (1 << 20, 1 << 22), (1 << 26, 1 << 27)):
        assert known.copying(size) == windows[window]


# ---- engines


def test_the_fastest_engine_is_named(survey: dict[str, Section]) -> None:
    assert survey[ENGINES].answer.startswith("Cold, uring is the fastest by blocks of 512 KiB: ")
    small = {row[1]: number(row[3]) for row in survey[ENGINES].tables[0].rows if row[0] == "8 KiB"}
    assert max(small, key=small.__getitem__) == "uring"
    slow = changed(
        synthetic_disk.read(), lambda point: {"throughput": point.metrics["throughput"] / 9}, engine="uring"
    )
    section = sections(slow)[ENGINES]
    assert "uring" not in section.answer
    assert "is the fastest by blocks of 512 KiB (not distinguished from " in section.answer


def test_engines_are_compared_only_where_two_of_them_read(survey: dict[str, Section]) -> None:
    cold, warm = survey[ENGINES].tables
    assert {row[0] for row in cold.rows} == {"8 KiB", "512 KiB"}
    assert {row[1] for row in warm.rows} == {"read", "pread", "mmap"}
    assert float(next(row for row in cold.rows if row[1] == "uring")[5].split()[0]) == pytest.approx(
        1.5, rel=0.03
    )


# ---- drift


@pytest.mark.parametrize(
    ("first", "reported"),
    [
        (0.5, "First cold reads are slower: 0."),
        (2.0, "First cold reads are faster: "),
        (1.0, "No difference between first and later cold reads was found"),
    ],
)
def test_first_reads_differ_as_the_data_say(first: float, reported: str) -> None:
    assert prose(sections(synthetic_disk.read(first=first))[DRIFT]).startswith(reported)


def test_first_reads_in_one_block_or_none_give_no_verdict() -> None:
    one = prose(sections(synthetic_disk.read(first=0.5, blocks=1))[DRIFT])
    assert "too little for a verdict" in one
    never = changed(
        synthetic_disk.read(), lambda point: {"earlier_reads": np.full(len(point), 3.0)}, cache="cold"
    )
    assert "is not known: no block has both" in prose(sections(never)[DRIFT])


def test_few_blocks_with_faster_first_reads_are_no_proof_of_a_difference() -> None:
    logarithms = np.array([0.02, 0.05, 0.1, 0.2, 0.4])
    relative = np.ravel(np.column_stack([np.exp(logarithms), np.ones(5)]))
    cold = drift.Cold(relative, np.tile([0.0, 1.0], 5), np.repeat(np.arange(5), 2))
    found = drift.first_over_later(cold)
    assert found is not None
    assert found.ci95 == pytest.approx((-0.037, 0.345), abs=0.001)


def test_the_layers_below_are_named_once(survey: dict[str, Section]) -> None:
    below, cold, *_ = survey[DRIFT].text
    assert below.count("the hypervisor (kvm) may cache as well") == 1
    assert cold == "What made the reads cold: drop_caches=3, then cachestat found 0 of 16384 pages."


def test_cold_reads_that_drift_over_the_run_are_told() -> None:
    read = synthetic_disk.read(blocks=12)
    assert "no drift was found" in sections(read)[DRIFT].tables[0].note

    def rising(point: PointSamples) -> dict[str, np.ndarray]:
        return {"throughput": point.metrics["throughput"] * (1 + 0.05 * point.block)}

    drifting = dataclasses.replace(changed(read, rising), points=changed(read, rising).points)
    points = tuple(
        dataclasses.replace(point, started_ns=np.arange(12) * 10**12 + index)
        for index, point in enumerate(drifting.points)
    )
    found = sections(dataclasses.replace(drifting, points=points))[DRIFT]
    assert "Over the run cold reads drifted by +" in found.tables[0].note


# ---- the XOR


def test_an_xor_that_is_the_same_everywhere_is_told(survey: dict[str, Section]) -> None:
    assert prose(survey[XOR]).startswith("The XOR is `00c0ffee` in every one of 60 passes.")
    assert {row[5] for row in survey[XOR].tables[0].rows} == {"00c0ffee"}


def test_an_xor_that_differs_in_one_pass_is_shouted() -> None:
    xor = synthetic_disk.xor()
    words = np.array([synthetic_disk.WORD] * 4 + [1], dtype=float)
    section = sections(with_first(xor, metrics={**xor.points[0].metrics, "xor": words}))[XOR]
    assert prose(section).startswith("ERROR: THE XOR IS NOT THE SAME IN EVERY PASS")
    assert "16 MiB gave 00000001 and 00c0ffee" in prose(section)
    assert section.tables[0].rows[0][5] == "DIFFERS: 00000001, 00c0ffee"


def test_an_xor_that_the_probe_itself_rejected_is_shouted() -> None:
    xor = synthetic_disk.xor()
    words = np.array([synthetic_disk.WORD] * 4 + [np.nan])
    reason = "the XOR is 00000001, though that of the same file is 00c0ffee"
    metrics = {**xor.points[0].metrics, "xor": words}
    section = sections(with_first(xor, metrics=metrics, failed=((4, reason),)))[XOR]
    assert prose(section).startswith("ERROR: THE XOR IS NOT THE SAME IN EVERY PASS")
    assert reason in prose(section)


def test_a_file_that_was_not_read_whole_is_shouted() -> None:
    xor = synthetic_disk.xor()
    short = {**xor.points[0].metrics, "bytes": xor.points[0].metrics["bytes"] - 1}
    assert "ERROR" in prose(sections(with_first(xor, metrics=short))[XOR])


def test_the_xor_of_other_bytes_may_be_another() -> None:
    xor = synthetic_disk.xor()
    factors = {**xor.points[0].factors, "size": 32 << 20}
    metrics = {**xor.points[0].metrics, "xor": np.full(5, 7.0), "bytes": np.full(5, float(32 << 20))}
    answer = prose(sections(with_first(xor, factors=factors, metrics=metrics))[XOR])
    assert answer.startswith("In 60 passes over 2 sets of bytes, the XOR is the same for the same bytes.")


def test_the_fastest_block_size_is_named_with_its_rivals(survey: dict[str, Section]) -> None:
    quickest = column(survey[XOR].tables[0], "fastest, or not distinguished")
    assert sum("cold" in cell for cell in quickest) > 1
    fast = changed(
        synthetic_disk.xor(), lambda point: {"time_s": point.metrics["time_s"] / 9}, block_size=32768
    )
    table = sections(fast)[XOR].tables[0]
    quickest = dict(
        zip(column(table, "block size"), column(table, "fastest, or not distinguished"), strict=True)
    )
    assert {size: cell for size, cell in quickest.items() if cell != MISSING} == {"32 KiB": "cold and warm"}


# ---- drop_caches


def _documented(section: Section) -> list[str]:
    """Return the verdicts that were given."""
    return [cell for cell in column(section.tables[0], "as documented") if cell != MISSING]


def test_what_each_value_frees_is_told_and_held_against_the_documentation(
    survey: dict[str, Section],
) -> None:
    assert "1 freed 98 % of the page cache and 2 freed 90 % of the dentries" in survey[DROPPED].answer
    freed = {(row[0], row[1]): float(row[6].split()[0]) for row in survey[DROPPED].tables[0].rows}
    assert freed["1", "page cache"] == pytest.approx(98, abs=0.5)
    assert freed["1", "dentries"] == pytest.approx(2, abs=0.5)
    assert freed["2", "page cache"] == pytest.approx(1, abs=0.5)
    assert freed["2", "dentries"] == pytest.approx(90, abs=0.5)
    assert _documented(survey[DROPPED]) == ["yes"] * 6
    assert len(survey[DROPPED].tables[0].rows) == 12
    bars = survey[DROPPED].figures[0].traces
    assert [trace["name"] for trace in bars] == ["1", "2", "3"]
    assert bars[0]["x"][0] == pytest.approx(98, abs=1)


def test_a_kernel_that_frees_otherwise_is_told() -> None:
    kept = {**synthetic_disk.KEPT, "1": (0.02, 0.1, 0.98, 0.99), "2": (0.99, 0.9, 0.15, 0.3)}
    section = sections(synthetic_disk.drop_caches(kept=kept))[DROPPED]
    wrong = {tuple(row[:2]): row[7] for row in section.tables[0].rows if row[8] == "no"}
    assert wrong["1", "dentries"] == "100 %"
    assert wrong["2", "dentries"].startswith("1")


def test_what_is_in_use_does_not_change_the_verdict() -> None:
    used = {"1": (0.9, 1.0, 1.0, 1.0), "2": (1.0, 0.6, 0.6, 1.0), "3": (0.9, 0.6, 0.6, 1.0)}
    section = sections(synthetic_disk.drop_caches(kept=used))[DROPPED]
    assert "1 freed 10 % of the page cache" in section.answer
    assert set(_documented(section)) == {"yes"}


def test_without_3_nothing_is_held_against_the_documentation() -> None:
    two = {value: shares for value, shares in synthetic_disk.KEPT.items() if value != "3"}
    assert _documented(sections(synthetic_disk.drop_caches(kept=two))[DROPPED]) == []
    nothing = {**synthetic_disk.KEPT, "3": (1.0, 0.1, 0.15, 0.3)}
    rows = sections(synthetic_disk.drop_caches(kept=nothing))[DROPPED].tables[0].rows
    assert {row[8] for row in rows if row[1] == "page cache"} == {MISSING}


# ---- writing


@pytest.mark.parametrize(
    ("synced", "times", "different"), [(0.25, 4.0, {"yes"}), (1.0, 1.0, {"no", "cannot tell"})]
)
def test_what_synchronising_costs_is_as_the_data_say(
    synced: float, times: float, different: set[str]
) -> None:
    table = sections(synthetic_disk.write(synced=synced))[WRITING].tables[0]
    found = [number(cell) for cell in column(table, "time with fdatasync / none (95 %)")]
    assert found == pytest.approx([times] * len(found), rel=0.1)
    assert set(column(table, "different")) <= different


def test_the_file_to_be_read_in_5_to_15_seconds_is_predicted(survey: dict[str, Section]) -> None:
    assert "predicted from cold reads" in survey[WRITING].tables[1].title
    row = {row[0]: row for row in survey[WRITING].tables[1].rows}["4 MiB"]
    # 1 / 720 us a MiB for 5 s and for 15 s, in GiB; 16 GiB in between.
    assert float(row[3].split()[0]) == pytest.approx(5 / 720e-6 / 1024, rel=0.03)
    assert float(row[4].split()[0]) == pytest.approx(15 / 720e-6 / 1024, rel=0.03)
    assert row[5] == "16 GiB (12 s)"


def test_writing_and_reading_are_told_each_without_the_other() -> None:
    write, read = sections(synthetic_disk.write())[WRITING], sections(synthetic_disk.read())[WRITING]
    assert "disk.read was not run" in write.missing
    assert "A file is written at up to" in prose(write)
    assert "disk.write was not run" in read.missing
    assert prose(read).startswith("A file that is read cold in 15 s should have")
