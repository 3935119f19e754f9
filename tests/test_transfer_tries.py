"""Two users on one machine: hostile tries against a receiver, counted; none is accepted."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns import rounds
from transfer_tries import FAMILIES, METHODS, Scene
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users: run the tests as root")

TRIES = rounds(150, full=3000)


@pytest.fixture(params=METHODS)
def scene(
    request: pytest.FixtureRequest, real_probe: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Scene]:
    monkeypatch.setenv("OSCOPE_STATE", str(tmp_path / "state"))
    # Only its owner may enter pytest's folders.
    with tempfile.TemporaryDirectory(prefix="oscope-tries-") as name:
        found = Scene(real_probe, Path(name), request.param, tmp_path / "state")
        yield found
        found.kill()


def test_of_hostile_tries_none_is_accepted_and_the_receiver_goes_on(scene: Scene) -> None:
    scene.clear()
    assert scene.honest(scene.source("honest", 5_000))
    tries = dict.fromkeys((family.__name__ for family in FAMILIES), 0)
    for number in range(-(-TRIES // len(METHODS))):
        family = FAMILIES[number % len(FAMILIES)]
        seed = number * len(METHODS) + METHODS.index(scene.method)
        try:
            family(scene, random.Random(seed))
        except AssertionError as error:
            raise AssertionError(f"{family.__name__}, seed {seed}: {error}") from error
        # A hard link that was planted is another name of what lies outside.
        scene.clear()
        assert scene.changed() == [], f"{family.__name__}, seed {seed}"
        tries[family.__name__] += 1
        if number % 5 == 4:
            assert scene.honest(scene.source("honest", 5_000)), f"after {family.__name__}, seed {seed}"
    assert scene.honest(scene.source("honest", 5_000))
    wait_until(lambda: scene.descriptors() == scene.descriptors_at_first, "no descriptor is left open")
    endings = scene.end()
    assert all(ending.code == 0 for ending in endings.values()), endings
    for name, ending in endings.items():
        assert len([event for event in ending.events if event["event"] == "done"]) == scene.sent[name]
    assert sum(tries.values()) * len(METHODS) >= TRIES


def test_the_names_of_partial_files_are_those_that_the_receiver_has(scene: Scene) -> None:
    path = scene.source("resumed", 600_000)
    begun = scene.partials(path)[0]
    begun.write_bytes(path.read_bytes()[:300_000])
    begun.chmod(0o600)
    assert scene.honest(path)
    assert not begun.exists()
