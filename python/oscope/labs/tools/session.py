"""What a terminal was sent, beside what a person saw."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from oscope.figures import plots
from oscope.figures.plots import Bars
from oscope.model.document import Section, Table
from oscope.model.formatting import format_count

_NEW_LINE = "\r\n"


def section(title: str, result: Mapping[str, Any]) -> Section:
    """Show the recording line by line: all that it holds as escapes, and what is left."""
    recorded, cleaned = result["recorded"], result["cleaned"]
    raw, seen = recorded.removesuffix(_NEW_LINE).split(_NEW_LINE), cleaned.splitlines()
    pairs = zip_longest(raw, seen, fillvalue="")
    rows = [[str(number), escaped(sent), shown] for number, (sent, shown) in enumerate(pairs, 1)]
    controls = sum(not character.isprintable() for character in recorded.replace(_NEW_LINE, ""))
    sent_characters, seen_characters = sum(map(len, raw)), sum(map(len, seen))
    answer = (
        f"Of the {format_count(sent_characters)} characters that the terminal was sent, a person saw "
        f"{format_count(seen_characters)}. {format_count(controls)} are control characters: of corrections, "
        "colours, a title and a progress bar. `oscope session clean` leaves what they led to."
    )
    if "\x1b" in cleaned or "\b" in cleaned:
        answer = "The cleaned text still holds control characters: that is a bug in Oscope."
    return Section(
        title=title,
        answer=answer,
        text=[f"The session is of `{' '.join(result['command'])}`, typed and recorded for this report."],
        tables=[
            Table("The recording and the text", ["line", "what the terminal was sent", "what was seen"], rows)
        ],
        figures=[
            plots.bars(
                "Characters sent and seen, line by line",
                plots.axis("characters"),
                [f"line {row[0]}" for row in rows],
                [
                    Bars("sent", [float(len(sent)) for sent in [*raw, *[""] * (len(rows) - len(raw))]]),
                    Bars("seen", [float(len(shown)) for shown in [*seen, *[""] * (len(rows) - len(seen))]]),
                ],
                "The ends of lines are not counted, here and above.",
            )
        ],
    )


def escaped(text: str) -> str:
    """Return `text` with what cannot be seen as Python writes it."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
