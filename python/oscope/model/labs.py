"""Labs in which experiments and inspections are looked up by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment, Inspection, Lab


@dataclass(frozen=True)
class Labs:
    """The labs in which names are looked up."""

    all: tuple[Lab, ...]

    @property
    def names(self) -> frozenset[str]:
        """Names of the labs, their experiments and their inspections."""
        return frozenset(
            (*(each.name for each in self.all), *(p.name for each in self.all for p in each.parts))
        )

    def lab(self, name: str) -> Lab:
        """Return the lab called `name`. Raises UsageError, with the nearest name, where there is none."""
        known = {each.name: each for each in self.all}
        if name in known:
            return known[name]
        raise UsageError(f"there is no lab {name!r}", remedy=nearest_name(name, known))

    def experiment(self, name: str) -> Experiment:
        """Return the experiment called `name`. Raises UsageError as `named` does."""
        found = self.named(name)
        if isinstance(found, Inspection):
            raise UsageError(f"{name} is an inspection and has no samples", remedy=f"oscope run {name}")
        return found

    def inspection(self, name: str) -> Inspection:
        """Return the inspection called `name`. Raises UsageError as `named` does."""
        found = self.named(name)
        if isinstance(found, Experiment):
            raise UsageError(f"{name} is an experiment and no inspection", remedy=f"oscope run {name}")
        return found

    def named(self, name: str) -> Experiment | Inspection:
        """Return the experiment or inspection called `name`.

        Raises UsageError, which gives the nearest name, of a lab too, where there is none.
        """
        known = {each.name: each for one in self.all for each in one.parts}
        if name in known:
            return known[name]
        raise UsageError(f"there is no experiment {name!r}", remedy=nearest_name(name, self.names))


def nearest_name(name: str, known: Iterable[str], others: str | None = None) -> str:
    """Return a remedy: the nearest of `known`; where none is near, `others`, or the labs among them."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    if others is not None:
        return others
    # The name of an experiment has a dot.
    return f"the labs are {', '.join(each for each in names if '.' not in each)} (see oscope list)"
