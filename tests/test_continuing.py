"""What is printed of how to continue a run holds no password."""

from __future__ import annotations

import sqlalchemy as sa

from oscope.cli.continuing import interrupted
from oscope.storage.database import address
from oscope.storage.store import Store


def test_a_password_of_the_store_is_not_printed() -> None:
    url = sa.make_url("postgresql://me:secret@db/os")
    store = Store(sa.create_engine("sqlite://"), address(url, None), None)
    store.place = str(url)
    assert interrupted("ab12", store, "oscope run").remedy == (
        "continue with oscope run --resume ab12 --store 'postgresql://me:***@db/os'"
    )
