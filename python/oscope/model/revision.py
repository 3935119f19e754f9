"""Revisions of a repository that a run measured: a plain value, kept in its plan and in its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

FACTOR = "revision"
"""The factor whose levels are the commits, by their first `DIGITS` digits."""
DIGITS = 12


@dataclass(frozen=True)
class Revision:
    """A commit, and what the user called it."""

    commit: str
    """All digits of its id."""
    subject: str
    """First line of its message."""
    name: str
    """As the user wrote it, such as v1.1; a commit that a bisection chose has its short id."""

    @property
    def short(self) -> str:
        """The first digits of its id: its level of the factor, and the name of its worktree."""
        return self.commit[:DIGITS]

    @property
    def label(self) -> str:
        """How a sentence names it: as the user wrote it, with the id where that is another text."""
        return self.short if self.commit.startswith(self.name) else f"{self.name} ({self.short})"

    def __str__(self) -> str:
        """Label and subject, for a note."""
        return f"{self.label}: {self.subject}"


@dataclass(frozen=True)
class Revisions:
    """The commits that the points of a bench measure, and how each was built."""

    repository: str
    """Its folder: the top of the checkout, or the repository itself where it is bare."""
    prefix: str
    """Where in it the build and the commands run: empty, or a relative path that ends with a slash."""
    folder: str
    """Oscope's own folder, with a worktree for each commit. It is gone once the run has ended."""
    build: str | None
    """The command line that builds a commit; None: nothing is built."""
    build_shell: str | None
    """The shell that it is given to; None: it is executed without one."""
    environment: tuple[str, ...]
    """NAME=VALUE, for the build."""
    sides: tuple[Revision, ...]
    span: tuple[str, str] | None = None
    """The ends of the bisection that the run is a step of."""
    earlier: tuple[str, ...] = ()
    """The runs of that bisection that came before, the first one of its ends alone."""

    def of(self, levels: Mapping[str, Any]) -> Revision | None:
        """Return the revision that a point with these levels measured; None where there is none."""
        return next((side for side in self.sides if side.short == levels.get(FACTOR)), None)

    def step(self, sides: tuple[Revision, ...], span: tuple[str, str], earlier: tuple[str, ...]) -> Revisions:
        """Return the same for another step of a bisection."""
        return replace(self, sides=sides, span=span, earlier=earlier)

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object from which `from_object` makes an equal value."""
        return {
            "repository": self.repository,
            "prefix": self.prefix,
            "folder": self.folder,
            "build": self.build,
            "build_shell": self.build_shell,
            "environment": list(self.environment),
            "sides": [vars(side) for side in self.sides],
            "span": None if self.span is None else list(self.span),
            "earlier": list(self.earlier),
        }

    @classmethod
    def from_object(cls, data: Mapping[str, Any]) -> Revisions:
        """Read what `to_object` returned."""
        span = data["span"]
        return cls(
            data["repository"],
            data["prefix"],
            data["folder"],
            data["build"],
            data["build_shell"],
            tuple(data["environment"]),
            tuple(Revision(**side) for side in data["sides"]),
            None if span is None else (span[0], span[1]),
            tuple(data["earlier"]),
        )
