"""Files and folders that a command writes: checked before the work begins, so that a typo costs no run.

Every option or argument that names one is declared by `output_file`, `output_folder`, `store_file` or
`new_file`; its value is then checked while the command line is parsed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

import typer

from oscope.model.atomic_write import atomic_write, resolve_file, resolve_folder, resolve_output
from oscope.model.errors import OscopeError, UsageError
from oscope.model.streams import is_standard_output_open

STANDARD_OUTPUT = "-"
REPORT = "oscope-report.html"
"""The report of a survey, and of oscope report, unless another file is named."""
_DASH = ", or - for standard output"


@dataclass(frozen=True)
class Output:
    """A file that a command writes, or standard output."""

    name: str
    """As it was typed."""
    path: Path | None
    """The file, with symbolic links resolved; None: standard output."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give what to write into: a file appears whole, and only once the block has ended."""
        if self.path is None:
            sys.stdout.flush()
            yield sys.stdout.buffer
            sys.stdout.flush()
        else:
            with atomic_write(self.path) as file:
                yield file

    def write(self, content: bytes) -> None:
        """Write all of it. Raises OscopeError where the file cannot be written."""
        with self.open() as file:
            file.write(content)


class OutputParser:
    """Turns what was typed into what is written, once it is known that it can be written."""

    def __init__(self, option: str, parse: Callable[[str], object]) -> None:
        self.option = option
        self.parse = parse

    def __call__(self, value: object) -> object:
        """Return what `value` names; UsageError that names the option where it cannot be written."""
        text = str(value)
        if not text:
            raise UsageError(f"{self.option}: the name is empty", remedy="name a file")
        try:
            return self.parse(text)
        except OscopeError as error:
            raise UsageError(f"{self.option} {error.message}", remedy=error.remedy) from None


def output_file(*names: str, help: str) -> Any:  # noqa: A002 - as of typer.Option.
    """Return the declaration of an option of type `Output`."""
    return typer.Option(*names, metavar="FILE|-", parser=OutputParser(_shortest(names), _output), help=help)


def output_folder(*names: str, help: str, parents: bool = False) -> Any:  # noqa: A002
    """Return the declaration of an option of type Path: a folder that is there, or can be made.

    With `parents` those above it may be missing, too.
    """
    parse = _deep_folder if parents else _folder
    return typer.Option(*names, metavar="DIR", parser=OutputParser(_shortest(names), parse), help=help)


def store_file(*names: str, help: str) -> Any:  # noqa: A002
    """Return the declaration of an option of type Path: a store's file, which is made or added to."""
    return typer.Option(*names, metavar="FILE", parser=OutputParser(_shortest(names), _file), help=help)


def new_file(*, metavar: str, help: str) -> Any:  # noqa: A002
    """Return the declaration of an argument of type Path: a file that is not there yet."""
    return typer.Argument(metavar=metavar, parser=OutputParser(metavar, _new), help=help)


def default_output(name: str, option: str) -> Output:
    """Return the output that is written where `option` is not given."""
    found = OutputParser(option, _output)(name)
    if not isinstance(found, Output):
        raise TypeError(found)
    return found


TO_STANDARD_OUTPUT = Output(STANDARD_OUTPUT, None)


@dataclass(frozen=True)
class Destinations:
    """Where the results of a run go, beside the store and the terminal."""

    json: Output | None = None
    report: Output | None = None
    figures: Path | None = None
    every_figure: bool = False

    def check(self) -> None:
        """Raise UsageError where two of them are one file, or all figures go nowhere."""
        check_distinct({"--json": self.json, "--report": self.report})
        if self.every_figure and self.figures is None:
            raise UsageError(
                "--all-figures without --figures", remedy="say where: --figures DIR --all-figures"
            )

    @property
    def take_standard_output(self) -> bool:
        """Whether one of them is standard output, so that the summary has to go elsewhere."""
        return is_standard_output(self.json) or is_standard_output(self.report)


def is_standard_output(target: Output | None) -> bool:
    """Say whether data go to standard output."""
    return target is not None and target.path is None


def check_distinct(targets: Mapping[str, Output | None]) -> None:
    """Raise UsageError where two of the options name one file: the second would replace the first."""
    seen: dict[Path | None, str] = {}
    for option, target in targets.items():
        if target is None:
            continue
        if target.path in seen:
            what = "standard output" if target.path is None else target.name
            raise UsageError(
                f"{seen[target.path]} and {option} are both {what}", remedy="name two different files"
            )
        seen[target.path] = option


def check_not_read(targets: Mapping[str, Output | None], *names: str | None) -> None:
    """Raise UsageError where an option names one of the files that the command reads: it would replace it."""
    read = {Path(name).resolve() for name in names if name is not None and Path(name).is_file()}
    for option, target in targets.items():
        if target is not None and target.path in read:
            raise UsageError(
                f"{option} {target} would replace a file that is read", remedy="name another file"
            )


def _shortest(names: tuple[str, ...]) -> str:
    return min(names, key=len)


def _output(text: str) -> Output:
    if text != STANDARD_OUTPUT:
        return Output(text, resolve_output(Path(text), alternative=_DASH))
    if not is_standard_output_open():
        raise OscopeError("- is standard output, which is closed", remedy="name a file")
    return Output(text, None)


def _folder(text: str) -> Path:
    resolve_folder(Path(text))
    return Path(text)


def _deep_folder(text: str) -> Path:
    path = Path(text)
    resolve_folder((_missing(path) or [path])[-1])
    return path


def _missing(path: Path) -> list[Path]:
    """Return the folder, and those above it, as far as nothing has their names; the highest last."""
    try:
        return list(takewhile(lambda one: not os.path.lexists(one), [path, *path.parents]))
    except ValueError:
        # A NUL byte, which is reported where the path is looked at.
        return []


def _file(text: str) -> Path:
    if text == STANDARD_OUTPUT:
        raise OscopeError("- is standard output, which is no store", remedy="name a file")
    return resolve_file(Path(text))


def _new(text: str) -> Path:
    path = Path(text)
    if os.path.lexists(path):
        raise OscopeError(f"{path} is there already", remedy="name a new file, or remove it")
    return resolve_file(path)
