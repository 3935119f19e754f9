"""The answers of labs that look: a section for each inspection that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oscope.model.document import Section
from oscope.model.samples import Results


def sections(
    results: Results, makers: Mapping[str, Callable[[str, Mapping[str, Any]], Section]]
) -> list[Section]:
    """Return what `makers` draw of the inspections by their names, from title and result.

    Where one could not be looked at, why, and what would mend it.
    """
    found = []
    for name, make in makers.items():
        inspected = results.inspected(name)
        if inspected is None:
            continue
        if inspected.result is None:
            missing = ": ".join(filter(None, [inspected.skipped, inspected.remedy]))
            found.append(Section(inspected.title, "", missing=missing))
        else:
            found.append(make(inspected.title, inspected.result))
    return found
