"""Reports: one self-contained HTML file, and figures for papers. Heavy libraries are imported when needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oscope.model.atomic_write import resolve_output, write_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oscope.model.experiment import Lab
    from oscope.model.samples import Results


def encode(
    results: Results, labs: Sequence[Lab], beside: Sequence[Results] = (), threshold: float | None = None
) -> bytes:
    """Return the report of `results` as an HTML file. Equal results give equal bytes.

    `beside` are results of other machines, which the latency ladder marks. `threshold` is the share from
    which on a difference of interleaved runs matters; None: the usual 1 %.
    """
    from oscope.report import build, page  # noqa: PLC0415 - jinja2 and plotly

    limit = {} if threshold is None else {"threshold": threshold}
    return page.render(build.build(results, labs, beside, **limit)).encode()


def write(results: Results, path: str | Path, labs: Sequence[Lab]) -> Path:
    """Write the report of `results` to the HTML file at `path`, whole or not at all, and return its path.

    Equal results give an equal file, byte for byte. OscopeError where it cannot be written.
    """
    path = Path(path)
    # Asked before the work is done: a large report takes seconds.
    resolve_output(path)
    write_bytes(path, encode(results, labs))
    return path
