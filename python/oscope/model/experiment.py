"""What a lab is made of: experiments, inspections, and the answers drawn from them. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oscope.model.clocks import Clock
from oscope.model.factors import Level, Profile
from oscope.model.program import Program

if TYPE_CHECKING:
    from oscope.model.document import Section
    from oscope.model.samples import Results


@dataclass(frozen=True)
class Design:
    """How much is measured under one profile.

    `factors` maps a workload parameter to its levels; the points are their product. `reps` is the number of
    samples of each point, spread evenly over `blocks` fresh probe processes.
    """

    factors: Mapping[str, tuple[Level, ...]]
    reps: int
    blocks: int
    min_time_ns: int = 1_000_000
    omit: Callable[[Mapping[str, Level]], bool] | None = field(default=None, compare=False)
    """Points left out to save time; none where levels of a factor that varies were set by hand."""

    @classmethod
    def of(
        cls,
        reps: int,
        blocks: int,
        *,
        min_time_ns: int = 1_000_000,
        omit: Callable[[Mapping[str, Level]], bool] | None = None,
        **levels: tuple[Level, ...] | Level,
    ) -> Design:
        """Return the design of so many samples and blocks of each combination of these levels.

        A factor with one level may be given that level alone.
        """
        return cls(_tuples(levels), reps, blocks, min_time_ns, omit)

    def replace(
        self,
        reps: int | None = None,
        blocks: int | None = None,
        *,
        min_time_ns: int | None = None,
        omit: Callable[[Mapping[str, Level]], bool] | None = None,
        **levels: tuple[Level, ...] | Level,
    ) -> Design:
        """Return this design with other levels of some factors and other counts; what is not given stays.

        Raises:
            ValueError: the design has no factor of that name.

        """
        if unknown := levels.keys() - self.factors.keys():
            raise ValueError(f"the design has no factor {', '.join(sorted(unknown))}")
        return Design(
            factors={**self.factors, **_tuples(levels)},
            reps=self.reps if reps is None else reps,
            blocks=self.blocks if blocks is None else blocks,
            min_time_ns=self.min_time_ns if min_time_ns is None else min_time_ns,
            omit=self.omit if omit is None else omit,
        )


def _tuples(levels: Mapping[str, tuple[Level, ...] | Level]) -> dict[str, tuple[Level, ...]]:
    return {name: each if isinstance(each, tuple) else (each,) for name, each in levels.items()}


@dataclass(frozen=True)
class GuestSpec:
    """The guest in which an experiment is measured, unless `--on` says otherwise."""

    kernel: str = "base"
    """As after `--on guest:`."""
    clock: Clock = "instructions"
    cpus: int | None = None
    """None: as many as the clock has by default."""
    memory_bytes: int = 1 << 30


@dataclass(frozen=True)
class Experiment:
    """A workload with factors, under a name that scripts rely on."""

    name: str
    workload: str
    title: str
    question: str
    full: Design
    quick: Design | None
    """None: not in the quick survey; `quick_share` says why."""
    quick_share: str
    """Its share of the quick profile's time, or why it is not in it."""
    metrics: tuple[str, ...]
    """Metrics shown first, the headline one in front."""
    exclude: Callable[[Mapping[str, Level]], bool] | None = field(default=None, compare=False)
    """Points of the product that make no sense."""
    least: Mapping[str, int] = field(default_factory=dict)
    """Lowest levels of factors of which the workload takes lower ones, such as 0 for its own choice."""
    guest: GuestSpec | None = None
    """None: this machine."""
    program: Program | None = None
    """The user's own program that measures it; None: the probe."""

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        question: str,
        full: Design,
        *,
        quick_share: str,
        metrics: tuple[str, ...],
        quick: Callable[[Design], Design] | None = None,
        workload: str = "",
        **more: Any,
    ) -> Experiment:
        """Return the experiment `name`, of the workload of that name where none is given.

        `quick` makes the design of the quick survey out of the full one.
        """
        few = None if quick is None else quick(full)
        return cls(name, workload or name, title, question, full, few, quick_share, metrics, **more)

    def design(self, profile: Profile) -> Design:
        """Return the design for `profile`; the full one where quick has none."""
        return self.quick if profile == "quick" and self.quick is not None else self.full


@dataclass(frozen=True)
class Inspection:
    """What is looked at once and gives an object, not samples; under a name that scripts rely on."""

    name: str
    """Of no experiment and no other inspection."""
    title: str
    question: str
    inspect: Callable[[Profile], Mapping[str, Any]] = field(compare=False)
    """Looks at it here and now, and returns a JSON object. OscopeError where that cannot be here.

    The object goes into reports that may be shared: it has no link-layer address in full, no environment
    variable, and of the processes of others only the names. A KeyboardInterrupt may come at any time.
    """
    quick: bool
    """Whether it is in the quick survey."""
    quick_share: str
    """How long it takes there, or why it is not in it."""


@dataclass(frozen=True)
class Lab:
    """The experiments, inspections, questions, tables and figures of one document."""

    name: str
    title: str
    document: str
    """Which of the laboratory reports it reproduces, in a line."""
    experiments: tuple[Experiment, ...]
    sections: Callable[[Results], list[Section]]
    """Answers drawn from the results: what was found, each with its figure and table."""
    inspections: tuple[Inspection, ...] = ()
    notebook: str | None = None
    clocks: tuple[Clock, ...] = ("wall",)
    """Clocks whose figures the sections can take; experiments measured by another are kept from them."""

    @property
    def parts(self) -> tuple[Experiment | Inspection, ...]:
        """All experiments, then all inspections."""
        return (*self.experiments, *self.inspections)
