"""The option `--detect`: amounts that follow from the size of the difference that is to be found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oscope.analysis.calibration.detection import size_run
from oscope.cli.request import parse_share
from oscope.model.errors import StoreError
from oscope.probe.locate import ask, find_probe
from oscope.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oscope.model.experiment import Experiment
    from oscope.planning.plan import Plan


def sized_run(
    plan: Plan, experiments: Sequence[Experiment], text: str, place: str | None
) -> tuple[Plan, tuple[str, ...]]:
    """Return a run's plan with the blocks that show a difference as small as `text`, and what to print."""
    sized = size_run(plan, parse_share("--detect", text), newest_calibration(place), experiments)
    return sized.plan, sized.notes


def newest_calibration(place: str | None) -> dict[str, Any] | None:
    """Return the newest calibration of this machine in the store, in brief; None where there is none."""
    return calibration_of(ask(find_probe(), "environment")["machine"], place)


def calibration_of(machine: object, place: str | None) -> dict[str, Any] | None:
    """Return the newest calibration of `machine` in the store, in brief; None where there is none."""
    try:
        with Store.read(place) as store:
            return store.calibration(machine)
    except StoreError:
        # A store that is not there yet knows nothing.
        return None
