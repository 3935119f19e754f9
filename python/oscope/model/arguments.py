"""Errors of the Python interface: they name its arguments where those of the command line name options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from oscope.model.errors import OscopeError

_OTHER = {"name": "names", "parameter": "parameters"}
"""The options whose argument has another name."""
_VALUE = r"(?: (-?\d\S*?|[A-Z]\S*?|/\S*?|'[^']*'|guest\S*?|local|ssh:\S*?|\S+?(?=:))(?=[,;:]?(?:\s|$)))?"
_OPTION = re.compile(rf"(?P<command>\boscope [a-z]+(?: [^,;]*)?)|--set |--(?P<name>[a-z][a-z-]+){_VALUE}")


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Have an OscopeError name arguments, such as `reps=0` for `--reps 0`; a whole command stays as it is."""
    try:
        yield
    except OscopeError as error:
        error.message = in_python(error.message)
        error.remedy = error.remedy and in_python(error.remedy)
        error.args = (error.message,)
        raise


def in_python(text: str) -> str:
    """Return a text that names options of the command line with the names of arguments."""
    return _OPTION.sub(_argument, text)


def _argument(match: re.Match[str]) -> str:
    if match["command"] is not None or match["name"] is None:
        return match["command"] or ""
    name, value = match["name"].replace("-", "_"), match[3]
    return f"{_OTHER.get(name, name)}={value or ''}"
