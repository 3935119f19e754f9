"""The first screen: what stands in it equals the tables, and other machines are marked as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import pytest

import synthetic
import synthetic_disk
import synthetic_ipc
import synthetic_memory
import synthetic_transfer
from oscope.analysis.calibration.certificate import INTERLEAVED, Entry, to_object
from oscope.analysis.calibration.spec import DUET
from oscope.figures import mde
from oscope.figures.analysed import Analysed
from oscope.figures.ladder import Ladder, ladder
from oscope.figures.tables import row_scale
from oscope.labs import LABS
from oscope.model.formatting import MISSING, Scale
from oscope.model.samples import Results
from oscope.model.units import format_share
from oscope.report import first_screen, other_machines, page
from oscope.report.build import Report, answers, build
from oscope.report.machine import badge, machine_line, unmeasured
from oscope.report.origins import EXPERIMENTS, command, origins
from oscope.statistics import summarise_point

SURVEYS = (
    synthetic.survey,
    synthetic_disk.survey,
    synthetic_ipc.survey,
    synthetic_memory.survey,
    synthetic_transfer.survey,
)
ENTRY = Entry("syscall.cost call=getppid", "time_ns", 0.1, 0.05, 0.05, 0.004, 5, INTERLEAVED)
CALIBRATED = {
    "run": "20260101-000000-aaaa",
    "ended": "2026-01-01T00:00:00+00:00",
    "load": "none",
    "false_alarms": {"count": 2, "of": 60},
    "coverage": {"count": 57, "of": 60},
    "found": [],
    "certificate": to_object([ENTRY]),
}


@pytest.fixture(scope="module")
def everything() -> Results:
    return Results(tuple(chain.from_iterable(survey().experiments for survey in SURVEYS)))


@pytest.fixture(scope="module")
def analysed(everything: Results) -> Analysed:
    return Analysed.of(everything)


@pytest.fixture(scope="module")
def report(analysed: Analysed) -> Report:
    return build(analysed, LABS)


def _calibrated(results: Results) -> Results:
    known = [replace(e, settings={**e.settings, "calibrated": CALIBRATED}) for e in results.experiments]
    return replace(results, experiments=tuple(known))


def test_a_summary_is_of_the_point_asked_for_after_points_have_died() -> None:
    """The labs derive points that live for one answer: others may stand at their addresses later."""
    cost = synthetic.cost()
    results = Analysed.of(Results((cost,)))
    given = cost.points[0].metrics["time_ns"]
    for times in (1.0, 2.0, 3.0):
        derived = [replace(cost.points[0], metrics={"time_ns": given * times}) for _ in range(200)]
        found = [results.summary(cost, each, "time_ns") for each in derived]
        expected = summarise_point(cost, derived[0], "time_ns").median
        assert {each.median for each in found if each is not None} == {expected}
        del derived


def test_the_rows_are_the_figures_of_the_tables(analysed: Analysed, report: Report) -> None:
    assert report.first is not None
    rows = {row.key: row for chart in report.first.charts for row in chart.rows}
    found = ladder(analysed)
    assert set(rows) == {rung.key for rung in (*found.latencies, *found.throughputs)}
    for rung in (*found.latencies, *found.throughputs):
        experiment = analysed.get(rung.experiment)
        assert experiment is not None
        [point] = [each for each in experiment.points if dict(each.factors) == dict(rung.factors)]
        summary = analysed.summary(experiment, point, rung.metric)
        assert summary is not None
        # The table's own unit may be another one; its digits are those of the row.
        column = Scale.of(summary.median, None, rung.unit)
        own = row_scale(column, summary)
        shown = rows[rung.key].value.replace("\u202f", "").split()[0]
        assert float(shown) * rung.scale.factor == pytest.approx(
            float(own.text(summary.median).replace("\u202f", "")) * own.factor
        )
        assert rows[rung.key].low <= rows[rung.key].left <= rows[rung.key].high


def test_places_rise_with_the_values(report: Report) -> None:
    assert report.first is not None
    latency, throughput = report.first.charts
    lefts = [row.left for row in latency.rows]
    assert lefts == sorted(lefts)
    assert [row.left for row in throughput.rows] == sorted((r.left for r in throughput.rows), reverse=True)
    for chart in report.first.charts:
        assert [tick.left for tick in chart.ticks] == sorted(tick.left for tick in chart.ticks)
        assert all(0 <= end <= 100 for row in chart.rows for end in (row.low, row.left, row.high))


def _with(found: Ladder, medians: Sequence[float], ends: tuple[float, float] | None) -> Ladder:
    """Return a ladder whose first throughputs have these medians, and the interval `ends` times them."""
    rungs = [
        replace(
            rung,
            summary=replace(rung.summary, median=m, ci95=ends and (m * ends[0], m * ends[1])),
        )
        for rung, m in zip(found.throughputs, medians, strict=False)
    ]
    return replace(found, throughputs=tuple(rungs))


def _throughputs(results: Results, found: Ladder, monkeypatch: pytest.MonkeyPatch) -> first_screen.Chart:
    monkeypatch.setattr(first_screen, "ladder", lambda _: found)
    return first_screen.first_screen(results, lambda *_: "").charts[1]


@pytest.mark.parametrize(
    ("ends", "text", "width"),
    [
        (None, "(once)", 0),
        ((0.5, 101.0), "(too few samples)", 0),
        ((0.009, 2.0), "(too few samples)", 0),
        ((0.0, 2.0), "(too few samples)", 0),
        ((0.012, 99.0), "1 to 9900", 50),
    ],
)
def test_an_interval_beyond_a_hundred_times_the_median_is_not_shown(
    everything: Results,
    monkeypatch: pytest.MonkeyPatch,
    ends: tuple[float, float] | None,
    text: str,
    width: float,
) -> None:
    row = _throughputs(everything, _with(ladder(everything), [100.0, 200.0], ends), monkeypatch).rows[0]
    assert row.interval == text
    assert (row.high - row.low > width) if width else row.low == row.left == row.high
    assert text in dict(row.facts)["95 % confidence interval"]


@pytest.mark.parametrize("decades", [1, 3, 7, 9, 14])
def test_the_labels_of_an_axis_do_not_overlap(
    everything: Results, monkeypatch: pytest.MonkeyPatch, decades: int
) -> None:
    found = _with(ladder(everything), [10.0**decades, 1.0], None)
    chart = _throughputs(everything, found, monkeypatch)
    for room in first_screen.LABEL_ROOMS:
        shown = [(tick.left * room / 100, 3 * len(tick.text)) for tick in chart.ticks if room in tick.rooms]
        assert shown
        assert all(b - a > half + other for (a, half), (b, other) in pairwise(shown))
        assert f".room{room} " in (Path(page.__file__).parent / "templates/report.css").read_text()


def test_one_experiment_has_no_ladder_but_its_findings() -> None:
    report = build(Results((synthetic.throughput(),)), LABS)
    assert report.first is not None
    assert report.first.charts == []
    assert 'id="overview"' in page.render(report)


def test_a_record_named_by_the_user_is_marked_and_named(everything: Results) -> None:
    cpu = {"model": "Other 9000", "logical": 64}
    other = [
        replace(e, environment={**e.environment, "cpu": {**e.environment["cpu"], **cpu}})
        for e in everything.experiments
    ]
    report = build(everything, LABS, [Results(tuple(other))])
    assert report.first is not None
    [machine] = report.first.elsewhere
    assert machine.name.startswith("Other 9000, 64 CPUs")
    for chart in report.first.charts:
        for row in chart.rows:
            [mark] = row.marks
            assert mark.left == row.left
            assert mark.text.endswith(f"on {machine.name}")


def test_the_kept_machine_is_not_shown_as_elsewhere_on_itself(analysed: Analysed) -> None:
    [kept] = other_machines.stored()
    assert kept.figures
    here = ladder(analysed)
    assert kept in other_machines.machines(here, "another")
    assert kept not in other_machines.machines(here, kept.name)


def test_the_badge_is_that_of_the_certificate() -> None:
    results = synthetic.survey()
    assert (found := badge(results)) is not None
    assert not found.calibrated
    assert "oscope calibrate --quick" in found.text
    known = badge(_calibrated(results))
    assert known is not None
    assert known.calibrated
    assert known.text.startswith("intervals hold 95 %, a 2 % change is found in ")
    seconds = mde.seconds_to_find([ENTRY], 0.02)
    assert seconds is not None
    assert ENTRY.interleaved(seconds * 1.01) <= 0.02 < ENTRY.interleaved(seconds * 0.8)


def test_the_curve_of_the_certificate_is_that_of_the_worst_class_of_work() -> None:
    entries = [ENTRY, replace(ENTRY, subject="noisy", pair_error=0.5, runs=2), replace(ENTRY, way=DUET)]
    known = {**CALIBRATED, "certificate": to_object(entries)}
    experiment = synthetic.survey().experiments[0]
    experiment = replace(experiment, settings={**experiment.settings, "calibrated": known})
    found = badge(Results((experiment,)))
    assert found is not None
    assert found.curve is not None
    assert found.mde_table is not None
    curves = {trace["name"]: dict(zip(trace["x"], trace["y"], strict=True)) for trace in found.curve.traces}
    # In one class too few runs were made to say anything of separate ones.
    assert list(curves) == ["interleaved", "duet"]
    for seconds in (10.0, 60.0, 600.0):
        (near,) = (x for x in curves["interleaved"] if x == pytest.approx(seconds))
        assert curves["interleaved"][near] == pytest.approx(100 * entries[1].interleaved(seconds), rel=0.01)
        assert curves["duet"][near] == pytest.approx(100 * entries[2].interleaved(seconds), rel=0.01)
    assert [row[0] for row in found.mde_table.rows] == [
        "interleaved",
        "duet, 1 of 2 classes of work",
        "separate runs",
    ]
    assert found.mde_table.rows[2][1:] == [MISSING] * 4
    assert found.mde_table.rows[1][2] == format_share(float(f"{entries[2].interleaved(10.0):.2g}"))


def test_a_failed_self_check_is_the_badge() -> None:
    results = synthetic.survey()
    one = results.experiments[0]
    failed = replace(one, environment={**one.environment, "self_check": {"ok": False}})
    found = badge(Results((failed, *results.experiments[1:])))
    assert found is not None
    assert found.failed


def test_the_machine_line_leaves_out_what_is_not_known() -> None:
    assert machine_line({}) == ""
    whole = {
        "cpu": {"model": "AMD EPYC", "logical": 2},
        "hypervisor": "kvm",
        "kernel": {"release": "6.18.44-generic"},
    }
    assert machine_line(whole) == "AMD EPYC, 2 CPUs, KVM guest, Linux 6.18.44"


def test_what_was_not_measured_is_listed_with_its_reason() -> None:
    results = synthetic.survey()
    found = unmeasured(results)
    assert found is not None
    points = sum(len(each.points) for each in results.experiments)
    assert found.counts == f"1 of {points} points"
    [row] = found.table.rows
    assert row[2:] == ["no huge pages are free", "echo 600 > /proc/sys/vm/nr_hugepages"]
    assert unmeasured(Results((synthetic.throughput(),))) is None


def test_every_section_with_a_figure_names_its_experiments(everything: Results) -> None:
    for part in answers(everything, LABS):
        for section in part.sections:
            if section.figures:
                assert section.title in EXPERIMENTS
                assert origins(section.title, everything, LABS), section.title
    names = {each.name for lab in LABS for each in lab.experiments}
    assert set(chain.from_iterable(EXPERIMENTS.values())) <= names


def test_the_command_names_the_levels_that_were_set_by_hand() -> None:
    cost = synthetic.cost()
    one = replace(cost, points=tuple(p for p in cost.points if p.factors["call"] == "getppid"))
    assert "--set call=getppid" in command(one, LABS)
    assert command(replace(cost, experiment="mine"), LABS) == ""


def test_a_kept_file_reads_as_it_was_written(
    everything: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept.json"
    path.write_text(other_machines.to_json(everything, "a test"))
    monkeypatch.setattr(other_machines, "STORED", path)
    other_machines.stored.cache_clear()
    try:
        [machine] = other_machines.stored()
    finally:
        other_machines.stored.cache_clear()
    here = ladder(everything)
    for key, known in machine.figures.items():
        rung = here.rung(key)
        assert rung is not None
        assert known.value == rung.median * rung.base_factor
