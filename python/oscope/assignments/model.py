"""What one of the original documents is made of: its steps, and the experiments that repeat its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oscope.model.experiment import Experiment, Inspection

Kind = Literal["step", "table", "figure", "question"]


@dataclass(frozen=True)
class Answer:
    """A section of a lab's answers, by the lab's name and the section's title."""

    lab: str
    title: str


@dataclass(frozen=True)
class Step:
    """One step, table, figure or question of a document, and what does the same in Oscope."""

    key: str
    """Unique within its document, such as `cold`."""
    kind: Kind
    where: str
    """Its place in the document, such as `Part 4` or `Figure 2`."""
    title: str
    """What it asks for or shows, in a few words."""
    commands: tuple[str, ...] = ()
    """Command lines of `oscope` that do the same by themselves, without the word `oscope`."""
    measured: tuple[str, ...] = ()
    """Experiments and inspections that its figures come from."""
    answers: tuple[Answer, ...] = ()
    """Sections of the report that answer it. Those of a question are its answer in the assignment, too."""
    brief: bool = False
    """Whether the assignment takes only the sentence of these sections: an earlier step has their tables."""
    note: str = ""
    """What is different here, in a sentence."""
    fix: str = ""
    """How to get its figures where the run has none of them."""


@dataclass(frozen=True)
class Document:
    """One of the five documents."""

    key: str
    """The word by which `oscope assignment` knows it."""
    name: str
    """By which other texts cite it, such as `Cambridge L41 lab 2`."""
    title: str
    """As the document has it."""
    about: str
    """What it is, in two or three sentences."""
    machine: str
    """What its own figures were measured on."""
    steps: tuple[Step, ...]
    """In the order of the document."""
    experiments: tuple[Experiment, ...]
    """Those of the labs, with the levels that the document has. Names are the labs' own."""
    inspections: tuple[Inspection, ...] = ()
    quick_sizes: str = ""
    """How the quick profile differs from the document's sizes, in a sentence."""

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        return f"oscope assignment {self.key}"

    @property
    def names(self) -> Sequence[str]:
        """Names of all experiments and inspections."""
        return [*(each.name for each in self.experiments), *(each.name for each in self.inspections)]
