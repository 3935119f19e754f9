"""A document's steps, drawn from a run: the same tables, figures and questions in the document's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from oscope import labs
from oscope.assignments import draw_disk, draw_ipc, draw_memory, draw_syscall, draw_transfer
from oscope.assignments.model import Answer, Document, Step
from oscope.figures.analysed import Analysed
from oscope.model.document import Section
from oscope.model.experiment import Lab
from oscope.model.samples import Results

Draw = Callable[[Analysed], Section | None]

DRAWN: Mapping[str, Mapping[str, Draw]] = {
    "memory": draw_memory.DRAWN,
    "syscall": draw_syscall.DRAWN,
    "disk": draw_disk.DRAWN,
    "transfer": draw_transfer.DRAWN,
    "ipc": draw_ipc.DRAWN,
}
"""By document and step: what draws the step's tables and figures."""


def as_lab(document: Document) -> Lab:
    """Return the document as a lab, whose answers are its steps: the report and its figures take labs."""
    return Lab(
        name=f"assignment-{document.key}",
        title=f"{document.name[0].upper()}{document.name[1:]}",
        document=f"“{document.title}”: {document.about[0].lower()}{document.about[1:].rstrip('.')}",
        experiments=document.experiments,
        inspections=document.inspections,
        sections=lambda results: sections(document, results),
        clocks=("wall", "instructions"),
    )


def sections(document: Document, results: Results) -> list[Section]:
    """Return a section for each step of the document, in its order."""
    analysed = Analysed.of(results)
    answered = _Answered(analysed)
    return [_section(document, step, analysed, answered) for step in document.steps]


class _Answered:
    """The sections of labs, each lab asked once."""

    def __init__(self, results: Analysed) -> None:
        self.results = results
        self._found: dict[str, Mapping[str, Section]] = {}
        self._printed: set[str] = set()

    def section(self, answer: Answer) -> Section | None:
        """Return a section of a lab; None where the run has nothing for it."""
        if answer.lab not in self._found:
            known = labs.lab(answer.lab)
            clocked = tuple(each for each in self.results.experiments if each.clock in known.clocks)
            kept = replace(self.results, experiments=clocked)
            self._found[answer.lab] = {section.title: section for section in known.sections(kept)}
        return self._found[answer.lab].get(answer.title)

    def once(self, section: Section) -> str:
        """Return the sentence of a section the first time it is asked for, else nothing."""
        repeated = section.title in self._printed
        self._printed.add(section.title)
        return "" if repeated else section.answer


def _section(document: Document, step: Step, results: Analysed, answered: _Answered) -> Section:
    draw = DRAWN[document.key].get(step.key)
    own = (draw(results) if draw is not None else None) or Section("", "")
    found = [each for answer in step.answers if (each := answered.section(answer)) is not None]
    if step.brief:
        own = replace(own, answer=" ".join(each.answer for each in found))
    elif draw is None or step.kind == "question":
        own = _joined(own, found)
    elif not own.answer:
        own = replace(own, answer=" ".join(answered.once(each) for each in found))
    empty = not own.answer and not own.tables and not own.figures
    missing = own.missing or (_not_measured(document, step) if step.measured and empty else "")
    return replace(
        own,
        title=title(step),
        text=[*own.text, *_notes(step)],
        missing=missing,
    )


def title(step: Step) -> str:
    """Return the heading of a step; a heading has no code."""
    return f"{step.where}: {step.title}".replace("`", "")


def _joined(own: Section, found: Sequence[Section]) -> Section:
    """Return what the assignment draws itself, followed by a lab's whole answers."""
    every = [own, *found]
    return Section(
        title="",
        answer=" ".join(each.answer for each in every if each.answer),
        text=[text for each in every for text in each.text],
        tables=[table for each in every for table in each.tables],
        figures=[figure for each in every for figure in each.figures],
        missing=" ".join(dict.fromkeys(each.missing for each in every if each.missing)),
    )


def _notes(step: Step) -> list[str]:
    sentences = [step.note] if step.note else []
    if step.commands:
        word = "Command" if len(step.commands) == 1 else "Commands"
        sentences.append(f"{word}: {'; '.join(f'`oscope {command}`' for command in step.commands)}.")
    return sentences


def _not_measured(document: Document, step: Step) -> str:
    names = " and ".join(step.measured)
    return step.fix or f"This run has nothing of {names}: `{document.command}` measures it."
