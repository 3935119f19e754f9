"""The layout of the Rust sources that rustfmt leaves alone: comments, texts and macros."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
COLUMNS = 120


def test_no_line_of_the_rust_sources_is_too_long() -> None:
    sources = [file for folder in ("crates", "kits") for file in (ROOT / folder).glob("*/**/*.rs")]
    assert len(sources) > 100
    long = [
        f"{file.relative_to(ROOT)}:{number}: {len(line)} columns"
        for file in sources
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert long == []
