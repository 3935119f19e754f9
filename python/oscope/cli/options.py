"""Options that hold for every command wherever they stand, and what several commands share of theirs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer
import typer.core

from oscope.cli.completion import run_ids
from oscope.cli.destinations import OutputParser
from oscope.model.errors import UsageError
from oscope.model.table_form import Form

EVERYWHERE = """\
\b
With every command:
  --store S   The store: a file, or a database URL.
              [default: $OSCOPE_STORE, else in the user's data folder]
  --verbose   Print technical notes, and the trace of an error.
"""
"""Part of each command's help. `\\b` keeps the line breaks."""

Value = TypeVar("Value")
_CLASS = "oscope_command_class"

FormOption = Annotated[
    Form,
    typer.Option(
        "--format", help="text for a person; md, csv or json: the tables, with all columns and rows."
    ),
]
MattersOption = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="P",
        help="What matters; if given, exit code 1 where something is worse by more. [default: 1%]",
    ),
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="machine|kernel", help="Compare though this differs; both: machine,kernel."
    ),
]
TraceOption = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="KINDS",
        help="Measure all a second time under bpftrace: counts, syscalls, sched, faults, or several.",
    ),
]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="P",
        help="Measure until half the 95 % interval is this share of the median (2%), or the budget ends.",
    ),
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Memory of a guest. [default: 1GiB]")
]
RUN_HELP = "A run (its id, the start of it, last or last~1), or a record file."
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=run_ids)]


@dataclass(frozen=True)
class Settings:
    """What holds for the whole call."""

    verbose: bool = False
    store: str | None = None
    """Place of the store; None is the default one."""


def part(arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """Part the options of every command from the rest of `arguments`; UsageError for a malformed one.

    They are not left to Typer, which takes a group's options only before the name of its command.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--store")
    try:
        found, rest = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise UsageError(f"{error.argument_name}: {error.message}", remedy="see oscope --help") from None
    return Settings(found.verbose, found.store), rest


class CheckedCommand(typer.core.TyperCommand):
    """Refuses an option that names one file to write and is given more: all but the last would be lost.

    Of other options the last one counts, as programs do by convention, so that an alias can be overridden.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words. Raises UsageError for an option of one output that is given twice."""
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except typer.TyperException as error:
            # An option without its value comes without the command, whose help names the value.
            if getattr(error, "ctx", None) is None:
                setattr(error, "ctx", ctx)  # noqa: B010 - not every error declares it
            raise
        # After the parser itself, which reports what else is wrong and prints the help.
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(words)
            for option in dict.fromkeys(order):
                if isinstance(option, typer.core.TyperOption) and _writes(option) and not option.multiple:
                    _check_once(min(option.opts, key=len), order.count(option))
        return rest


class CommandGroup(typer.Typer):
    """A command that has commands below it, each a `CheckedCommand`."""

    def __init__(self, **settings: Any) -> None:
        fixed: dict[str, Any] = {"epilog": EVERYWHERE, "rich_markup_mode": None, "add_completion": False}
        super().__init__(**fixed | settings)

    def command(
        self,
        name: str | None = None,
        *,
        cls: type[typer.core.TyperCommand] | None = None,
        **settings: Any,
    ) -> Callable[[Function], Function]:
        """Declare a command, as Typer does."""
        return super().command(name, cls=cls or CheckedCommand, **settings)


def _writes(option: typer.core.TyperOption) -> bool:
    """Say whether an option names a file or folder that is written; `--export` has a format with it."""
    return isinstance(getattr(option.type, "func", None), OutputParser) or "--export" in option.opts


def _check_once(option: str, times: int) -> None:
    if times > 1:
        raise UsageError(
            f"{option} is given {'twice' if times == 2 else f'{times} times'}", remedy="give it once"
        )


class WholeNumber:
    """Turns what was typed into a whole number of a range."""

    def __init__(self, option: str, least: int | None, most: int) -> None:
        self.option = option
        self.least = least
        self.most = most

    def __call__(self, value: object) -> int:
        """Return the number; UsageError that names the option where it is none, or is out of range."""
        text = str(value).strip()
        if re.fullmatch(r"[+-]?[0-9]{1,100}", text) is None:
            raise UsageError(f"{self.option} {text} is not a whole number", remedy=self._example())
        number = int(text)
        if number > self.most or (self.least is not None and number < self.least):
            raise UsageError(f"{self.option} {text} is out of range", remedy=self._remedy())
        return number

    def _example(self) -> str:
        return f"write digits only, such as {max(self.least or 0, min(10, self.most))}"

    def _remedy(self) -> str:
        low = "" if self.least is None else f"{self.least} to "
        return f"give {low}{self.most}" if low else f"give {self.most} at most"


Function = TypeVar("Function", bound=Callable[..., Any])


def command_class(found: type[typer.core.TyperCommand]) -> Callable[[Function], Function]:
    """Give the command of a function a class of its own, which reads the command line otherwise."""

    def mark(function: Function) -> Function:
        function.__dict__[_CLASS] = found
        return function

    return mark


def class_of(function: Callable[..., Any]) -> type[typer.core.TyperCommand]:
    """Return the class that `command_class` gave a function's command; else the ordinary one."""
    found: type[typer.core.TyperCommand] = function.__dict__.get(_CLASS, CheckedCommand)
    return found


def whole_number(
    option: str,
    *,
    most: int,
    help: str,  # noqa: A002 - as of typer.Option.
    least: int | None = None,
    metavar: str = "N",
) -> Any:
    """Return the declaration of an option of type int; without `least`, the command checks that bound."""
    return typer.Option(option, metavar=metavar, parser=WholeNumber(option, least, most), help=help)


def parse_option(option: str, parse: Callable[[str], Value], text: str) -> Value:
    """Return what `parse` makes of `text`; UsageError naming the option."""
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error.message}", remedy=error.remedy) from None
