"""Writing speed by block size and kind of synchronisation, and the file size that is read in 5 to 15 s."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import (
    NOT_RUN,
    RATE,
    RATE_UNIT,
    At,
    Curves,
    cells,
    curve,
    narrowing,
    over_sizes,
    ratios,
    sizes_of,
    source,
    unmeasured,
)
from oscope.model.document import Section, Table
from oscope.model.formatting import MISSING, bounded_text, format_value
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes

SYNCS = ("none", "fdatasync", "direct")
MEBIBYTE = 1 << 20
LEAST_S, MOST_S = 5.0, 15.0
"""The time in which the document wants its file to be read."""


def section(results: Analysed) -> Section | None:
    """Answer C1 and C2."""
    write, read = results.get("disk.write"), results.get("disk.read")
    if write is None and read is None:
        return None
    cold = [] if read is None else curve(results, read, RATE, engine="read", cache="cold")
    written: Curves = {} if write is None else _written(results, write)
    missing = _missing(write, read)
    title = "Writing, and how large a file must be"
    if not written and not cold:
        return Section(title, "", missing=missing) if missing else None
    tables, figures, told, text = [], [], [], []
    if write is not None and written:
        told += _fastest(written) + _synced(write)
        what = source(write, written)
        tables.append(_table(written, what))
        if len(sizes_of(written)) > 1:
            figures.append(
                over_sizes(f"Speed of writing a file of {what}, by block size", written, RATE_UNIT)
            )
        text.append(
            "`none` returns when the data are in the page cache; `fdatasync` waits, once at the end, until "
            "the device has them; `direct` writes past the page cache."
        )
        text += narrowing(write, ("sync",))
    if read is not None and cold:
        told.append(_reading(cold))
        tables.append(_sizes(cold, source(read, {"cold": cold})))
        text.append(
            f"The file that is read in {LEAST_S:g} to {MOST_S:g} s is predicted: cold speed × time. `oscope "
            "disk size` finds it by reading, and a cache below the kernel may make a large file slower or "
            "faster than this."
        )
    return Section(title, " ".join(told), text, tables, figures, missing)


def _written(results: Analysed, write: ExperimentResults) -> Curves:
    curves = {sync: curve(results, write, RATE, sync=sync) for sync in SYNCS}
    return {sync: found for sync, found in curves.items() if found}


def _missing(write: ExperimentResults | None, read: ExperimentResults | None) -> str:
    names = (("disk.write", write), ("disk.read", read))
    absent = [NOT_RUN.format(name, name) for name, experiment in names if experiment is None]
    reasons = [unmeasured(write)] if write is not None else []
    return " ".join([*(f"{each}." for each in absent), *filter(None, reasons)])


def _fastest(written: Curves) -> list[str]:
    told = []
    for sync, found in written.items():
        top = max(found, key=lambda each: each.summary.median)
        told.append(f"{median(top.summary, RATE_UNIT)} with {sync} (blocks of {top.name})")
    return [f"A file is written at up to {listed(told)}."]


def _synced(write: ExperimentResults) -> list[str]:
    """Tell what waiting for the device costs, where it costs most."""
    rows = ratios(write, RATE, "sync", ("fdatasync", "none"))
    if not rows:
        return []
    apart = {size: row for size, row in rows.items() if row.different == "yes"}
    if not apart:
        return ["Having it on the device by fdatasync was not found to take longer."]
    most = max(apart, key=lambda size: abs(apart[size].ratio - 1))
    row = apart[most]
    word = "as long" if row.ratio > 1 else "of the time"
    return [
        (
            f"Having it on the device by fdatasync takes {bounded_text(row.ratio, *row.ci95)} times {word} "
            f"at {format_bytes(most)}."
        )
    ]


def _table(written: Curves, what: str) -> Table:
    scale = shared_scale([each.summary for found in written.values() for each in found], RATE_UNIT)
    rows = []
    for size in sizes_of(written):
        row = [format_bytes(size)]
        for found in written.values():
            at = next((each for each in found if each.size == size), None)
            row += cells(at.summary if at else None, scale)
        rows.append(row)
    columns = ["block size"]
    for sync in written:
        columns += [f"{sync} [{scale.unit}]", f"95 % [{scale.unit}]"]
    note = f"Medians. {MISSING}: not measured; past the page cache only whole pages are written."
    return Table(
        f"Writing speed by block size, file of {what}", columns, rows, frozenset(range(1, len(columns))), note
    )


def _reading(cold: Sequence[At]) -> str:
    low, high = cold[0], cold[-1]
    told = [
        f"{_size(each, LEAST_S)} to {_size(each, MOST_S)} by blocks of {each.name}" for each in (low, high)
    ]
    return (
        f"A file that is read cold in {LEAST_S:g} to {MOST_S:g} s should have "
        f"{' and '.join(dict.fromkeys(told))} (predicted from the measured speed)."
    )


def _size(each: At, seconds: float) -> str:
    size = each.summary.median * MEBIBYTE * seconds
    return format_value(size, size / 5, "B")


def _sizes(cold: Sequence[At], what: str) -> Table:
    scale = shared_scale([each.summary for each in cold], RATE_UNIT)
    rows = []
    for each in cold:
        size = _power(each)
        seconds = "" if size is None else f"{size / MEBIBYTE / each.summary.median:.2g} s"
        rows.append(
            [
                each.name,
                *cells(each.summary, scale),
                _size(each, LEAST_S),
                _size(each, MOST_S),
                MISSING if size is None else f"{format_bytes(size)} ({seconds})",
            ]
        )
    columns = [
        "block size",
        f"cold [{scale.unit}]",
        f"95 % [{scale.unit}]",
        f"read in {LEAST_S:g} s",
        f"read in {MOST_S:g} s",
        "a power of two between",
    ]
    title = f"The file that is read in a reasonable time, predicted from cold reads of {what}"
    return Table(title, columns, rows, frozenset({1, 2}))


def _power(each: At) -> int | None:
    """Return the largest power of two that is read in the time allowed; None if it is read too soon."""
    most = int(each.summary.median * MEBIBYTE * MOST_S)
    size = 1 << (most.bit_length() - 1) if most > 0 else 0
    return size if size / MEBIBYTE >= each.summary.median * LEAST_S else None
