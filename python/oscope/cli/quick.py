"""Typer's commands and groups, spared from loading pydantic only to see that --help was not given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from typer.core import TyperOption


class Command(TyperCommand):
    """A command whose --help is False, not None, where it was not given: Typer converts no False."""

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """Return Typer's own option, with a default."""
        return _with_default(super().get_help_option(ctx))


class Group(TyperGroup):
    """A group whose --help is like that of `Command`."""

    def get_help_option(self, ctx: Any) -> TyperOption | None:
        """Return Typer's own option, with a default."""
        return _with_default(super().get_help_option(ctx))


def _with_default(option: TyperOption | None) -> TyperOption | None:
    if option is not None:
        option.default = False
    return option
