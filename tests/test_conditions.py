"""Levels without a meaning at a point: not multiplied, not shown, and no bar to an earlier record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

import synthetic_transfer
from cli_driver import CommandLine
from oscope import labs
from oscope.analysis.missing import missing_points
from oscope.analysis.run_history import collect
from oscope.cli.progress import counted, where
from oscope.figures.tables import fixed_levels
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment
from oscope.model.factors import Condition, meaningful
from oscope.model.guest import Guest
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.planning.plan import Plan, make_plan
from oscope.probe import catalogue as catalogues
from oscope.runner.progress import Progress
from oscope.statistics import compare_results, compare_within
from oscope.storage import record


@pytest.fixture(scope="module")
def planned(real_probe: Path) -> catalogues.Catalogue:
    return catalogues.load(real_probe)


def points(catalogue: catalogues.Catalogue, name: str, **settings: list[str]) -> list[dict[str, object]]:
    plan = make_plan([labs.experiment(name)], catalogue, settings=settings, seed=1)
    return [dict(point) for point in plan.experiments[0].points]


def test_a_level_without_a_meaning_is_not_multiplied(planned: catalogues.Catalogue) -> None:
    found = points(planned, "transfer.small", sizes=["document", "equal"], size=["1M", "2M"], files=["5"])
    assert sum(point["sizes"] == "equal" for point in found) == 2 * sum(
        point["sizes"] == "document" for point in found
    )
    assert all(("size" in point) == (point["sizes"] == "equal") for point in found)
    assert len(found) == len({tuple(sorted(point.items(), key=str)) for point in found})


@pytest.mark.parametrize(
    "experiment", [each for lab in labs.LABS for each in lab.experiments], ids=lambda each: each.name
)
def test_where_a_run_stands_is_told_at_every_point(
    experiment: Experiment, planned: catalogues.Catalogue
) -> None:
    """Where points differ in which factors they have, too."""
    guests = {} if experiment.guest is None else {experiment.name: Guest("base", "wall", 1, 1 << 30)}
    [plan] = make_plan([experiment], planned, seed=1, guests=guests).experiments
    for block, point in enumerate(plan.points):
        line = where(Progress(1, None, experiment.name, point, block, None), {experiment.name: plan})
        assert line.startswith(experiment.name)


def test_what_is_repeated_is_told_beside_the_total_that_it_raises() -> None:
    progress = Progress(5, 14, "syscall.cost", {}, 0, None)
    assert counted(progress) == "5/14 samples"
    assert counted(replace(progress, again=4)) == "5/14 samples (4 in repetition)"


def test_a_level_without_a_meaning_anywhere_is_refused(planned: catalogues.Catalogue) -> None:
    with pytest.raises(UsageError, match="size has no meaning here: it has one only with sizes=equal"):
        points(planned, "transfer.small", sizes=["document"], size=["1M"], files=["5"])
    # Where another experiment of the run has a use for it, it is none of this one's.
    both = [labs.experiment("transfer.small"), labs.experiment("transfer.inputs")]
    plan = make_plan(both, planned, settings={"size": ["1M"]}, seed=1)
    assert not any("size" in point for point in plan.experiments[1].points)


@pytest.mark.parametrize(
    ("name", "settings", "factor", "kept"),
    [
        ("transfer.meeting", {}, "late", {"retry", "receiver-retry"}),
        ("transfer.meeting", {"sender": ["mmap"], "meeting": ["ready"]}, "sender", {"whole"}),
        ("disk.read", {"queue_depth": ["8"]}, "queue_depth", {"uring"}),
        ("memory.pressure", {}, "limit", {"compete"}),
    ],
)
def test_the_probe_says_where_a_parameter_has_a_meaning(
    planned: catalogues.Catalogue, name: str, settings: dict[str, list[str]], factor: str, kept: set[str]
) -> None:
    (condition,) = planned.workload(labs.experiment(name).workload).conditions[factor]
    found = points(planned, name, **settings)
    assert {point[condition.parameter] for point in found if factor in point} == kept
    assert any(factor not in point for point in found)


def test_a_named_file_has_no_size_of_a_scratch_file(planned: catalogues.Catalogue, tmp_path: Path) -> None:
    assert all("size" in point for point in points(planned, "disk.read"))
    assert not any("size" in point for point in points(planned, "disk.read", file=[str(tmp_path / "iso")]))


def test_a_plan_keeps_its_conditions(planned: catalogues.Catalogue) -> None:
    plan = make_plan([labs.experiment("transfer.small")], planned, seed=1)
    assert Plan.from_object(orjson.loads(orjson.dumps(plan.to_object()))) == plan


def test_conditions_hold_by_a_level_or_by_the_default() -> None:
    conditions = {
        "size": (Condition("sizes", ("equal",)),),
        "existing": (Condition("file", ("",), within=False),),
    }
    defaults = {"sizes": "equal", "file": ""}
    assert meaningful({"size": 1}, conditions, defaults) == {"size": 1}
    assert meaningful({"size": 1, "sizes": "document"}, conditions, defaults) == {"sizes": "document"}
    assert meaningful({"existing": "refuse"}, conditions, defaults) == {}
    assert meaningful({"existing": "refuse", "file": "/x"}, conditions, defaults) == {
        "existing": "refuse",
        "file": "/x",
    }


def earlier(made: ExperimentResults) -> ExperimentResults:
    """Return the results as an earlier Oscope has them: every point has every factor."""

    def whole(point: PointSamples) -> PointSamples:
        return replace(point, factors={"size": 4, **point.factors})

    return replace(
        made,
        run_id="20200101-000000-abcd",
        points=tuple(whole(point) for point in made.points),
        conditions={},
        defaults={},
    )


def test_records_of_an_earlier_oscope_open_and_compare(tmp_path: Path) -> None:
    made = synthetic_transfer.experiment("transfer.small")
    for now, before in ((made, earlier(made)), (earlier(made), made)):
        for each in (now, before):
            path = tmp_path / f"{each.run_id}.json"
            record.write(Results((each,)), path)
            (again,) = record.read(path).experiments
            assert [point.factors for point in again.points] == [point.factors for point in each.points]
            assert (again.conditions, again.defaults) == (each.conditions, each.defaults)
        compared = compare_results(before, now)
        assert not any("left out" in caveat for caveat in compared.caveats)
        assert {row.factors.get("sizes") for row in compared.rows} == {"equal", "document"}
        assert list(missing_points(before, now)) == []
    lines = collect([earlier(made), made], "time_ns")
    assert [len(line.series) for line in lines] == [len(made.points)]


def test_levels_of_unlike_factors_are_compared_within_a_run() -> None:
    meeting = synthetic_transfer.experiment("transfer.meeting")
    for ends in (("ready", "retry"), ("retry", "ready")):
        assert compare_within(meeting, "meeting", *ends).rows


def test_a_fixed_level_is_shown_with_where_it_has_a_meaning() -> None:
    made = synthetic_transfer.experiment("transfer.small", size=(4,))
    assert "size = 4 B (with sizes=equal)" in fixed_levels(made)
    alone = replace(made, points=tuple(p for p in made.points if p.factors["sizes"] == "document"))
    assert not any("size = " in each for each in fixed_levels(alone))


def test_the_command_shows_no_size_of_files_that_have_their_own(probe: Path, tmp_path: Path) -> None:
    oscope = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe), "OSCOPE_STORE": str(tmp_path / "o.db")})
    words = ("run", "transfer.small", "--set", "sizes=document", "--set", "files=5", "--set", "sender=mmap")
    refused = oscope(*words, "--set", "size=1M")
    assert refused.code == 2
    assert refused.err == (
        "oscope: size has no meaning here: it has one only with sizes=equal: "
        "leave out --set size, or set sizes=equal\n"
    )
    done = oscope(*words, "--set", "receiver=mmap", "--reps", "1")
    assert done.code == 0, done
    assert "size=" not in done.out
    assert "MiB" not in done.out.split("wider terminals")[0].split("receiver_time")[0]


def test_a_default_level_is_the_same_point_as_that_level_given_by_hand() -> None:
    varied = synthetic_transfer.experiment("transfer.small")
    name = next(each for each in varied.names if each not in varied.conditions)
    level = varied.points[0].factors[name]
    chosen = tuple(point for point in varied.points if point.factors[name] == level)
    given = replace(varied, points=chosen)
    bare = replace(
        varied,
        run_id="20200101-000000-abcd",
        points=tuple(
            replace(point, factors={each: own for each, own in point.factors.items() if each != name})
            for point in chosen
        ),
        defaults={**varied.defaults, name: level},
    )
    for a, b in ((given, bare), (bare, given)):
        compared = compare_results(a, b)
        assert not any("left out" in caveat for caveat in compared.caveats)
        assert list(missing_points(a, b)) == []
        (line,) = collect([a, b], "time_ns")
        assert len(line.series) == len(chosen)
        assert all(value.n for series in line.series for value in series.values)
    # Where it is another level, it is another point.
    other = replace(bare, defaults={**bare.defaults, name: "another"})
    with pytest.raises(UsageError, match="no point in common"):
        compare_results(given, other)
