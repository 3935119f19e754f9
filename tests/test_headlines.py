"""Headlines of all labs: one short sentence with at most two measured figures; the table has the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from oscope import labs
from oscope.figures.analysed import Analysed, levels
from oscope.storage import record

RECORDS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.json"))
MOST_WORDS = 30
MOST_FIGURES = 2

INTERVAL = re.compile(r" \[[^\]]*\]| \([^()]* to [^()]*\)")
QUOTED = re.compile(r"`[^`]*`|“[^”]*”")
# How many were measured is no figure that was measured, nor is the rate that a line was given.
COUNTED = re.compile(
    r"\b(?:\d[\d\u202f]*|none of \d+) (?:others?|points?|calls|distributions|levels|small files|Mbit/s)\b"
)
FIGURE = re.compile(r"(?<![\w.:\u202f])\d(?:[\d.\u202f]*\d)?(?![\w.:\u202f]*\w)")
END = re.compile(r"[.!?](?:\s|$)")


def words(answer: str) -> int:
    """Return the number of words; a figure is one, with its interval."""
    return sum(bool(re.search(r"\w", word)) for word in re.split(r"[ \n]", INTERVAL.sub("", answer)))


def sentences(answer: str) -> int:
    return len(END.findall(QUOTED.sub("", answer)))


def figures(answer: str, written: set[str]) -> list[str]:
    """Return the measured figures; `written` are levels of factors, at which something was measured."""
    text = COUNTED.sub("", QUOTED.sub("", INTERVAL.sub("", answer)))
    for level in sorted(written, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.\u202f]){re.escape(level)}(?![\w.\u202f]*\w)", "", text)
    return FIGURE.findall(text)


def offences(answer: str, written: set[str]) -> Iterator[str]:
    if sentences(answer) != 1 or not answer.endswith("."):
        yield f"{sentences(answer)} sentences"
    if words(answer) > MOST_WORDS:
        yield f"{words(answer)} words"
    if len(found := figures(answer, written)) > MOST_FIGURES:
        yield f"figures: {', '.join(found)}"


def headlines(path: Path) -> Iterator[tuple[str, str, set[str]]]:
    """Yield titles and headlines of every lab that has something to say of a record, and its levels."""
    results = Analysed.of(record.read(path))
    points = [(each, point) for each in results.experiments for point in each.points]
    written = {text for each, point in points for text in levels(each, point.factors).values()}
    for lab in labs.LABS:
        for section in lab.sections(results):
            if section.answer:
                yield section.title, section.answer, written - {""}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_headline_is_one_short_sentence_with_two_figures_at_most(path: Path) -> None:
    found = list(headlines(path))
    assert found
    wrong = {title: (*offences(answer, written), answer) for title, answer, written in found}
    assert not {title: why for title, why in wrong.items() if len(why) > 1}


def test_what_is_counted_in_a_headline() -> None:
    short = "A round trip takes 4.9 µs [4.8, 5.0] by pipe; by tcp, the slowest of 6 calls, 13 µs (12 to 14)."
    assert (sentences(short), words(short)) == (1, 17)
    assert figures(short, {"1 B", "pipe"}) == ["4.9", "13"]
    assert not list(offences(short, set()))
    assert figures("With 1 MiB it is 3 and 4.5 and 5\u202f000.", {"1 MiB"}) == ["3", "4.5", "5\u202f000"]
    assert list(offences("It is 1 and 2 and 3. It is.", set())) == ["2 sentences", "figures: 1, 2, 3"]
