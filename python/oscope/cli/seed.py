"""The option --seed, for the commands that draw an order. Not among `options`: a plan is slow to import."""

from __future__ import annotations

from typing import Annotated

from oscope.cli.options import whole_number
from oscope.planning.plan import MOST_SEED

SeedOption = Annotated[
    int | None,
    whole_number("--seed", most=MOST_SEED, help="Seed of the random order. [default: drawn, and recorded]"),
]
