"""Answers that are imported when they are asked for: a list of names needs no statistics."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oscope.model.document import Section
    from oscope.model.samples import Results


def late(lab: str, *modules: str) -> Callable[[Results], list[Section]]:
    """Return what answers a lab's questions: those of `modules`, in this order.

    A module is one of the lab's folder, or one of another lab, as `disk.sweep`. Its `section` answers one
    question: a `Question`, or a function of results that returns a section, or None where nothing was run.
    Its `sections`, if it has them, answer several.
    """

    def answers(results: Results) -> list[Section]:
        analysed = import_module("oscope.figures.analysed").Analysed.of(results)
        found: list[Section] = []
        for name in modules:
            module = import_module(f"oscope.labs.{name if '.' in name else f'{lab}.{name}'}")
            several = getattr(module, "sections", None)
            made = several(analysed) if several is not None else [module.section(analysed)]
            found += [section for section in made if section is not None]
        return found

    return answers
