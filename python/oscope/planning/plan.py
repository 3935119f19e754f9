"""What will be measured and how often: values from which a run can be repeated or resumed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from oscope.model.errors import UsageError
from oscope.model.experiment import Design, Experiment, Inspection
from oscope.model.factors import Factors, Level, Profile
from oscope.model.guest import Guest
from oscope.model.host import Host
from oscope.model.program import Program
from oscope.model.revision import Revisions
from oscope.planning.design_points import check_meaning, check_names, plan_points, with_tracer
from oscope.probe import instructions
from oscope.probe.catalogue import Catalogue, Covariate, Workload, nearest
from oscope.trace.factor import TRACER, UNTRACED, tracer_of

DEFAULT_BUDGET_S = 60.0
"""What a run with a precision but no budget may take."""
_MOST_PRECISION_REPS = 5
MOST_REPS = 2**32 - 1
"""Samples of a point; they would take years."""
MOST_SEED = 2**63 - 1
"""What a database's largest integer holds."""

Order = Literal["seeded", "fixed"]
"""The order of the points in a block: by the plan's seed, or the same in every run (see `schedule`)."""


@dataclass(frozen=True)
class Amount:
    """How much is measured, as asked for. At most one of `reps` and `precision` is given."""

    reps: int | None = None
    """Samples of each point; None: what the experiment's design says."""
    precision: float | None = None
    """Half-width of the headline's 95 % interval over its median, at which a point is finished."""
    budget_s: float | None = None
    """What the whole run may take."""
    spread_s: float | None = None
    """Time over which the blocks are spread, with pauses; None: they follow each other."""

    def check(self) -> None:
        """Raise UsageError where the amounts make no sense."""
        if self.reps is not None and self.reps < 1:
            raise UsageError(f"--reps {self.reps} measures nothing", remedy="give 1 or more")
        if self.reps is not None and self.reps > MOST_REPS:
            raise UsageError(f"--reps {self.reps} is out of range", remedy=f"give 1 to {MOST_REPS}")
        if self.precision is not None and not 0 < self.precision < 1:
            raise UsageError(
                f"a precision of {self.precision:g} is not between 0 and 1", remedy="write it like 2% or 0.02"
            )
        if self.budget_s is not None and not 0 < self.budget_s < float("inf"):
            raise UsageError(
                f"a budget of {self.budget_s:g} s leaves no time to measure",
                remedy="give a duration like 10s or 2m",
            )
        if self.spread_s is not None and not 0 < self.spread_s < float("inf"):
            raise UsageError(
                f"blocks cannot be spread over {self.spread_s:g} s", remedy="give a duration like 5m or 1h"
            )
        if self.spread_s is not None and self.precision is not None:
            raise UsageError(
                "--spread and --precision contradict each other: the number of blocks is not known",
                remedy="give --reps",
            )
        if self.reps is not None and self.precision is not None:
            raise UsageError("--reps and --precision contradict each other", remedy="give one of them")


@dataclass(frozen=True)
class PlannedExperiment:
    """One experiment of a plan, with all its points."""

    name: str
    title: str
    question: str
    metrics: tuple[str, ...]
    """Every metric of the workload, the headline one first."""
    points: tuple[Factors, ...]
    reps: int
    """Samples of each point; where no number of blocks is set, samples of each point in a block."""
    blocks: int | None
    """None: as many as the precision needs, or the budget allows."""
    min_time_ns: int
    workload: Workload
    """With the metrics that are stored: by the instructions clock, counts in place of times."""
    guest: Guest | None = None
    """Where it is measured; None: on this machine."""
    order: Order = "seeded"
    params: tuple[Mapping[str, Any], ...] = ()
    """What the probe is asked with at each point; none: its factors, which are parameters of the workload."""
    program: Program | None = None
    """The user's own program that measures it; None: the probe."""
    digests: tuple[str, ...] = ()
    """Of the user's own program or function at each point: equal is the same code."""
    revisions: Revisions | None = None
    """The commits that its points measure; None: it measures no revisions of a repository."""
    budget_s: float | None = None
    """Its part of the plan's budget; None: all experiments have equal parts."""

    def block_reps(self, block: int) -> int:
        """Return how many samples each point gets in `block`, counted from 0."""
        if self.blocks is None:
            return self.reps
        share, rest = divmod(self.reps, self.blocks)
        return share + (block < rest)


@dataclass(frozen=True)
class Plan:
    """A whole run, before anything is measured."""

    seed: int
    profile: Profile
    place: str
    precision: float | None
    budget_s: float | None
    experiments: tuple[PlannedExperiment, ...]
    covariates: tuple[Covariate, ...] = field(default=())
    inspections: tuple[str, ...] = ()
    """Names, in the order in which they are made, before all experiments."""
    injection: Mapping[str, Any] | None = None
    """What disturbs the run on purpose (see `oscope.runner.injection.spec`); None: nothing."""
    tuned: Mapping[str, str] = field(default_factory=dict)
    """Settings of the machine that are held meanwhile (see `oscope.runner.tuning`): name -> value."""
    again: bool = False
    """Whether points are repeated after interference (see `oscope.planning.interference`)."""
    spread_s: float | None = None
    """Time over which the blocks are spread, with pauses; None: they follow each other."""
    host: Host | None = None
    """The host that is measured; None: this machine."""
    build: str | None = None
    """The build of the probe that measures, as the user wrote it; None: the usual probe."""

    @property
    def total(self) -> int | None:
        """Number of samples, or None where a precision or the time decides."""
        if self.precision is not None or any(e.blocks is None for e in self.experiments):
            return None
        return sum(e.reps * len(e.points) for e in self.experiments)

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object from which `from_object` makes an equal plan."""
        return {
            "seed": self.seed,
            "profile": self.profile,
            "place": self.place,
            "precision": self.precision,
            "budget_s": self.budget_s,
            "experiments": [
                {
                    "name": e.name,
                    "title": e.title,
                    "question": e.question,
                    "metrics": list(e.metrics),
                    "points": [dict(p) for p in e.points],
                    "reps": e.reps,
                    "blocks": e.blocks,
                    "min_time_ns": e.min_time_ns,
                    "workload": e.workload.to_object(),
                    "guest": None if e.guest is None else e.guest.to_object(),
                    **({} if e.order == "seeded" else {"order": e.order}),
                    **({"params": [dict(p) for p in e.params]} if e.params else {}),
                    **({"digests": list(e.digests)} if e.digests else {}),
                    **({} if e.program is None else {"program": e.program.to_object()}),
                    **({} if e.revisions is None else {"revisions": e.revisions.to_object()}),
                    **({} if e.budget_s is None else {"budget_s": e.budget_s}),
                }
                for e in self.experiments
            ],
            "covariates": [{"name": c.name, "unit": c.unit, "doc": c.doc} for c in self.covariates],
            "inspections": list(self.inspections),
            **({} if self.injection is None else {"injection": dict(self.injection)}),
            **({"tuned": dict(self.tuned)} if self.tuned else {}),
            **({"again": True} if self.again else {}),
            **({} if self.spread_s is None else {"spread_s": self.spread_s}),
            **({} if self.host is None else {"host": self.host.to_object()}),
            **({} if self.build is None else {"build": self.build}),
        }

    @classmethod
    def from_object(cls, data: Mapping[str, Any]) -> Plan:
        """Read what `to_object` returned, also of a run that is older than some of its fields."""
        experiments = tuple(
            PlannedExperiment(
                name=e["name"],
                title=e["title"],
                question=e["question"],
                metrics=tuple(e["metrics"]),
                points=tuple(e["points"]),
                reps=e["reps"],
                blocks=e["blocks"],
                min_time_ns=e["min_time_ns"],
                workload=Workload.from_object(e["workload"]),
                guest=Guest.from_object(e["guest"]) if e.get("guest") else None,
                order=e.get("order", "seeded"),
                params=tuple(e.get("params", ())),
                digests=tuple(e.get("digests", ())),
                program=Program.from_object(e["program"]) if e.get("program") else None,
                revisions=Revisions.from_object(e["revisions"]) if e.get("revisions") else None,
                budget_s=e.get("budget_s"),
            )
            for e in data["experiments"]
        )
        return cls(
            data["seed"],
            data["profile"],
            data["place"],
            data["precision"],
            data["budget_s"],
            experiments,
            tuple(Covariate(**c) for c in data["covariates"]),
            tuple(data.get("inspections", ())),
            data.get("injection"),
            data.get("tuned", {}),
            data.get("again", False),
            data.get("spread_s"),
            Host.from_object(data["host"]) if data.get("host") else None,
            data.get("build"),
        )


def make_plan(
    experiments: Sequence[Experiment],
    catalogue: Catalogue,
    *,
    profile: Profile = "full",
    settings: Mapping[str, Sequence[Level]] | None = None,
    amount: Amount | None = None,
    trace: str | None = None,
    seed: int | None = None,
    guests: Mapping[str, Guest] | None = None,
    inspections: Sequence[Inspection] = (),
) -> Plan:
    """Plan a run of `experiments` and `inspections`.

    `settings` gives a parameter the levels it shall have, as values or as typed, in every experiment whose
    workload has it. `trace` is the tracer under which every experiment is measured as well as without.
    `seed` decides every order; None draws one. `guests` gives the guest for experiments, by name, that are
    not measured on this machine. Raises UsageError for an amount, parameter or level that cannot be.
    """
    amount = amount or Amount()
    amount.check()
    settings = dict(settings or {})
    if not experiments:
        _check_unmeasured(settings, amount, trace)
    if trace is not None:
        settings[TRACER.name] = _traced(settings, amount, trace)
    workloads = {
        e.name: with_tracer(e.design(profile), catalogue.workload(e.workload, e.program), settings)
        for e in experiments
    }
    check_names(settings, workloads.values())
    guests = guests or {}
    check_meaning(settings, experiments, workloads, profile)
    planned = tuple(
        _in_guest(
            _plan_experiment(e, workloads[e.name], e.design(profile), settings, amount), e, guests.get(e.name)
        )
        for e in experiments
    )
    return Plan(
        seed=draw_seed() if seed is None else check_seed(seed),
        profile=profile,
        place=" and ".join(sorted({"local" if e.guest is None else "guest" for e in planned})) or "local",
        precision=amount.precision,
        budget_s=DEFAULT_BUDGET_S if amount.precision and amount.budget_s is None else amount.budget_s,
        experiments=planned,
        covariates=catalogue.all_covariates(),
        inspections=tuple(inspection.name for inspection in inspections),
        spread_s=amount.spread_s,
    )


def _check_unmeasured(settings: Mapping[str, Sequence[Level]], amount: Amount, trace: str | None) -> None:
    """Raise UsageError for what is asked of samples, in a run that has none."""
    given = {"--set": settings, "--reps": amount.reps, "--precision": amount.precision, "--trace": trace}
    for option, value in given.items():
        if value:
            raise UsageError(f"{option}: an inspection has no samples", remedy=f"leave out {option}")


def _traced(settings: Mapping[str, Sequence[Level]], amount: Amount, trace: str) -> tuple[str, str]:
    if TRACER.name in settings:
        raise UsageError("--trace and --set tracer contradict each other", remedy="give one of them")
    check_traced(amount.precision)
    return (UNTRACED, trace)


def check_traced(precision: float | None) -> None:
    """Raise UsageError where a traced run is asked for a precision."""
    if precision is not None:
        raise UsageError(
            "--trace and --precision contradict each other: traced figures come at the end",
            remedy="give --reps",
        )


def on_host(plan: Plan, host: Host) -> Plan:
    """Return `plan` to be carried out on another host. Raises UsageError for what is only of this machine."""
    here = f"leave out --on ssh:{host.address}, or measure it with --on local"
    for experiment in plan.experiments:
        if experiment.guest is not None or experiment.program is not None:
            what = "in a guest" if experiment.guest is not None else "by a program of your own"
            raise UsageError(f"{experiment.name} is measured {what}, on this machine only", remedy=here)
        if any(tracer_of(point) != UNTRACED for point in experiment.points):
            raise UsageError(
                f"{experiment.name}: a tracer of this machine sees nothing of another host",
                remedy="leave out --trace and the factor tracer",
            )
    if plan.inspections:
        raise UsageError(f"{plan.inspections[0]}: an inspection is made on this machine", remedy=here)
    if plan.injection is not None or plan.tuned:
        what = "--inject disturbs" if plan.injection is not None else "--tune sets"
        raise UsageError(f"{what} this machine, not another host", remedy="leave it out")
    return replace(plan, host=host, place=f"ssh:{host.name}")


def draw_seed() -> int:
    """Return a seed from the system's entropy, small enough to be typed."""
    return secrets.randbelow(2**32)


def counts_instructions(experiment: PlannedExperiment) -> bool:
    """Say whether it is measured in guests by the instructions clock."""
    return experiment.guest is not None and experiment.guest.clock == "instructions"


def check_seed(seed: int) -> int:
    """Return `seed`; UsageError where it is out of range."""
    if seed < 0:
        raise UsageError(f"the seed {seed} is below zero", remedy="give a whole number, zero or more")
    if seed > MOST_SEED:
        raise UsageError(f"the seed {seed} is out of range", remedy=f"give 0 to {MOST_SEED}")
    return seed


def _plan_experiment(
    experiment: Experiment,
    workload: Workload,
    design: Design,
    settings: Mapping[str, Sequence[Level]],
    amount: Amount,
) -> PlannedExperiment:
    reps = amount.reps or design.reps
    blocks: int | None = min(design.blocks, reps)
    if amount.precision is not None:
        reps, blocks = min(max(1, design.reps // design.blocks), _MOST_PRECISION_REPS), None
    return PlannedExperiment(
        name=experiment.name,
        title=experiment.title,
        question=experiment.question,
        metrics=_order_metrics(experiment, workload),
        points=plan_points(experiment, workload, design, settings),
        reps=reps,
        blocks=blocks,
        min_time_ns=design.min_time_ns,
        workload=workload,
        program=experiment.program,
    )


def _in_guest(planned: PlannedExperiment, experiment: Experiment, guest: Guest | None) -> PlannedExperiment:
    """Return `planned` with what its guest's clock makes of its metrics."""
    if guest is None:
        return planned
    if planned.program is not None:
        raise UsageError(
            f"{planned.name}: a workload of your own is measured on this machine only",
            remedy="leave out --on, or measure it with --on local",
        )
    if any(tracer_of(point) != UNTRACED for point in planned.points):
        raise UsageError(
            f"{planned.name}: a tracer of this machine sees nothing of a guest",
            remedy="leave out --trace and the factor tracer, or measure with --on local",
        )
    if guest.clock == "wall":
        return replace(planned, guest=guest)
    workload = instructions.translate_workload(planned.workload)
    shown = instructions.translate_names(experiment.metrics)
    metrics = _order_metrics(replace(experiment, metrics=shown), workload)
    return replace(planned, guest=guest, workload=workload, metrics=metrics, order="fixed")


def _order_metrics(experiment: Experiment, workload: Workload) -> tuple[str, ...]:
    known = [m.name for m in workload.metrics]
    for name in experiment.metrics:
        if name not in known:
            raise UsageError(
                f"{experiment.name}: {workload.name} has no metric {name!r}", remedy=nearest(name, known)
            )
    return (*experiment.metrics, *(name for name in known if name not in experiment.metrics))
