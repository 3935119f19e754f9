"""The transfer lab's answers on the line between the sides: retries, rates, delays and losses."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from oscope.model.document import Section
from oscope.model.samples import PointSamples
from synthetic import number, prose
from synthetic_transfer import experiment, sections
from transfer_answers import (
    LINE,
    STEP,
    changed,
    surveyed,
)


@pytest.fixture(scope="module")
def survey() -> dict[str, Section]:
    return surveyed()


def test_the_step_is_the_interval_less_the_lateness_and_goes(survey: dict[str, Section]) -> None:
    section = survey[STEP]
    rows = {row[0]: row for row in section.tables[0].rows}
    late = {name: row[5] for name, row in rows.items() if "the sender tries again" in name}
    assert re.match(r"(900\.\d+|899\.\d+) ms \(", late["receiver 100 ms late, the sender tries again"])
    assert "receiver 900 ms late, the sender tries again" in late
    # Where both are ready there is none.
    assert rows["both ready"][5] == "–"
    assert "both ready" not in late
    assert re.match(r"20\d\.\d ms ", rows["both ready, small writes"][5])
    assert re.match(r"(39|40|41)\.\d+ ms", rows["both ready, small writes"][6])
    expected = [row[-1] for row in section.tables[0].rows if "the sender tries again" in row[0]]
    assert expected == ["900 ms", "700 ms", "500 ms", "100 ms"]
    drawn = next(figure for figure in section.figures if "lateness" in figure.title)
    assert np.allclose(drawn.traces[0]["y"], drawn.traces[1]["y"], atol=0.01)


def test_no_step_is_claimed_where_there_is_none() -> None:
    def at_once(point: PointSamples) -> PointSamples:
        if point.factors["meeting"] != "retry":
            return point
        same = np.full(len(point), 145_000.0) * np.linspace(0.98, 1.02, len(point))
        return dataclasses.replace(point, metrics={**point.metrics, "receiver_time_ns": same})

    section = sections(changed(experiment("transfer.meeting"), at_once))[STEP]
    assert "the receiver is" not in section.answer
    steps_ns = [row[5] for row in section.tables[0].rows if "the sender tries again" in row[0]]
    assert len(steps_ns) == 4
    assert all(number(step) < 5 or "ms" not in step for step in steps_ns)


def test_a_receiver_that_tries_again_takes_the_whole_interval_however_late_the_sender_is(
    survey: dict[str, Section],
) -> None:
    section = survey[STEP]
    rows = [row for row in section.tables[0].rows if "the receiver tries again" in row[0]]
    assert len(rows) == 4
    for row in rows:
        assert re.match(r"(1\.000\d* s|999\.9\d* ms|1000\.0\d* ms) \(", row[5])
    assert "Its receiver connects" in section.tables[1].note
    theirs = [row[4] for row in section.tables[1].rows if row[0] == "receiver" and row[4] != "–"]
    assert [899.5 <= float(each) <= 904.5 for each in theirs] == [True] * 3
    expected = [row[-1] for row in section.tables[0].rows if "the receiver tries again" in row[0]]
    assert expected == ["1.000 s"] * 4
    drawn = next(figure for figure in section.figures if "lateness" in figure.title)
    assert np.allclose(drawn.traces[2]["y"], drawn.traces[3]["y"], atol=0.01)


def test_a_lateness_without_a_step_is_named() -> None:
    def once(point: PointSamples) -> PointSamples:
        if point.factors["meeting"] != "retry" or point.factors["late"] != 0.3:
            return point
        same = np.full(len(point), 145_000.0) * np.linspace(0.98, 1.02, len(point))
        return dataclasses.replace(point, metrics={**point.metrics, "receiver_time_ns": same})

    section = sections(changed(experiment("transfer.meeting"), once))[STEP]
    (row,) = [row for row in section.tables[0].rows if row[0].startswith("receiver 300 ms late")]
    assert row[5].split("(")[0].split()[1] == "µs"
    assert row[-1] == "700 ms"


def test_of_the_documents_step_no_more_is_claimed_than_its_figures_show(survey: dict[str, Section]) -> None:
    text = " ".join(survey[STEP].text)
    steps_of = {tuple(row[1:3]): row[4] for row in survey[STEP].tables[1].rows if row[0] == "receiver"}
    assert [series for series, step in steps_of.items() if step == "–"] == [("fcntl", "random")]
    assert "cannot be decided from the report" in text
    assert "Steps of several seconds" in str(survey[STEP].tables[1].note)


def test_a_line_gives_its_rate_and_costs_round_trips(survey: dict[str, Section]) -> None:
    section = survey[LINE]
    rows = [row for row in section.tables[0].rows if row[0] == "100 Mbit/s" and row[2] == "0 %"]
    place = section.tables[0].columns.index
    assert float(str(rows[0][7]).split()[0]) > 95
    found = place("round trips (95 %)")
    assert all(float(str(row[found]).split()[0]) == pytest.approx(6, rel=0.5) for row in rows[1:])
    lossy = [row for row in section.tables[0].rows if row[2] == "1 %"]
    assert [row[place("different")] for row in lossy] == ["yes"] * 6
    assert all(number(row[place("time / without loss (95 %)")]) > 1 for row in lossy)
    assert sum(row[place("shaped by")] == "netem" for row in section.tables[0].rows) == 23
    assert rows[0][3] == "4 MiB, random bytes"
    (figure,) = section.figures
    assert sum(trace["line"]["dash"] == "dash" for trace in figure.traces) == 3


def test_losses_are_told_though_the_largest_ratio_is_not_found_different() -> None:
    def doubtful(point: PointSamples) -> PointSamples:
        levels = point.factors
        if not (levels["loss"] == 10 and levels["rate"] == 125_000_000 and levels["delay"] == 0.05):
            return point
        # Far longer in most blocks and far shorter in the others.
        factor = np.where(point.block % 2, 0.001, 400.0)
        metrics = {**point.metrics, "time_ns": point.metrics["time_ns"] * factor}
        return dataclasses.replace(point, metrics=metrics)

    section = sections(changed(experiment("transfer.network"), doubtful))[LINE]
    column = section.tables[0].columns.index("different")
    assert sum(row[column] == "yes" for row in section.tables[0].rows if row[2] == "1 %") == 5


def test_points_that_were_skipped_are_told_with_their_remedy() -> None:
    made = experiment("transfer.network")
    points = tuple(
        dataclasses.replace(
            point.only(np.zeros(len(point), dtype=bool)),
            metrics={},
            skipped="this kernel has no netem",
            remedy="measure in a guest: --on guest",
        )
        if point.factors["delay"]
        else point
        for point in made.points
    )
    section = sections(dataclasses.replace(made, points=points))[LINE]
    assert "no netem" in section.missing
    assert "--on guest" in section.missing
    assert prose(section)
