"""All commands with their options and arguments, walked as the parser has them: none can be forgotten."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cli_driver import CommandLine
from oscope.cli import COMMANDS, application, main
from oscope.probe import programs


@dataclass(frozen=True)
class Parameter:
    """An option or argument of a command."""

    words: tuple[str, ...]
    """The command, such as `kernel ab`."""
    own: Any
    """The parser's object."""

    @property
    def name(self) -> str:
        """Return `--json`, or the metavar of an argument."""
        return self.own.opts[0] if self.is_option else self.own.metavar

    @property
    def is_option(self) -> bool:
        """Whether it is named by an option."""
        return bool(self.own.param_type_name == "option")

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value, or one of a few words."""
        return getattr(self.own, "is_flag", False) or self.own.type.name == "choice"

    @property
    def id(self) -> str:
        """Return `kernel ab --json`."""
        return " ".join([*self.words, self.name])

    def line(self, value: str) -> list[str]:
        """Return a command line that gives it a value, and nothing else."""
        # With an equals sign a value that begins with a dash is none of the options.
        given = [f"{self.name}={value}"] if self.name.startswith("--") else [self.name, value]
        return [*self.words, *(given if self.is_option else ["--", value])]


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: object
    out: str
    err: str


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command that carries something out, by its words."""
    yield from _below((), typer.main.get_command(application(COMMANDS)))


def parameters() -> list[Parameter]:
    """Return all options and arguments of all commands."""
    return [Parameter(words, own) for words, command in commands() for own in command.params]


def carry_out(words: list[str]) -> Ended:
    """Carry out a command line in this process; in one of its own where it becomes another program."""
    if words[0] in programs.COMMANDS:
        answer = CommandLine(Path.cwd())(*words)
        return Ended(answer.code, answer.out, answer.err)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as ended:
            return Ended(ended.code, out.getvalue(), err.getvalue())
    raise AssertionError("main returned")


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if not below:
        yield words, command
        return
    for name, one in below.items():
        yield from _below((*words, name), one)
