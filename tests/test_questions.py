"""The forms in which labs declare what they show: bars, columns, groups and proven differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from oscope import questions as q
from oscope.figures.analysed import Analysed
from oscope.statistics.compared import Answer
from oscope.statistics.multiplicity import holm
from synthetic import compared, sections_of, throughput


def test_bars_keep_the_order_of_series_and_categories_and_leave_gaps() -> None:
    rows = [("traced", "pipe", 2.0), ("traced", "tcp", 4.0), ("untraced", "tcp", 1.0), ("none", "tcp", None)]
    figure = q.bars("Time", q.plots.axis("time"), rows, factor=2.0)
    assert [trace["name"] for trace in figure.traces] == ["traced", "untraced"]
    assert [trace["y"] for trace in figure.traces] == [["pipe", "tcp"]] * 2
    assert [trace["x"] for trace in figure.traces] == [[1.0, 2.0], [None, 0.5]]


def test_bars_of_equal_names_stand_beside_each_other() -> None:
    rows = [("first", "pipe", 1.0), ("first", "pipe", 2.0), ("second", "pipe", 3.0)]
    figure = q.bars("Time", q.plots.axis("time"), rows)
    assert [trace["y"] for trace in figure.traces] == [["pipe", "pipe"]] * 2
    assert [trace["x"] for trace in figure.traces] == [[1.0, 2.0], [3.0, None]]


def test_bars_of_an_original_report_are_marked() -> None:
    rows = [("here", "read", 1.0), ("original", "read", 2.0)]
    figure = q.bars("Calls", q.plots.axis("calls"), rows, cited=["original"])
    assert [trace["meta"]["role"] for trace in figure.traces] == ["series", "reference"]


def test_groups_come_in_the_order_of_their_first_rows() -> None:
    assert list(q.grouped("banana", str.upper).items()) == [("B", ["b"]), ("A", ["a"] * 3), ("N", ["n"] * 2)]


def test_a_table_may_show_the_first_items_of_its_rows() -> None:
    table = q.TableOf[tuple[str, str, float]](
        "", *q.items("tracer", "says"), q.number("n", lambda row: row[2])
    )
    assert table.of([("strace", "slower", 2.0)]).rows == [["strace", "slower", "2.00"]]


@pytest.mark.parametrize(
    ("different", "text"),
    [
        ("yes", "1.50 times [1.40, 1.60] its time"),
        ("no", "1.50 (1.40 to 1.60) times its time, which is no difference"),
    ],
)
def test_a_headline_gives_a_ratio_and_says_where_it_is_no_difference(different: Answer, text: str) -> None:
    assert q.times_or_judged(compared(1.5, 1.4, 1.6, different=different), "its time") == text


def test_a_headline_gives_no_order_to_what_cannot_be_distinguished() -> None:
    sections = sections_of("syscalls")
    title = "How many calls fit into a second"
    measured = throughput(reps=20)
    assert "gethostid, the slowest, " in sections(measured)[title].answer
    one = measured.points[0]
    # Each call has the same values, in another order: whichever has the largest median is not the fastest.
    alike = [
        replace(
            one, factors=point.factors, metrics={name: values[::step] for name, values in one.metrics.items()}
        )
        for point, step in zip(measured.points[:2], (1, -1), strict=True)
    ]
    headline = sections(replace(measured, points=tuple(alike)))[title].answer
    assert headline.startswith("read reaches ")
    assert headline.endswith("; the other cannot be distinguished from it.")


def test_a_headline_does_not_judge_all_others_by_the_last_one() -> None:
    title, measured = "How many calls fit into a second", throughput(reps=20)
    generator = np.random.default_rng(5)
    times = {"read": (100.0, 1.0), "lseek": (100.1, 1.0), "getpid": (120.0, 1.0), "gethostid": (130.0, 200.0)}

    def spread(point: q.PointSamples, middle: float, width: float) -> q.PointSamples:
        own = np.sort(middle + width * np.linspace(-0.6, 0.6, len(point)))
        rate = 1e9 / generator.permutation(own)
        return replace(point, metrics={"calls_per_s": rate, "bytes_per_s": rate})

    points = tuple(spread(point, *times[str(point.factors["call"])]) for point in measured.points)
    headline = sections_of("syscalls")(replace(measured, points=points))[title].answer
    first, last = headline.split("; ")
    assert first.startswith("read reaches ")
    assert first.endswith(" (not distinguished from 2 others)")
    assert last.startswith("gethostid, the slowest, ")
    assert last.endswith(" (not distinguished from 3 others).")


def _calls() -> q.Run:
    """Return throughput of four calls whose differences are near what noise hides."""
    measured = throughput(reps=20)
    generator = np.random.default_rng(3)

    def noisy(index: int, point: q.PointSamples) -> q.PointSamples:
        rate = 1e7 * (1 + 0.004 * index + 0.02 * generator.standard_normal(len(point)))
        block = np.arange(len(point))
        return replace(point, block=block, metrics={"calls_per_s": rate, "bytes_per_s": 2 * rate})

    points = tuple(noisy(*each) for each in enumerate(measured.points))
    return q.Run(Analysed((measured,)), replace(measured, points=points))


def _assert_one_family(rows: Sequence[q.ComparedMetric]) -> None:
    p = [row.p for row in rows]
    assert [row.p_holm for row in rows] == pytest.approx(list(holm(np.array(p))))
    assert [row.p_holm for row in rows] != pytest.approx(p)
    assert {(row.tests, row.correction) for row in rows} == {(len(rows), "Holm")}


def test_all_levels_beside_one_are_one_family() -> None:
    points = _calls().points("calls_per_s")
    rows = [row for each in points if (row := q.beside(each, "call", "read")) is not None]
    assert len(rows) == len(points) - 1 > 2
    _assert_one_family(rows)
    only = [q.beside(each, "call", "read", points[-1]["call"]) for each in points]
    assert only[:-1] == [None] * (len(points) - 1)
    assert only[-1] is not None
    assert (only[-1].tests, only[-1].p_holm) == (1, only[-1].p)


def test_all_pairs_and_quantities_of_a_contrast_are_one_family() -> None:
    run = _calls()
    pairs = [("read", str(each.factors["call"])) for each in run.experiment.points[1:]]
    squared = q.Quantity("squared", "", lambda point: q.metric(point, "calls_per_s") ** 2)
    found = q.contrasts(run, ("calls_per_s", squared), "call", *pairs)
    assert [each.ends for each in found] == [ends for ends in pairs for _ in range(2)]
    _assert_one_family([each.row for each in found])
    alone = q.contrasts(run, "calls_per_s", "call", pairs[0])
    assert [each.row.p for each in alone] == [found[0].row.p]
