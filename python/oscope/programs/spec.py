"""What a bench measures, how much and how: cheap to import, as the command's own request is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oscope.planning import plan as planning
from oscope.programs.command import Command, CommandContext, Parameter
from oscope.programs.conditions import Conditions

EXPERIMENT = "command.run"
"""The name of the experiment, and of the probe's workload."""


@dataclass(frozen=True)
class Amount:
    """How much is measured. At most one of `reps` and `precision` is given."""

    reps: int | None = None
    precision: float | None = None
    budget_s: float | None = None
    warmup: int | None = 1
    """Runs before those of a block that do not count; None: as many as are found to be needed."""
    quick: bool = False

    def check(self) -> None:
        """Raise UsageError where the amounts make no sense."""
        planning.Amount(self.reps, self.precision, self.budget_s).check()


@dataclass(frozen=True)
class BenchSpec:
    """What a bench measures, and how."""

    commands: Sequence[Command]
    parameters: Sequence[Parameter] = ()
    context: CommandContext = field(default_factory=CommandContext)
    amount: Amount = field(default_factory=Amount)
    metric: str | None = None
    """What is judged; None: the time."""
    seed: int | None = None
    conditions: Conditions = field(default_factory=Conditions)
