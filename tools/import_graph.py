"""Draws which packages of Oscope import which, as a Mermaid flow chart, into docs/architecture.md.

    python tools/import_graph.py [--check]

With --check nothing is written, and the exit code is 1 where the page has another chart. An arrow points from
a package to one that imports it, so that data flow from left to right; an arrow that a longer path implies is
left out. import-linter keeps the order (`make lint`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- import graph: python tools/import_graph.py -->\n"
END = "<!-- end of the import graph -->\n"

Graph = Mapping[str, frozenset[str]]
"""The packages that each package imports."""


def packages() -> Graph:
    """Return what each package below oscope imports directly of the others."""
    graph = grimp.build_graph("oscope", cache_dir=None)
    names = sorted(graph.find_children("oscope"))
    for name in names:
        graph.squash_module(name)
    return {
        name.removeprefix("oscope."): frozenset(
            each.removeprefix("oscope.")
            for each in graph.find_modules_directly_imported_by(name)
            if each in names and each != name
        )
        for name in names
    }


def reduced(graph: Graph) -> Graph:
    """Return the graph without the arrows that a longer path implies (its transitive reduction)."""

    def reachable(name: str) -> frozenset[str]:
        return graph[name].union(*(reachable(each) for each in graph[name]))

    return {
        name: frozenset(
            each
            for each in imported
            if not any(each in reachable(other) for other in imported if other != each)
        )
        for name, imported in graph.items()
    }


def chart(graph: Graph) -> str:
    """Return the flow chart as a block of Markdown."""
    lines = ["flowchart LR"]
    for name, imported in sorted(reduced(graph).items()):
        lines += [f"    {each} --> {name}" for each in sorted(imported)]
    return "\n".join(["```mermaid", *lines, "```", ""])


def main(words: Sequence[str] | None = None) -> int:
    """Write the chart into the page; return 1 where --check finds another one there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page has the chart")
    check = parser.parse_args(words).check
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}{chart(packages())}{END}{after}"
    if check and text != PAGE.read_text():
        print(
            "import_graph: docs/architecture.md has another chart: python tools/import_graph.py",
            file=sys.stderr,
        )
        return 1
    if not check:
        PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
