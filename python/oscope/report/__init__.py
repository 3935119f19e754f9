"""Reports: one self-contained HTML file, and figures for papers. Heavy libraries are imported when needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oscope.experiment import Lab
    from oscope.samples import Results


def write(results: Results, path: str | Path, labs: Sequence[Lab]) -> Path:
    """Write the report of `results` to the HTML file at `path`, whole or not at all, and return its path.

    Equal results give an equal file, byte for byte. OscopeError where it cannot be written.
    """
    from oscope.record import write_whole
    from oscope.report.build import build
    from oscope.report.page import render

    path = Path(path)
    # Asked before the work is done: a large report takes seconds.
    if not path.parent.is_dir():
        from oscope.errors import OscopeError

        raise OscopeError(
            f"{path} cannot be written: there is no folder {path.parent}", remedy=f"mkdir -p {path.parent}"
        )
    write_whole(path, render(build(results, labs)).encode())
    return path
