"""Answers and inspections that are imported when they are asked for: a list of names needs no statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from oscope.model.document import Section

if TYPE_CHECKING:
    from oscope.figures.analysed import Analysed
    from oscope.model.factors import Profile
    from oscope.model.samples import Results


def _load(module: str) -> Any:
    return import_module(module)  # late import: `oscope list` needs neither numpy nor figures


class Lazy:
    """Answers a lab's questions by modules that are imported when it is asked, in this order.

    A module is one of the lab's `package`, or one of another lab, as `disk.sweep`. Its `section` answers one
    question: a `Question`, or a function of results that returns a section, or None where nothing was run.
    Its `sections`, if it has them, are several; `calls:INSIDE` is one of them by its name.
    """

    def __init__(self, package: str, *modules: str) -> None:
        self.package, self.modules = package, modules

    def __call__(self, results: Results) -> list[Section]:
        """Return the sections of all modules, in their order."""
        analysed = _analysed(results)
        made = (ask(analysed) for ask in self._asked())
        return [section for section in made if section is not None]

    def answers(self, results: Results) -> Iterator[str]:
        """Yield the answers of the same sections, each made when it is asked for.

        The answer of a `Question` does not wait for the section's text, tables and figures.
        """
        analysed = _analysed(results)
        for ask in self._asked():
            if hasattr(ask, "answer"):
                yield ask.answer(analysed)
            elif (section := ask(analysed)) is not None:
                yield section.answer

    def _asked(self) -> Iterator[Any]:
        """Yield the `Question` or function of each section."""
        for asked in self.modules:
            name, _, which = asked.partition(":")
            package = self.package.rpartition(".")[0] if "." in name else self.package
            module = _load(f"{package}.{name}")
            if which:
                yield getattr(module, which)
            else:
                yield from getattr(module, "sections", None) or (module.section,)


def _analysed(results: Results) -> Analysed:
    found: Analysed = _load("oscope.figures.analysed").Analysed.of(results)
    return found


def lazy_inspection(module: str, name: str, **given: Any) -> Callable[[Profile], Mapping[str, Any]]:
    """Return what carries out an inspection: a function of a module of `oscope`, with what is given."""

    def inspect(profile: Profile) -> Mapping[str, Any]:
        found: Mapping[str, Any] = getattr(_load(f"oscope.{module}"), name)(profile, **given)
        return found

    return inspect


def lazy_inspected(package: str, **modules: str) -> Callable[[Results], list[Section]]:
    """Return what draws a lab's inspections: for each, `LAB.NAME`, the module whose `section` does.

    `shown:devices` is another function of a module. It takes the title and the result. Where there is no
    result, the section has the reason and how to fix it.
    """
    lab = package.rpartition(".")[2]

    def answers(results: Results) -> list[Section]:
        found: list[Section] = []
        for name, module in modules.items():
            inspected = results.inspected(f"{lab}.{name}")
            if inspected is not None and inspected.result is not None:
                file, _, which = module.partition(":")
                make = getattr(_load(f"{package}.{file}"), which or "section")
                found.append(make(inspected.title, inspected.result))
            elif inspected is not None:
                missing = ": ".join(filter(None, [inspected.skipped, inspected.remedy]))
                found.append(Section(inspected.title, "", missing=missing))
        return found

    return answers
