"""How long the probe may say nothing, and how long it may take to end."""

from __future__ import annotations

import pytest

from oscope import labs
from oscope.model.factors import Level
from oscope.planning.plan import make_plan
from oscope.probe import catalogue as catalogues
from oscope.probe.child import Child
from oscope.probe.process import Request, goodbye_limit_s
from oscope.runner.point_request import PATIENCE_S, silence_limit_s
from oscope.runner.point_state import PointState


def limit_s(name: str, **settings: Level) -> float:
    plan = make_plan(
        [labs.experiment(name)],
        catalogues.load(),
        settings={factor: [level] for factor, level in settings.items()},
    )
    (experiment,) = plan.experiments
    point = PointState(1, experiment, 0, [])
    return silence_limit_s(point, Request(1, experiment.workload.name, params=point.params, reps=1))


@pytest.mark.parametrize(
    ("name", "settings", "needed_s"),
    [
        # What the slowest sound device takes: 8 GiB at 30 MB/s, and a line of 10 MB/s.
        ("disk.write", {"size": 8 << 30}, 286.0),
        ("transfer.copy", {"size": 1 << 30, "rate": 10_000_000}, 107.0),
    ],
)
def test_a_slow_device_is_not_taken_for_a_hang(
    name: str, settings: dict[str, Level], needed_s: float
) -> None:
    assert limit_s(name, **settings) > needed_s


def test_a_small_point_is_soon_given_up() -> None:
    assert limit_s("syscall.cost", call="getppid") < PATIENCE_S + 10


def test_what_has_to_be_undone_has_the_time_it_was_promised() -> None:
    plain = Request(1, "command.run", params={"program": "/bin/true", "timeout": 40.0})
    assert goodbye_limit_s(plain) == Child.goodbye_limit_s
    with_cleanup = Request(1, "command.run", params={**plain.params, "cleanup": ["rm", "here"]})
    assert goodbye_limit_s(with_cleanup) == Child.goodbye_limit_s + 40
