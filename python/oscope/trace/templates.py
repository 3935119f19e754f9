"""The texts in `programs`, of which tracers' programs are composed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def templates() -> Environment:
    """Return the environment that finds them by their names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - start-up: few runs are traced.

    return Environment(
        loader=PackageLoader("oscope.trace", "programs"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - the text is no HTML, and all that goes in is checked or a number.
    )
