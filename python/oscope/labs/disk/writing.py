"""Writing speed by block size and kind of synchronisation, and the file size that is read in 5 to 15 s."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures.words import listed
from oscope.labs.engine.curves import (
    RATE,
    RATE_UNIT,
    At,
    Curves,
    curve,
    curves_by,
    ratios,
    several,
    size_columns,
    sizes_of,
    source,
)
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run, narrowing
from oscope.labs.engine.table import TableOf, ratio, stat, text
from oscope.labs.engine.words import NOT_RUN, joined, reasons, value
from oscope.model.document import Figure, Table
from oscope.model.formatting import MISSING, format_value
from oscope.model.units import format_bytes

WRITE, READ = "disk.write", "disk.read"
SYNCS = ("none", "fdatasync", "direct")
MEBIBYTE = 1 << 20
LEAST_S, MOST_S = 5.0, 15.0
"""The time in which the original report wants its file to be read."""
SYNC = (
    "`none` returns when the data are in the page cache; `fdatasync` waits once at the end until the device "
    "has them; `direct` writes past the page cache."
)
PREDICTED = (
    "A cache below the kernel may make a large file slower or faster than predicted; `oscope disk "
    "size` reads."
)
READ_IN: TableOf[At] = TableOf(
    "The file that is read in a reasonable time, predicted from cold reads of {what}",
    (
        text("block size", lambda at: at.name),
        stat("cold", lambda at: at.summary, RATE_UNIT),
        text(f"read in {LEAST_S:g} s", lambda at: _size(at, LEAST_S)),
        text(f"read in {MOST_S:g} s", lambda at: _size(at, MOST_S)),
        text("a power of two between", lambda at: _power(at)),
    ),
)


def _written(run: Run) -> Curves:
    own = run.beside(WRITE)
    return curves_by(own, RATE, "sync", SYNCS) if own else {}


def _cold(run: Run) -> list[At]:
    own = run.beside(READ)
    return curve(own, RATE, engine="read", cache="cold") if own else []


def _missing(run: Run) -> str:
    absent = [f"{NOT_RUN.format(name, name)}." for name in (WRITE, READ) if run.beside(name) is None]
    return joined(*absent, reasons(own.experiment) if (own := run.beside(WRITE)) else "")


def _headline(run: Run, _: object) -> str:
    tops = {sync: max(found, key=lambda each: each.summary.median) for sync, found in _written(run).items()}
    if not tops:
        return _reading(_cold(run))
    parts = [f"{value(at.summary, RATE_UNIT)} with sync={sync}" for sync, at in list(tops.items())[:2]]
    return f"A file is written at up to {listed(parts)}."


def _reading(cold: Sequence[At]) -> str:
    sizes = [
        f"{_size(at, LEAST_S)} to {_size(at, MOST_S)} by blocks of {at.name}" for at in (cold[0], cold[-1])
    ]
    return (
        f"A file that is read cold in {LEAST_S:g} to {MOST_S:g} s should have "
        f"{' and '.join(dict.fromkeys(sizes))} (predicted from the measured speed)."
    )


def _size(each: At, seconds: float) -> str:
    size = each.summary.median * MEBIBYTE * seconds
    return format_value(size, size / 5, "B")


def _power(each: At) -> str | None:
    """Return the largest power of two that is read in the time allowed; None if it is read too soon."""
    speed = each.summary.median
    most = int(speed * MEBIBYTE * MOST_S)
    size = 1 << (most.bit_length() - 1) if most > 0 else 0
    if size / MEBIBYTE < speed * LEAST_S:
        return None
    return f"{format_bytes(size)} ({size / MEBIBYTE / speed:.2g} s)"


def _details(run: Run, _: object) -> list[str]:
    write = run.beside(WRITE)
    said = []
    if write and _written(run):
        said += [SYNC, *narrowing(write.experiment, ("sync", "block_size"))]
    return [*said, PREDICTED] if _cold(run) else said


def _tables(run: Run, _: object) -> list[Table]:
    write, read, written, cold, tables = run.beside(WRITE), run.beside(READ), _written(run), _cold(run), []
    if write and written:
        synced = ratios(write, RATE, "sync", ("fdatasync", "none"))
        over = [ratio("time with fdatasync / none", synced.get, "different")] if synced else []
        note = f"Medians. {MISSING}: not measured; past the page cache only whole pages are written."
        title = f"Writing speed by block size, file of {source(write.experiment, written)}"
        columns = (*size_columns(written, RATE_UNIT), *over)
        tables.append(TableOf(title, columns, note).of(sizes_of(written)))
    if read and cold:
        tables.append(READ_IN.of(cold, what=source(read.experiment, {"cold": cold})))
    return tables


def _figures(run: Run, _: object) -> list[Figure]:
    write, written = run.beside(WRITE), _written(run)
    what = source(write.experiment, written) if write else ""
    return several(f"Speed of writing a file of {what}, by block size", written, RATE_UNIT)


section = Question(
    title="Writing, and how large a file must be",
    experiment=(WRITE, READ),
    rows=lambda run: [*_written(run), *_cold(run)],
    headline=_headline,
    text=(_details),
    tables=(_tables),
    figures=(_figures),
    missing=_missing,
)
