"""Which calls of FUSE oscope-fs implements and what each does, as the program itself reports."""

from __future__ import annotations

from oscope import questions as q
from oscope.labs.fs import LAB
from oscope.model.errors import OscopeError
from oscope.probe import filesystem

TITLE = "Which FUSE calls oscope-fs implements"


def section(results: q.Analysed) -> q.Section | None:
    """Show the table of the oscope-fs that is installed where the report is built."""
    if not any(results.get(each.name) for each in LAB.experiments):
        return None
    try:
        version, operations = filesystem.version(), filesystem.operations()
    except OscopeError as error:
        return q.Section(TITLE, "", missing=f"{error}.")
    rows = [[each["name"], "yes" if each["implemented"] else "no", each["what"]] for each in operations]
    done = sum(bool(each["implemented"]) for each in operations)
    return q.Section(
        title=TITLE,
        answer=f"oscope-fs {version} implements {done} of {len(operations)} calls.",
        text=["The table is that of `oscope fs operations`, of the oscope-fs where this report was built."],
        tables=[
            q.Table(
                "The calls of FUSE", ["call", "implemented", "what it does, or what happens instead"], rows
            )
        ],
    )
