"""What is printed of how to continue a run holds no password."""

from __future__ import annotations

from pathlib import Path

import pytest

from oscope.cli.measure_with_progress import interrupted
from oscope.storage.database import without_password
from oscope.storage.store import Store


@pytest.mark.parametrize(
    ("place", "printed"),
    [
        ("postgresql://me:secret@db/os", "postgresql://me@db/os"),
        ("postgresql://db/os?sslmode=require", "postgresql://db/os?sslmode=require"),
        ("a store.db", "a store.db"),
    ],
)
def test_a_store_is_named_without_its_password(place: str, printed: str) -> None:
    assert without_password(place) == printed


def test_the_command_that_continues_names_the_store(tmp_path: Path) -> None:
    place = tmp_path / "a store.db"
    with Store.open(place) as store:
        assert interrupted("ab12", store, "oscope run").remedy == (
            f"continue with oscope run --resume ab12 --store '{place}'"
        )
