"""`oscope transfer` as the help, the completion and the reference have it: as its program describes it.

The command becomes that program before this is imported (`oscope.probe.programs`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import typer

from oscope.cli.destinations import output_file, output_folder
from oscope.cli.options import EVERYWHERE
from oscope.probe.locate import ask, find_probe


def _declare(described: Mapping[str, Any]) -> inspect.Parameter:
    """Return the declaration of an option or an argument."""
    option, value, text = described["option"], described["value"], described["help"]
    kind: Any = Literal[tuple(described["choices"])] if described["choices"] else str
    match value:
        case None:
            kind, own = bool, typer.Option(option, help=text)
        case "FILE|-":
            own = output_file(option, help=text)
        case "DIR":
            own = output_folder(option, parents=True, help=text)
        case _ if option is None:
            own = typer.Argument(metavar=value, help=text)
        case _:
            own = typer.Option(option, metavar=None if described["choices"] else value, help=text)
    if described["is_multiple"]:
        kind = list[str]
    default: Any = False if value is None else described["default"]
    if described["is_required"]:
        default = inspect.Parameter.empty
    elif default is None:
        kind |= None
    name = re.sub(r"\W+", "_", (option or value).strip("-.")).lower()
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, own]
    )


def _stand_in(described: Mapping[str, Any]) -> Callable[..., None]:
    """Return a function that typer takes for a command."""

    def command(**values: object) -> None:
        raise NotImplementedError(values)

    declared = [_declare(each) for each in described["parameters"]]
    command.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in declared}
    return command


def _application(described: Mapping[str, Any]) -> typer.Typer:
    found = typer.Typer(
        help=described["help"], epilog=EVERYWHERE, rich_markup_mode=None, add_completion=False
    )
    for each in described["commands"]:
        found.command(each["name"], help=each["help"], short_help=each["purpose"], epilog=EVERYWHERE)(
            _stand_in(each)
        )
    return found


app = _application(ask(find_probe(), "transfer", "describe"))
