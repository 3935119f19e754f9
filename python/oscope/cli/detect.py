"""The option `--detect`: amounts that follow from the size of the difference that is to be found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oscope.errors import StoreError, UsageError

if TYPE_CHECKING:
    from oscope.plan import Plan


def check_amounts(given: Mapping[str, object]) -> None:
    """Raise UsageError for another option that says how much is measured."""
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"--detect and {option} contradict each other", remedy="give one of them")


def sized_run(plan: Plan, text: str, place: str | None) -> tuple[Plan, tuple[str, ...]]:
    """Return a run's plan with the blocks that show a difference as small as `text`, and what to print."""
    from oscope.calibration.detection import size_run
    from oscope.cli.request import parse_share

    sized = size_run(plan, parse_share("--detect", text), newest_calibration(place))
    return sized.plan, sized.notes


def newest_calibration(place: str | None) -> dict[str, Any] | None:
    """Return the newest calibration of this machine in the store, in brief; None where there is none."""
    from oscope.locate import ask, find_probe
    from oscope.store import Store

    machine = ask(find_probe(), "environment")["machine"]
    try:
        with Store.read(place) as store:
            return store.calibration(machine)
    except StoreError:
        # A store that is not there yet knows nothing.
        return None
