"""Records written once: a change of the format or of the statistics is seen as a difference from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oscope import labs
from oscope.storage import record

FOLDER = Path(__file__).parent / "golden"


def test_every_experiment_has_a_golden_record() -> None:
    names = {experiment.name for lab in labs.LABS for experiment in lab.experiments}
    assert names == {path.stem for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_golden_record_is_read_and_summarised_as_it_was(path: Path) -> None:
    written = json.loads(path.read_bytes())
    again = json.loads(record.to_json(record.read(path)))
    assert_same(again, written, path.stem)


def assert_same(found: Any, expected: Any, place: str) -> None:
    """Compare to 12 digits: the last ones differ between builds of numpy."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key, value in expected.items():
            assert_same(found[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for index, value in enumerate(expected):
            assert_same(found[index], value, f"{place}[{index}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-12), place
    else:
        assert found == expected, place
