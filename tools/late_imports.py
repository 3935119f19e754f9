"""Counts what Oscope imports only when it is needed: imports inside functions, and own modules by a string.

    python tools/late_imports.py

Prints each that has no reason, as a comment on its line, and the number if there are MOST or more; the exit
code is then 1. An import inside a function has its reason after `noqa: PLC0415 -`, an own module that is
imported by a string after `late import:`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 40
_REASON = re.compile(r"#.*(?:noqa: PLC0415 - |late import: )(?P<reason>\S.*)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_BY_STRING = ("import_module", "__import__")


@dataclass(frozen=True)
class LateImport:
    """An import that is carried out after that of its module."""

    line: int
    reason: str | None


def late_imports(source: str) -> Iterator[LateImport]:
    """Yield the late imports of a module."""
    lines = source.splitlines()
    for node in _nodes(ast.parse(source), inside=False):
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        found = _REASON.search(text)
        yield LateImport(node.lineno, found and found["reason"])


def _nodes(node: ast.AST, *, inside: bool) -> Iterator[ast.stmt | ast.expr]:
    """Yield what imports late below a node; `inside` says whether that is in a function."""
    if (isinstance(node, ast.Import | ast.ImportFrom) and inside) or (
        isinstance(node, ast.Call) and _imports_own_module(node)
    ):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child, inside=inside or isinstance(node, _FUNCTIONS))


def _imports_own_module(call: ast.Call) -> bool:
    """Say whether a call imports a module of Oscope by a string, or one that the source does not name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    if name not in _BY_STRING or not call.args:
        return False
    module = call.args[0]
    return not isinstance(module, ast.Constant) or str(module.value).split(".")[0] == "oscope"


def main() -> int:
    """Check all modules of Oscope; return 1 where there is something to report."""
    number, problems = 0, []
    for path in sorted((ROOT / "python" / "oscope").rglob("*.py")):
        for each in late_imports(path.read_text()):
            number += 1
            if each.reason is None:
                problems.append(f"{path.relative_to(ROOT)}:{each.line}: a late import without its reason")
    if number >= MOST:
        problems.append(f"{number} late imports: at most {MOST - 1} are allowed")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
