"""`oscope tune`: what of this machine can be set steadier, and commands run while it is."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Annotated

import typer

from oscope.cli.errors import DONE, note
from oscope.model.document import Table
from oscope.model.errors import OscopeError, UsageError
from oscope.report import terminal
from oscope.runner import tuning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oscope.runner.tuning import Held


def tune(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="The command to run under the settings; nothing: list the settings.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE|steady", help="A setting to hold; repeatable."),
    ] = None,
) -> int:
    """List the settings of this machine, or run a command under some that are restored after it.

    oscope tune --set governor=performance --set aslr=off -- make bench. steady stands for the settings that
    steady measurements without changing what is measured. After a kill the next command restores them.
    oscope run --tune does the same for a run, and records it.
    """
    if not words and not settings:
        _list()
        return DONE
    if not words:
        raise UsageError("--set needs a command", remedy="write: oscope tune --set NAME=VALUE -- COMMAND")
    if not settings:
        raise UsageError("no setting is named", remedy="write: oscope tune --set NAME=VALUE -- COMMAND")

    with tuning.tuned(tuning.parse(settings)) as held:
        for line in describe(held):
            note(line)
        try:
            status = subprocess.run(words, check=False).returncode
        except OSError as error:
            raise OscopeError(
                f"{words[0]} cannot be run ({error.strerror})", remedy="check its name and PATH"
            ) from error
    return status if status >= 0 else 128 - status


def describe(held: Sequence[Held]) -> list[str]:
    """Return what a lease has set, a line a setting."""
    lines: dict[tuple[str, str, str | None, str | None], int] = {}
    for one in held:
        key = (one.name, one.before, one.now, one.left)
        lines[key] = lines.get(key, 0) + 1
    return [
        f"{name}: {before} is now {now}" + (f" in {count} places" if count > 1 else "")
        if left is None
        else f"{name}: stays {before} in {count} places: {left}"
        for (name, before, now, left), count in lines.items()
    ]


def _list() -> None:
    rows = []
    for one in tuning.tunables():
        now = ", ".join(f"{value} ({count})" if one.places > 1 else value for value, count in one.now.items())
        choices = ", ".join(one.choices) or ("a list of CPUs" if one.places else "")
        rows.append([one.name, now or "not on this machine", choices, one.steady or "", one.doc])
    columns = ["setting", "now", "choices", "steady", "what it is"]
    terminal.print_table(Table("Settings of this machine", columns, rows), terminal.console())
