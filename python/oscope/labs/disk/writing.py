"""Writing speed by block size and kind of synchronisation, and the file size that is read in 5 to 15 s."""

from __future__ import annotations

from oscope.figures.analysed import Analysed
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
from oscope.labs.engine.run import Run, narrowing
from oscope.labs.engine.table import TableOf, ratio, stat, text
from oscope.labs.engine.words import NOT_RUN, reasons, value
from oscope.model.document import Section
from oscope.model.formatting import MISSING, format_value
from oscope.model.units import format_bytes

TITLE = "Writing, and how large a file must be"
SYNCS = ("none", "fdatasync", "direct")
MEBIBYTE = 1 << 20
LEAST_S, MOST_S = 5.0, 15.0
"""The time in which the original report wants its file to be read."""
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


def section(results: Analysed) -> Section | None:
    """Answer C1 and C2."""
    write, read = Run.of(results, "disk.write"), Run.of(results, "disk.read")
    if write is None and read is None:
        return None
    cold = curve(results, read.experiment, RATE, engine="read", cache="cold") if read else []
    written = curves_by(write, RATE, "sync", SYNCS) if write else {}
    missing = _missing(write, read)
    if not written and not cold:
        return Section(TITLE, "", missing=missing) if missing else None
    said, tables, figures = [], [], []
    if write and written:
        what = source(write.experiment, written)
        synced = ratios(write.experiment, RATE, "sync", ("fdatasync", "none"))
        over = [ratio("time with fdatasync / none", synced.get, "different")] if synced else []
        columns = (*size_columns(written, RATE_UNIT), *over)
        note = f"Medians. {MISSING}: not measured; past the page cache only whole pages are written."
        title = f"Writing speed by block size, file of {what}"
        tables.append(TableOf(title, columns, note).of(sizes_of(written)))
        figures = several(f"Speed of writing a file of {what}, by block size", written, RATE_UNIT)
        said += [
            (
                "`none` returns when the data are in the page cache; `fdatasync` waits once at the end until "
                "the device has them; `direct` writes past the page cache."
            ),
            *narrowing(write.experiment, ("sync", "block_size")),
        ]
    if read and cold:
        said += [
            (
                "A cache below the kernel may make a large file slower or faster than predicted; `oscope "
                "disk size` reads."
            ),
        ]
        tables.append(READ_IN.of(cold, what=source(read.experiment, {"cold": cold})))
    return Section(TITLE, _headline(written, cold), said, tables, figures, missing)


def _missing(write: Run | None, read: Run | None) -> str:
    names = (("disk.write", write), ("disk.read", read))
    absent = [f"{NOT_RUN.format(name, name)}." for name, run in names if run is None]
    return " ".join(filter(None, [*absent, reasons(write.experiment) if write else ""]))


def _headline(written: Curves, cold: list[At]) -> str:
    tops = {sync: max(found, key=lambda each: each.summary.median) for sync, found in written.items()}
    if not tops:
        return _reading(cold)
    parts = [f"{value(at.summary, RATE_UNIT)} with sync={sync}" for sync, at in list(tops.items())[:2]]
    return f"A file is written at up to {listed(parts)}."


def _reading(cold: list[At]) -> str:
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
