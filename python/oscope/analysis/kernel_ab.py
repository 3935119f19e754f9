"""Two kernels, one measurement: what a patch changes, apart from what chance and mere layout do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from oscope.model.clocks import Clock
from oscope.model.errors import OscopeError, UsageError
from oscope.model.experiment import Experiment
from oscope.model.factors import Level, Profile
from oscope.model.samples import ExperimentResults, PointSamples, Results
from oscope.planning.plan import Plan, check_seed, draw_seed, make_plan
from oscope.probe import catalogue
from oscope.statistics import ComparedMetric, Comparison, compare_results
from oscope.statistics.layout import LayoutVerdict, judge_layout
from oscope.statistics.machines import KERNEL
from oscope.storage.record import to_record
from oscope.targets.guest.spec import Where, make_guest
from oscope.targets.kernel import build, recipe
from oscope.targets.kernel.kernel import Kernel
from oscope.targets.kernel.listener import Listener
from oscope.targets.kernel.recipe import Recipe

SCHEMA = "oscope.ab/1"
BOOTS = 5
"""Fewer boots a side give no verdict."""
EXACT_REPS = 5
"""Samples of a point in a boot where each repeats the other to the instruction."""

Role = Literal["base", "patched", "padded"]


@dataclass(frozen=True)
class Side:
    """One of the kernels, and what it is there for."""

    role: Role
    """padded: the unpatched source with another layout of its code."""
    kernel: Kernel


@dataclass(frozen=True)
class Amount:
    """How much is measured on each side."""

    profile: Profile = "quick"
    boots: int = BOOTS
    reps: int | None = None
    """Samples of each point in a boot; None: what the experiment's design has in all, shared out."""
    seed: int | None = None

    def check(self) -> None:
        """Raise UsageError where nothing could be concluded from it."""
        if self.seed is not None:
            check_seed(self.seed)
        if self.boots < BOOTS:
            raise UsageError(
                f"{self.boots} boots a side give no verdict", remedy=f"give --boots {BOOTS} or more"
            )
        if self.reps is not None and self.reps < 1:
            raise UsageError(f"--reps {self.reps} measures nothing", remedy="give 1 or more")


@dataclass(frozen=True)
class KernelVerdict:
    """What came out for one experiment."""

    base: ExperimentResults
    comparison: Comparison
    """The patched kernel against the base."""
    padded: Comparison | None
    """The padded kernel against the base; None by the instructions clock, which sees no layout."""

    def layout(self) -> Iterator[LayoutVerdict | None]:
        """Yield for each row of the comparison what its difference is put down to; None where unknown."""
        others = {} if self.padded is None else {_row_key(row): row for row in self.padded.rows}
        for row in self.comparison.rows:
            other = others.get(_row_key(row))
            yield None if other is None else judge_layout(row, other)


def make_sides(patches: Sequence[str], clock: Clock, listener: Listener) -> tuple[Side, ...]:
    """Build, where they are not yet, the kernels to be compared. `patches` are names or files."""
    if not patches:
        raise UsageError("no patch to compare", remedy="name one with --patch")
    base = recipe.make()
    recipes: dict[Role, Recipe] = {"base": base, "patched": recipe.make(patches)}
    if clock == "wall":
        recipes["padded"] = base.padded()
    return tuple(Side(role, build.build(made, listener)) for role, made in recipes.items())


def make_plans(
    experiments: Sequence[Experiment],
    kernels: Sequence[str],
    where: Where,
    amount: Amount,
    settings: Mapping[str, Sequence[Level]],
) -> tuple[Plan, ...]:
    """Plan the same measurement under each of the kernels, given by their ids, a boot a block.

    Raises UsageError for a request that cannot be, which no id is needed to tell.
    """
    amount.check()
    seed = draw_seed() if amount.seed is None else amount.seed
    return tuple(
        _plan(experiments, kernel, where, replace(amount, seed=seed), settings) for kernel in kernels
    )


def _plan(
    experiments: Sequence[Experiment],
    kernel: str,
    where: Where,
    amount: Amount,
    settings: Mapping[str, Sequence[Level]],
) -> Plan:
    plan = make_plan(
        experiments,
        catalogue.load(),
        profile=amount.profile,
        settings=settings,
        seed=amount.seed,
        guests={
            experiment.name: make_guest(kernel, where.clock or "instructions", where, experiment.guest)
            for experiment in experiments
        },
    )
    planned = []
    for experiment in plan.experiments:
        exact = experiment.guest is not None and experiment.guest.clock == "instructions"
        each = amount.reps or (EXACT_REPS if exact else max(1, experiment.reps // amount.boots))
        planned.append(replace(experiment, reps=each * amount.boots, blocks=amount.boots))
    return replace(plan, experiments=tuple(planned))


def judge(results: Sequence[Results], threshold: float) -> tuple[list[KernelVerdict], dict[str, str]]:
    """Compare the sides, given in the order of `make_sides`, in each experiment that was measured on all.

    Return the verdicts, and for each experiment that has none, why.
    """
    found: list[KernelVerdict] = []
    missed: dict[str, str] = {}
    for number, base in enumerate(results[0].experiments):
        others = [side.experiments[number] for side in results[1:]]
        try:
            comparisons = [_compare(base, other, threshold) for other in others]
        except OscopeError as error:
            skips = (point.skipped for side in (base, *others) for point in side.points)
            missed[base.experiment] = next(filter(None, skips), str(error))
            continue
        found.append(KernelVerdict(base, comparisons[0], comparisons[1] if len(comparisons) > 1 else None))
    return found, missed


def _compare(base: ExperimentResults, other: ExperimentResults, threshold: float) -> Comparison:
    comparison = compare_results(base, other, threshold=threshold, allow=(KERNEL,))
    unlike = [
        ", ".join(f"{name}={level}" for name, level in point.factors.items()) or base.experiment
        for point in base.points
        if _loops(point) != _loops(other.point(**point.factors))
    ]
    if not unlike:
        return comparison
    caveat = (
        "the kernels ran other numbers of iterations a sample, and share what a sample costs once among as "
        f"many: {'; '.join(unlike)}"
    )
    return replace(comparison, caveats=(*comparison.caveats, caveat))


def _loops(point: PointSamples | None) -> set[int]:
    return set() if point is None else set(point.iterations.tolist())


def to_object(
    sides: Sequence[Side],
    results: Sequence[Results],
    verdicts: Sequence[KernelVerdict],
    missed: Mapping[str, str],
) -> dict[str, Any]:
    """Return all of it as an object for JSON (`oscope.ab/1`), with the records of all sides."""
    return {
        "schema": SCHEMA,
        "sides": [
            {"role": side.role, "kernel": side.kernel.describe(), "run": result.experiments[0].run_id}
            for side, result in zip(sides, results, strict=True)
        ],
        "verdicts": [
            {
                "experiment": verdict.base.experiment,
                **asdict(row),
                "layout": None if layout is None else asdict(layout),
            }
            for verdict in verdicts
            for row, layout in zip(verdict.comparison.rows, verdict.layout(), strict=True)
        ],
        "tails": [
            {"experiment": verdict.base.experiment, **asdict(tail)}
            for verdict in verdicts
            for tail in verdict.comparison.tails
            if tail.different
        ],
        "without_verdict": [{"experiment": name, "reason": reason} for name, reason in missed.items()],
        "caveats": [caveat for verdict in verdicts for caveat in verdict.comparison.caveats],
        "records": [to_record(experiment) for result in results for experiment in result.experiments],
    }


def _row_key(row: ComparedMetric) -> tuple[str, frozenset[tuple[str, Level]]]:
    return row.metric, frozenset(row.factors.items())
