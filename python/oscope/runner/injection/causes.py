"""The causes that the probe can inject, and what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oscope.model import units
from oscope.model.errors import ProbeError, UsageError
from oscope.probe.catalogue import nearest
from oscope.probe.locate import ask, find_probe


@dataclass(frozen=True)
class Cause:
    """A cause, as the probe describes it."""

    name: str
    purpose: str
    raises: tuple[str, ...]
    """Covariates that it raises."""
    amount: str | None
    """The type of the amount that is named with it. Such a cause acts in the measured region."""


def load(path: Path | None = None) -> dict[str, Cause]:
    """Return the causes that the probe (by default where `find_probe` finds it) knows, by name."""
    described = ask(path or find_probe(), "describe")
    try:
        return {
            one["name"]: Cause(one["name"], one["purpose"], tuple(one["raises"]), one["amount"])
            for one in described["causes"]
        }
    except (KeyError, TypeError) as error:
        raise ProbeError(
            f"the probe does not describe its causes ({error!r})", remedy="install probe and laboratory anew"
        ) from error


def parse(
    texts: Sequence[str], known: dict[str, Cause], *, of_machine: bool = False
) -> dict[str, float | None]:
    """Read causes such as `hog,delay=2us`, each once, with their amounts in seconds.

    `of_machine` refuses those that act on what is measured: they have an amount.
    Raises UsageError, with the nearest name for an unknown one.
    """
    amounts: dict[str, float | None] = {}
    for text in (part.strip() for each in texts for part in each.split(",")):
        name, equals, amount = text.partition("=")
        cause = known.get(name)
        if cause is None:
            raise UsageError(f"there is no cause {name!r} to inject", remedy=nearest(name, known))
        if of_machine and cause.amount is not None:
            raise UsageError(
                f"{name} is injected into what is measured, not into the machine",
                remedy=f"use oscope run … --inject {name}={amount or '2us'}",
            )
        if name in amounts:
            raise UsageError(f"the cause {name} is named twice", remedy="name it once")
        if cause.amount is None and equals:
            raise UsageError(f"the cause {name} has no amount", remedy=f"write {name}")
        if cause.amount is not None and not amount:
            raise UsageError(f"the cause {name} needs an amount", remedy=f"write it like {name}=2us")
        amounts[name] = units.parse_duration(amount) if equals else None
    return amounts
