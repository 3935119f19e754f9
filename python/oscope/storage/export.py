"""Writes all samples of runs to a file that other programs read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal, get_args

from oscope.model.errors import UsageError
from oscope.model.samples import Results
from oscope.storage.record import to_json, write_out

Format = Literal["csv", "parquet", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export(results: Results, form: str, destination: str | Path) -> None:
    """Write `results` to a file, whole or not at all; `-` is standard output.

    `csv` and `parquet` hold the table of `oscope.storage.frames.to_frame`, `json` the records of
    `oscope.storage.record`. Inspections are in the records alone. Raises UsageError for another form and for
    a table of inspections, OscopeError where the file cannot be written.
    """
    write_out(encode(results, form), destination)


def encode(results: Results, form: str) -> bytes:
    """Return the content of the file that `export` writes. Raises UsageError as it does."""
    if form == "json":
        return to_json(results)
    if form not in FORMATS:
        raise UsageError(f"{form!r} is not a format of export", remedy=f"there is {', '.join(FORMATS)}")
    if results.inspections and not results.experiments:
        raise UsageError("an inspection has no samples to make a table of", remedy="--format json has it")
    from oscope.storage.frames import to_frame  # noqa: PLC0415 - pandas, half a second

    frame = to_frame(results)
    if form == "csv":
        return frame.to_csv(index=False).encode()
    # Experiments may give a factor of one name different types; a column of a Parquet file has one.
    for name in frame.columns:
        kinds = (
            {type(value) for value in frame[name].dropna().unique()} if frame[name].dtype == object else set()
        )
        if len(kinds) > 1:
            frame[name] = frame[name].astype("string")
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
