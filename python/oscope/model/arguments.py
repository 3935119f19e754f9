"""Errors of the Python interface: they name its arguments where those of the command line name options."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import ParamSpec, TypeVar

from oscope.model.errors import OscopeError, UnknownFactorError

Given = ParamSpec("Given")
Value = TypeVar("Value")

_OTHER = {"name": "names", "parameter": "parameters"}
"""The options whose argument has another name."""
_VALUE = r"(?: (-?\d\S*?|[A-Z]\S*?|/\S*?|'[^']*'|guest\S*?|local|ssh:\S*?|\S+?(?=:))(?=[,;:]?(?:\s|$)))?"
_OPTION = re.compile(rf"(?P<command>\boscope [a-z]+(?: [^,;]*)?)|--set |--(?P<name>[a-z][a-z-]+){_VALUE}")


def naming_arguments(function: Callable[Given, Value]) -> Callable[Given, Value]:
    """Have a function's OscopeError name arguments, such as `reps=0` for `--reps 0`.

    A whole command stays as it is. A keyword that is none is an error with the nearest argument.
    """
    given_by_name = inspect.signature(function).parameters.values()
    names = [each.name for each in given_by_name if each.kind is not inspect.Parameter.VAR_KEYWORD]

    def near(name: str, factors: Collection[str] = ()) -> str | None:
        """Return the nearest argument, unless a factor is as near."""
        found = get_close_matches(name, [*factors, *names], n=1, cutoff=0.85)
        return f"did you mean {found[0]}=?" if found and found[0] not in factors else None

    @functools.wraps(function)
    def named(*given: Given.args, **keywords: Given.kwargs) -> Value:
        try:
            return function(*given, **keywords)
        except OscopeError as error:
            remedy = near(error.name, error.known) if isinstance(error, UnknownFactorError) else None
            error.message = in_python(error.message)
            error.remedy = remedy or (error.remedy and in_python(error.remedy))
            error.args = (error.message,)
            raise
        except TypeError as error:
            wrong = [name for name in keywords if str(error).endswith(f"keyword argument {name!r}")]
            remedy = near(wrong[0]) if wrong and wrong[0] not in names else None
            if remedy is None:
                raise
            raise TypeError(f"{error}: {remedy}") from None

    return named


def in_python(text: str) -> str:
    """Return a text that names options of the command line with the names of arguments."""
    return _OPTION.sub(_argument, text)


def _argument(match: re.Match[str]) -> str:
    if match["command"] is not None or match["name"] is None:
        return match["command"] or ""
    name, value = match["name"].replace("-", "_"), match[3]
    return f"{_OTHER.get(name, name)}={value or ''}"
