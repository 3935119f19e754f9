"""The lab's answers: a section for each inspection that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oscope.labs import inspection_sections
from oscope.labs.tools import devices, dhcp, explain, interfaces, session
from oscope.model.document import Section
from oscope.model.samples import Results

_SECTIONS: Mapping[str, Callable[[str, Mapping[str, Any]], Section]] = {
    "tools.session": session.section,
    "tools.explain": explain.section,
    "tools.devices": devices.section,
    "tools.interfaces": interfaces.section,
    "tools.dhcp": dhcp.section,
}


def sections(results: Results) -> list[Section]:
    """Return the lab's answers; where one could not be looked at, why, and what would mend it."""
    return inspection_sections.sections(results, _SECTIONS)
