"""The disk lab: its designs, and answers that follow results whose causes are known."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import synthetic
import synthetic_disk
from oscope import labs
from oscope.cli.request import select
from oscope.labs.disk import POWERS
from oscope.model.document import Section
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.originals import disk as reference
from oscope.planning.plan import make_plan
from oscope.probe.catalogue import Catalogue, load
from oscope.report.build import answers, labs_run, title
from oscope.report.figures import draw
from synthetic import number, prose
from synthetic_disk import changed, sections

DISK = labs.lab("disk")
SWEEP, CACHES, WHERE = (
    "Reading cold, by block size, beside dd and fio",
    "Cold and warm",
    "Where the time goes",
)
ENGINES, DRIFT, XOR = "Ways of reading", "First and later cold reads", "The XOR of a file"
WRITING, DROPPED = "Writing, and how large a file must be", "What drop_caches frees"
CALLS = "How many calls fit into a second"


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return sections(*synthetic_disk.survey().experiments)


@pytest.fixture
def real_catalogue(probe: object) -> Catalogue:
    return load(probe)  # type: ignore[arg-type]


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
def test_what_goes_past_the_cache_is_neither_warm_nor_in_parts_of_pages(profile: str) -> None:
    past = [point for point in _points("disk.read", profile) if point["engine"] in ("direct", "uring")]
    assert past
    assert all(point["cache"] == "cold" and int(point["block_size"]) % 4096 == 0 for point in past)
    written = [point for point in _points("disk.write", profile) if point["sync"] == "direct"]
    assert written
    assert all(int(point["block_size"]) % 4096 == 0 for point in written)


def test_the_full_sweep_has_every_block_size_of_the_document() -> None:
    plain = {point["block_size"] for point in _points("disk.read", "full") if point["engine"] == "read"}
    assert sorted(plain) == [1 << power for power in range(7, 23)]
    assert {point["block_size"] for point in _points("disk.xor", "full")} == {64, *plain}


def test_only_copying_has_a_window() -> None:
    windowed = [point for point in _points("memory.bandwidth", "full") if point["window"]]
    assert {(point["operation"], point["threads"]) for point in windowed} == {("copy", 1)}


def test_points_left_out_to_save_time_are_measured_where_their_levels_were_set(
    real_catalogue: Catalogue,
) -> None:
    read = labs.experiment("disk.read")
    settings = {"engine": ("mmap",), "block_size": ("4096",)}
    plain = make_plan([read], real_catalogue, profile="quick", seed=1).experiments[0].points
    assert not [point for point in plain if point["engine"] == "mmap" and point["block_size"] == 4096]
    chosen = make_plan([read], real_catalogue, profile="quick", seed=1, settings=settings)
    assert {(point["engine"], point["block_size"]) for point in chosen.experiments[0].points} == {
        ("mmap", 4096)
    }
    larger = make_plan([read], real_catalogue, profile="quick", seed=1, settings={"size": ("128M",)})
    assert len(larger.experiments[0].points) == len(plain)


def test_experiments_that_two_labs_share_are_run_once() -> None:
    names = [each.name for each in select(["disk", "syscalls"], "quick").experiments]
    assert len(names) == len(set(names))
    assert {"syscall.cost", "disk.read"} <= set(names)
    assert [each.name for each in select([], "quick").experiments].count("syscall.throughput") == 1


# ---- the labs of a report


def test_what_two_labs_tell_stands_in_a_report_once() -> None:
    both = Results((*synthetic_disk.survey().experiments, synthetic.create()))
    parts = answers(both, labs.LABS)
    assert [part.key for part in parts] == ["syscalls", "disk"]
    reported = [section.title for part in parts for section in part.sections]
    assert reported.count(CALLS) == 1


def test_a_run_of_the_disk_lab_is_the_disk_labs_alone(survey: dict[str, Section]) -> None:
    results = synthetic_disk.survey()
    assert [lab.name for lab in labs_run(results, labs.LABS)] == ["disk"]
    assert title(results, labs.LABS) == "Disk"
    assert CALLS in survey
    shared = Results((synthetic.cost(), synthetic.throughput()))
    assert [lab.name for lab in labs_run(shared, labs.LABS)] == ["syscalls"]


# ---- all sections


def test_every_question_is_answered_with_a_table(survey: dict[str, Section]) -> None:
    assert list(survey) == [SWEEP, CACHES, WHERE, ENGINES, DRIFT, XOR, WRITING, DROPPED, CALLS]
    for section in survey.values():
        assert prose(section)
        assert section.tables
        assert section.missing == ""
        for table in section.tables:
            assert all(len(row) == len(table.columns) for row in table.rows), table.title


def test_every_figure_can_be_drawn_for_a_paper(survey: dict[str, Section]) -> None:
    figures = [figure for section in survey.values() for figure in section.figures]
    assert len(figures) >= 12
    for figure in figures:
        draw(figure)


@pytest.mark.parametrize("name", [each.name for each in DISK.experiments])
def test_an_experiment_by_itself_is_answered_as_far_as_it_goes(name: str) -> None:
    only = [each for each in synthetic_disk.survey().experiments if each.experiment == name]
    assert len(only) == 1
    found = sections(*only)
    own = name.startswith("disk.") or name == "syscall.throughput"
    assert any(prose(section) for section in found.values()) == own


def test_what_was_skipped_altogether_makes_no_answer_but_says_why() -> None:
    for experiment in synthetic_disk.survey().experiments:
        missing = tuple(synthetic.skipped(point.factors) for point in experiment.points)
        found = sections(dataclasses.replace(experiment, points=missing))
        assert all(not prose(section) for section in found.values())
        if experiment.experiment.startswith("disk."):
            assert any("no huge pages are free: echo" in section.missing for section in found.values())


def _cut(experiment: ExperimentResults, samples: int) -> ExperimentResults:
    def cut(point: PointSamples) -> PointSamples:
        arrays = {
            field.name: value[:samples]
            for field in dataclasses.fields(point)
            if isinstance(value := getattr(point, field.name), np.ndarray)
        }
        metrics = {name: values[:samples] for name, values in point.metrics.items()}
        return dataclasses.replace(point, **arrays, metrics=metrics, covariates={}, failed=())

    return dataclasses.replace(experiment, points=tuple(cut(point) for point in experiment.points))


@pytest.mark.parametrize("samples", [0, 1, 2])
def test_few_samples_break_nothing_and_prove_nothing(samples: int) -> None:
    found = sections(*(_cut(each, samples) for each in synthetic_disk.survey().experiments))
    for section in found.values():
        for figure in section.figures:
            draw(figure)
    if samples == 1:
        tables = found[SWEEP].tables
        assert "yes" not in {cell for table in tables for row in table.rows for cell in row}
        assert "too little for a verdict" in prose(found[DRIFT])


# ---- beside dd and fio


@pytest.mark.parametrize(
    ("dd", "ratio", "different"),
    [(0.8, 1.25, {"yes"}), (1.25, 0.8, {"yes"}), (1.0, 1.0, {"no", "cannot tell"})],
)
def test_dd_is_beaten_or_not_as_the_data_say(dd: float, ratio: float, different: set[str]) -> None:
    table = sections(synthetic_disk.peers(dd=dd))[SWEEP].tables[0]
    place = table.columns.index("oscope / dd (95 %)")
    assert [number(row[place]) for row in table.rows] == pytest.approx([ratio] * 6, abs=0.01)
    assert {row[place + 1] for row in table.rows} <= different


def test_a_missing_fio_is_said_where_its_figures_would_stand() -> None:
    section = sections(synthetic_disk.peers(fio=False))[SWEEP]
    assert section.missing == "6 of 18 points: fio is not installed: apt-get install fio."
    assert not [column for column in section.tables[0].columns if "fio" in column]


def test_without_peers_the_sweep_is_ours_and_says_so() -> None:
    section = sections(synthetic_disk.read())[SWEEP]
    assert "disk.peers was not run: `oscope run disk.peers` does it" in section.missing
    assert section.answer.startswith("Cold, oscope reads blocks of 128 B at 25")
    assert section.tables[0].title.endswith("file of 64 MiB (disk.read)")


def test_the_documents_figures_stand_beside_ours(survey: dict[str, Section]) -> None:
    rows = {row[0]: row for row in survey[SWEEP].tables[0].rows}
    assert rows["128 B"][-2:] == ["439", "102"]
    assert rows["4 MiB"][-2:] == ["1052", "849"]
    assert {len(reference.COLD), len(reference.WARM), len(reference.DD)} == {len(POWERS)}
    assert reference.WARM[1 << 21] == 8102


def test_the_curve_is_drawn_evenly_spaced_and_to_scale(survey: dict[str, Section]) -> None:
    even, true = survey[SWEEP].figures
    assert even.layout["xaxis"]["ticktext"] == ["128 B", "1 KiB", "8 KiB", "64 KiB", "512 KiB", "4 MiB"]
    assert list(even.traces[0]["x"]) == [0, 1, 2, 3, 4, 5]
    assert list(true.traces[0]["x"]) == pytest.approx([size / (1 << 20) for size in POWERS[::3]])
    assert true.layout["xaxis"]["type"] == "linear"
    assert {trace["name"] for trace in even.traces} == {"oscope", "dd", "fio"}


# ---- cold and warm


def test_the_factor_between_warm_and_cold_is_the_one_put_in(survey: dict[str, Section]) -> None:
    for row, size in zip(survey[CACHES].tables[0].rows, POWERS[::3], strict=True):
        cold, warm = (synthetic_disk.seconds_per_mib(size, cache)[0] for cache in ("cold", "warm"))
        assert float(row[5].split()[0]) == pytest.approx(cold / warm, rel=0.03)


def test_a_cache_that_saves_nothing_is_not_said_to() -> None:
    read = synthetic_disk.read()

    def slow(point: PointSamples) -> dict[str, np.ndarray]:
        cold = read.point(**{**point.factors, "cache": "cold"})
        assert cold is not None
        return {"throughput": cold.metrics["throughput"][::-1]}

    assert "No gain by the page cache was found" in prose(sections(changed(read, slow, cache="warm"))[CACHES])


def test_cold_and_warm_reads_of_files_of_two_sizes_are_not_compared() -> None:
    read = synthetic_disk.read()
    larger = tuple(
        dataclasses.replace(point, factors={**point.factors, "size": 256 << 20})
        if point.factors["cache"] == "warm" and point.factors["block_size"] == POWERS[0]
        else point
        for point in read.points
    )
    section = sections(dataclasses.replace(read, points=larger))[CACHES]
    assert "Shown here is size = 64 MiB; the run has the other levels (`oscope show`)." in section.text
    assert section.tables[0].rows[0][2] != "–"
    assert section.tables[0].rows[0][3:6] == ["–"] * 3


def test_a_gain_is_not_hidden_by_the_noise_of_one_block_size() -> None:
    read = synthetic_disk.read()

    def noisy(point: PointSamples) -> dict[str, np.ndarray]:
        return {"throughput": point.metrics["throughput"] * np.array([0.01, 0.1, 100.0, 1000.0, 10_000.0])}

    found = changed(read, noisy, block_size=POWERS[0], cache="warm", engine="read")
    assert sections(found)[CACHES].tables[0].rows[0][0] == "128 B"
    assert prose(sections(found)[CACHES]).startswith("From the page cache, blocks of 4 MiB are ")


def test_pages_left_before_a_cold_read_are_told() -> None:
    assert "at most 0 % before each of 70 cold" in sections(synthetic_disk.read())[CACHES].tables[0].note
    left = changed(synthetic_disk.read(), lambda point: {"resident": np.full(len(point), 0.03)}, cache="cold")
    assert "at most 3.0 % before each of 70 cold" in sections(left)[CACHES].tables[0].note
