"""A report gives one answer for one quantity, in units that say what they count."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import synthetic
import synthetic_disk
import synthetic_fs
import synthetic_ipc
import synthetic_kernel
import synthetic_memory
import synthetic_transfer
from oscope.labs import LABS
from oscope.model.document import Figure, Section, Table
from oscope.model.samples import Results
from oscope.report.build import Report, build
from report_cells import contradictions

SURVEYS: dict[str, Callable[[], Results]] = {
    "syscalls": synthetic.survey,
    "disk": synthetic_disk.survey,
    "fs": synthetic_fs.survey,
    "ipc": synthetic_ipc.survey,
    "kernel": synthetic_kernel.survey,
    "memory": synthetic_memory.survey,
    "transfer": synthetic_transfer.survey,
}
QUANTITY = re.compile(
    r"time|speed|throughput|cost|calls|misses|faults|share|knee|latency|cycles|instructions|spread|writes"
    r"|switches|resident|blocks|bytes|slow|\(\w+\)|freed|what -s does|pages|processes|round trips|step",
    re.IGNORECASE,
)
ODD_UNITS = re.compile(r"\b[kMG]?1/s|\[1\]|\b[kMG](calls|faults|switches)/s|\b[kMG]B/s")
NUMBER = r"-?\d[\d\u202f]*(?:\.\d+)?"


@pytest.fixture(scope="module", params=SURVEYS)
def survey(request: pytest.FixtureRequest) -> tuple[Results, Report]:
    results = SURVEYS[request.param]()
    return results, build(results, LABS)


def _sections(report: Report) -> Iterator[Section]:
    for part in report.labs:
        yield from part.sections


def _figures(report: Report) -> Iterator[Figure]:
    for part in (*_sections(report), *report.experiments):
        yield from part.figures


def _tables(report: Report) -> Iterator[Table]:
    for part in (*_sections(report), *report.experiments):
        yield from part.tables


def test_equal_labels_have_equal_figures(survey: tuple[Results, Report]) -> None:
    assert contradictions(*survey) == []


def test_two_answers_for_one_quantity_are_found() -> None:
    results = synthetic_disk.survey()
    report = build(results, LABS)
    first = report.experiments[0]
    table = first.tables[0]
    other = [*table.rows[0][:-1], "123456"]
    doubled = replace(first, tables=[table, replace(table, rows=[other])])
    [line] = contradictions(results, replace(report, experiments=[doubled]))
    assert "123456" in line


def test_units_say_what_they_count(survey: tuple[Results, Report]) -> None:
    report = survey[1]
    written = [text for section in _sections(report) for text in (section.answer, *section.text)]
    written += [name for table in _tables(report) for name in table.columns]
    written += [
        figure.layout[axis]["title"]["text"] for figure in _figures(report) for axis in ("xaxis", "yaxis")
    ]
    assert [text for text in written if ODD_UNITS.search(text)] == []


def test_the_title_of_a_figure_names_its_quantity(survey: tuple[Results, Report]) -> None:
    assert [each.title for each in _figures(survey[1]) if not QUANTITY.search(each.title)] == []


def test_figures_of_one_experiment_have_titles_of_their_own(survey: tuple[Results, Report]) -> None:
    for view in survey[1].experiments:
        titles = [figure.title for figure in view.figures]
        assert len(titles) == len(set(titles))


def test_text_and_table_give_the_same_interval(survey: tuple[Results, Report]) -> None:
    for section in _sections(survey[1]):
        cells = [triple for table in section.tables for row in table.rows for triple in _intervals(row)]
        for text in (section.answer, *section.text):
            for value, low, high in _intervals([text]):
                near = [c for c in cells if c[0] == value and c[1:] != (low, high) and _near(c, low, high)]
                same = (value, low, high) in cells
                assert same or not near, (section.title, text, near)


def _intervals(row: list[str] | tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield the digits of each value with an interval: in one cell or text, or in neighbouring cells."""
    for index, cell in enumerate(row):
        for found in re.finditer(rf"({NUMBER})(?: [^\s()]+)?(?: [^\s()]+)? \(({NUMBER}) to ({NUMBER})", cell):
            # The ratios of a text are of other comparisons than the tables have.
            if " times" not in cell[found.end() : found.end() + 7]:
                yield _digits(found[1]), _digits(found[2]), _digits(found[3])
        alone = re.fullmatch(rf"({NUMBER}) to ({NUMBER})", cell)
        if alone and index and re.fullmatch(NUMBER, row[index - 1]):
            yield _digits(row[index - 1]), _digits(alone[1]), _digits(alone[2])


def _digits(number: str) -> str:
    """Return the significant digits, which a change of the unit's prefix leaves as they are."""
    return number.replace("\u202f", "").replace(".", "").lstrip("-0").rstrip("0") or "0"


def _near(cell: tuple[str, str, str], low: str, high: str) -> bool:
    """Say whether two intervals differ by so little that they must be of the same figure."""
    return all(
        len(one) == len(other) and abs(int(one) - int(other)) <= 0.02 * int(other)
        for one, other in zip(cell[1:], (low, high), strict=True)
    )
