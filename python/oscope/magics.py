"""The magics `%oscope` and `%%oscope` of IPython and Jupyter, after `%load_ext oscope`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from IPython.core.error import UsageError as ShellUsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

import oscope
from oscope.api import Bench
from oscope.model.errors import OscopeError, UsageError

_OPTIONS = ("name=", "reps=", "precision=", "budget=", "warmup=", "metric=", "seed=", "pin=", "quick", "gc")
_FLAGS = ("quick", "gc")
_NUMBERS = ("reps", "warmup", "seed", "pin")
_LONGEST_LABEL = 50


@magics_class
class OscopeMagics(Magics):
    """`%oscope` and `%%oscope`."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._session = shell

    @no_var_expand
    @line_cell_magic
    def oscope(self, line: str, cell: str | None = None) -> Bench:
        """Measure statements in fresh processes, interleaved, and compare each with the first.

        %oscope [OPTIONS] STATEMENT [--vs STATEMENT]...
        %%oscope [OPTIONS] [SETUP], and statements in the cell; a line --vs parts those that are compared.

        SETUP runs once in each process, outside the clock. Statements see the variables of the session; those
        that they assign are their own, as with %timeit. Options: --quick, --reps N, --precision 2%,
        --budget 30s, --name NAME (repeatable), --gc (leave the garbage collector on), --warmup N,
        --metric NAME, --seed N, --pin CPU.
        """
        try:
            found, rest = self._options(line)
            options = {name: _unquoted(value) for name, value in found.items()}
            if cell is None:
                parts, setup = re.split(r"(?:^|\s)--vs(?=\s|$)", rest), None
            else:
                parts, setup = re.split(r"(?m)^--vs[ \t]*$", cell), rest.strip() or None
            return self._measure([part.strip("\n") for part in parts], setup, options)
        except OscopeError as error:
            fix = f"; {error.remedy}" if error.remedy else ""
            raise ShellUsageError(f"{error.message}{fix}") from None

    def _options(self, line: str) -> tuple[Any, str]:
        """Part the options of a line from the rest; UsageError, in one line with its fix, for a wrong one."""
        try:
            parted: tuple[Any, str] = self.parse_options(
                line, "", *_OPTIONS, posix=False, strict=False, preserve_non_opts=True
            )
        except ShellUsageError as error:
            # getopt's message, and behind it all options as it declares them.
            wrong = re.match(r"option (--?\S*) (.*?)(?= *\(|$)", str(error))
            if wrong is None:
                raise
            name, what = wrong.groups()
            names = [f"--{option.rstrip('=')}" for option in _OPTIONS]
            near = get_close_matches(name, names, n=1)
            fix = (
                f"did you mean {near[0]}?"
                if near and name not in names
                else f"options are {', '.join(names)}"
            )
            raise UsageError(f"%oscope: {name} {what}", remedy=fix) from None
        return parted

    def _measure(self, parts: list[str], setup: str | None, options: dict[str, Any]) -> Bench:
        functions = [self._function(part, _label(part)) for part in parts]
        names = options.pop("name", [])
        options |= {name: _whole(name, options[name]) for name in _NUMBERS if name in options}
        options |= {name: name in options for name in _FLAGS}
        return oscope.bench(
            functions,
            names=names if isinstance(names, list) else [names],
            setup=None if setup is None else self._function(setup, "setup", shared=True),
            **options,
        )

    def _function(self, code: str, label: str, *, shared: bool = False) -> Callable[[], None]:
        """Return a function that runs `code`; `shared`: what it assigns is seen by the others."""
        try:
            plain: str = self._session.transform_cell(code.strip())  # type: ignore[no-untyped-call]
            body = ast.parse(plain).body
            module = ast.parse("def statement(): pass")
            if not body:
                raise UsageError("there is no statement to measure", remedy="write %oscope f(x)")
            names = _assigned(body) if shared else []
            declared: list[ast.stmt] = [ast.Global(names)] if names else []
            module.body[0].body = [*declared, *body]  # type: ignore[attr-defined]
            made: dict[str, Callable[[], None]] = {}
            exec(  # noqa: S102 - the user's own code, as each cell is
                compile(ast.fix_missing_locations(module), "<oscope>", "exec"), self._session.user_ns, made
            )
        except SyntaxError as error:
            raise UsageError(f"{label}: {error.msg}", remedy="write a statement of Python") from None
        function = made["statement"]
        function.__name__ = function.__qualname__ = label
        return function


def _assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements at the top bind."""
    code = compile(ast.Module(body, []), "<oscope>", "exec")
    return sorted({name for name in code.co_names if name.isidentifier()})


def _label(code: str) -> str:
    first, *more = code.strip().splitlines() or [""]
    return first if len(first) <= _LONGEST_LABEL and not more else f"{first[: _LONGEST_LABEL - 1]}…"


def _unquoted(value: Any) -> Any:
    if isinstance(value, list):
        return [_unquoted(each) for each in value]
    quoted = isinstance(value, str) and len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _whole(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise UsageError(f"--{name} {value} is no whole number", remedy=f"write --{name} 10") from None


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics `%oscope` and `%%oscope` to a session: what `%load_ext oscope` calls."""
    shell.register_magics(OscopeMagics)
