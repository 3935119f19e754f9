"""What was asked for with `oscope run`, turned from texts into values before anything is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from oscope import labs
from oscope.cli.options import parse_option
from oscope.model import units
from oscope.model.clocks import Clock
from oscope.model.errors import UsageError
from oscope.model.experiment import Experiment, Inspection
from oscope.model.factors import Profile
from oscope.model.labs import Labs
from oscope.planning.plan import Amount, Plan
from oscope.runner.injection import causes
from oscope.runner.injection.spec import Injection
from oscope.targets.guest.spec import Where
from oscope.trace.factor import parse_kinds


@dataclass(frozen=True)
class Selection:
    """The experiments and inspections to run, and what was left out with its reason."""

    experiments: tuple[Experiment, ...] = ()
    named: tuple[str, ...] = ()
    """What was asked for by its own name: if such a one gives nothing, the command has failed."""
    left_out: tuple[str, ...] = ()
    inspections: tuple[Inspection, ...] = ()


def refuse_with_resume(given: Sequence[str]) -> None:
    """Raise UsageError where anything is given that a resumed run cannot have anew: its plan is stored."""
    if given:
        raise UsageError(
            f"--resume and {given[0]} contradict each other: a resumed run keeps its plan",
            remedy=f"leave out {given[0]}",
        )


def select(names: Sequence[str], profile: Profile, known: Labs | None = None) -> Selection:
    """Return what `names` (of experiments, inspections and labs of `known`; none: all) stand for, each once.

    Without `known`, of the built-in labs. Raises UsageError with the nearest name for one that is unknown.
    """
    known = known or labs.built_in()
    by_lab = {lab.name: lab.parts for lab in known.all}
    chosen: dict[str, Experiment | Inspection] = {}
    left_out: list[str] = []
    named = tuple(known.named(name).name for name in names if name not in by_lab)
    for name in names or by_lab:
        for one in by_lab.get(name) or (known.named(name),):
            own = isinstance(one, Experiment) and one.program is not None
            if profile == "quick" and not one.quick and not own and one.name not in named:
                reason = one.quick_share.removeprefix("not in it: ").removeprefix("not in the survey: ")
                left_out.append(f"{one.name} is not in the quick profile: {reason}")
            else:
                chosen[one.name] = one
    omitted = dict.fromkeys(left_out)
    if not names and omitted:
        count = f"{len(omitted)} experiment{'s' if len(omitted) > 1 else ''}"
        omitted = {f"the survey leaves out {count} of oscope list that take long or need a guest": None}
    if not chosen:
        raise UsageError("nothing is left to run", remedy="use --profile full, or name the experiment itself")
    return Selection(
        tuple(one for one in chosen.values() if isinstance(one, Experiment)),
        named,
        tuple(omitted),
        tuple(one for one in chosen.values() if isinstance(one, Inspection)),
    )


def without_inspections(selection: Selection) -> Selection:
    """Return what can be measured on another host: inspections are made on this machine.

    One that is named stays, to be refused.
    """
    dropped = [one for one in selection.inspections if one.name not in selection.named]
    return replace(
        selection,
        inspections=tuple(one for one in selection.inspections if one not in dropped),
        left_out=(
            *selection.left_out,
            *(f"{one.name} is left out: it looks at this machine" for one in dropped),
        ),
    )


def parse_settings(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read `--set factor=a,b,c`, given any number of times, as the levels of each factor."""
    settings: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, levels = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageError(
                f"--set {text}: not of the form factor=level", remedy="write it like --set call=getpid,read"
            )
        if name in settings:
            raise UsageError(f"--set {name} is given twice", remedy=f"write --set {name}=a,b")
        settings[name] = tuple(level.strip() for level in levels.split(","))
        if not all(settings[name]):
            raise UsageError(f"--set {text}: a level is empty", remedy=f"write it like --set {name}=a,b")
    return settings


def parse_amount(
    reps: int | None, precision: str | None, budget: str | None, spread: str | None = None
) -> Amount:
    """Read how much is to be measured; UsageError naming the option that is wrong."""
    amount = Amount(
        reps=reps,
        precision=None if precision is None else parse_option("--precision", _parse_precision, precision),
        budget_s=None if budget is None else parse_option("--budget", units.parse_duration, budget),
        spread_s=None if spread is None else parse_option("--spread", units.parse_duration, spread),
    )
    amount.check()
    return amount


def _parse_precision(text: str) -> float:
    """Return the precision that `text` stands for; UsageError naming the text where it is none."""
    share = units.parse_share(text)
    if not 0 < share < 1:
        raise UsageError(f"{text!r} is not between 0 % and 100 %", remedy="write it like 2% or 0.02")
    return share


def check_amounts(given: Mapping[str, object]) -> None:
    """Raise UsageError for another option that says how much is measured."""
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"--detect and {option} contradict each other", remedy="give one of them")


def parse_where(on: str | None, clock: Clock | None, cpus: int | None, memory: str | None) -> Where:
    """Read where it is to be measured; UsageError naming the option that is wrong."""
    memory_bytes = None if memory is None else parse_option("--memory", units.parse_bytes, memory)
    where = Where(on, clock, cpus, memory_bytes)
    where.check()
    return where


def parse_trace(text: str | None) -> str | None:
    """Read kinds such as `syscalls,sched` as a level of the factor `tracer`."""
    if text is None:
        return None

    return parse_option("--trace", lambda kinds: parse_kinds(kinds.split(",")), text)


def injected(plan: Plan, texts: Sequence[str]) -> Plan:
    """Return `plan` with the causes that `--inject` names; UsageError for a cause or a run that cannot be."""
    if not texts:
        return plan

    injection = Injection.parse(texts, causes.load(), plan.seed)
    if not plan.experiments:
        raise UsageError("--inject: an inspection has no samples", remedy="leave out --inject")
    for experiment in plan.experiments:
        if experiment.guest is not None:
            raise UsageError(
                f"--inject disturbs this machine, and {experiment.name} is measured in a guest",
                remedy="leave out --inject, or measure with --on local",
            )
    return replace(plan, injection=injection.to_object())


DEFAULT_THRESHOLD = "1%"


def parse_threshold(text: str | None) -> float:
    """Read `--threshold`, 1 % by default; UsageError, before the work begins, where it is not above 0."""
    limit = parse_share("--threshold", DEFAULT_THRESHOLD if text is None else text)
    if not limit > 0:
        raise UsageError(f"--threshold {text}: no difference is as small", remedy="give one such as 1%")
    return limit


def parse_share(option: str, text: str) -> float:
    """Read a share such as `2%`; UsageError naming the option."""
    return parse_option(option, units.parse_share, text)
