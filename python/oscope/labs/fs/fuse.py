"""Which calls of FUSE oscope-fs implements and what each does, as the program itself reports."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from oscope import questions as q
from oscope.labs.fs import LAB
from oscope.model.errors import OscopeError
from oscope.probe.locate import find_filesystem

TITLE = "Which FUSE calls oscope-fs implements"
_LIMIT_S = 20.0
_REMEDY = "build it anew with `make setup`"


def section(results: q.Analysed) -> q.Section | None:
    """Show the table of the oscope-fs that is installed where the report is built."""
    if not any(results.get(each.name) for each in LAB.experiments):
        return None
    try:
        version = _ask("--version").strip().rpartition(" ")[2]
        operations = _read(_ask("operations", "--json"))
    except OscopeError as error:
        return q.Section(TITLE, "", missing=f"{error}.")
    done = [each for each in operations if each["implemented"]]
    rows = [[each["name"], "yes" if each["implemented"] else "no", each["what"]] for each in operations]
    return q.Section(
        title=TITLE,
        answer=f"oscope-fs {version} implements {len(done)} of {len(operations)} calls.",
        text=["The table is that of `oscope fs operations`, of the oscope-fs where this report was built."],
        tables=[
            q.Table(
                "The calls of FUSE", ["call", "implemented", "what it does, or what happens instead"], rows
            )
        ],
    )


def _ask(*words: str) -> str:
    """Return what oscope-fs prints; OscopeError where it is missing or fails."""
    path = find_filesystem()
    try:
        answer = subprocess.run([path, *words], capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise OscopeError(f"{path} {words[0]} failed ({error})", remedy=_REMEDY) from error
    return answer.stdout


def _read(text: str) -> Sequence[Mapping[str, Any]]:
    """Return the rows of the table; OscopeError where the text holds none."""
    try:
        rows = json.loads(text)
        return [{key: row[key] for key in ("name", "implemented", "what")} for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise OscopeError(f"oscope-fs operations printed no table ({error!r})", remedy=_REMEDY) from error
