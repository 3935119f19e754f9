"""The tables of OS Project 2, from a run: through its devices in a guest, and through user space here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import mean

from oscope.assignments.tables import (
    Cited,
    Heads,
    Line,
    Runs,
    Source,
    Unit,
    guest,
    iterations,
    own_scale,
    sizes,
    table,
)
from oscope.assignments.transfer import NO_DEVICES, NOT_QUICK
from oscope.figures.analysed import Analysed
from oscope.figures.answer_text import listed
from oscope.labs import transfer
from oscope.labs.transfer import DEVICE_INPUTS
from oscope.model.document import Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, bounded_text, format_count
from oscope.originals import transfer as reference
from oscope.originals.sizes import SMALL, TARGET
from oscope.statistics import compare_within

MILLISECONDS = Unit("ms", 1e6, "ns")
DEVICES, USER_SPACE = "devices", "user space"
WAYS = (DEVICES, USER_SPACE)
BY = {DEVICES: "through the devices", USER_SPACE: "through user space"}
TIMES = {
    DEVICES: {"slave": "time_ns", "master": "sender_time_ns"},
    USER_SPACE: {"slave": "receiver_time_ns", "master": "time_ns"},
}
"""The metric of each side's time, by the way in which the files go."""
RESULTS = {"fcntl": "File I/O", "mmap": "Memory-mapped I/O"}
PRINTED = {5: 2275, 10: 3018}
"""Bytes that the document prints for five and for ten files."""
PATHS = "Devices: through the kernel modules in a guest. User space: by oscope-probe on this machine."


def _paths(results: Analysed) -> str:
    return f"{PATHS} {guest(results, 'transfer.device')}".strip()


def _left_out(side: str, method: str, content: str) -> str:
    """Say that the document's average is without its first run, where it is."""
    if side != "master" or (method, content) not in reference.WITHOUT_FIRST:
        return ""
    return " The original's average leaves out its first run, which waited for a person."


def _source(way: str, name: str, side: str, method: str, levels: Mapping[str, Level]) -> Source:
    """Return where the time of a side comes from; `name` is `small` or `inputs`."""
    if way == DEVICES:
        experiment = {"small": "transfer.device", "inputs": "transfer.device-inputs"}[name]
        return Source(experiment, TIMES[way][side], {**levels, "method": method})
    own = reference.METHODS[method]
    return Source(f"transfer.{name}", TIMES[way][side], {**levels, "sender": own, "receiver": own})


def _missing(results: Analysed, source: Source) -> str:
    if source.summary(results) is not None:
        return ""
    if source.find(results) is not None:
        return source.reason(results)
    if source.experiment == DEVICE_INPUTS.name and results.get("transfer.device") is not None:
        return f"{DEVICE_INPUTS.name}: {NOT_QUICK}. `oscope assignment transfer` measures it."
    return NO_DEVICES


def _one(method: str) -> Callable[[Analysed], Section]:
    """Return what draws one file an execution."""

    def draw(results: Analysed) -> Section:
        lines = []
        for index, size in enumerate((*SMALL, TARGET)):
            levels: dict[str, Level] = {"sizes": "equal", "files": 1, "size": size}
            cited = reference.TARGET_FILE[method] if size == TARGET else reference.SMALL_FILES[method][index]
            sources = [_source(way, "small", "slave", method, levels) for way in WAYS]
            lines.append(Line([f"{format_count(size)} bytes"], [f"{cited:.4f}"], sources))
        heads = Heads(
            ["File size"],
            ["Transmission time [ms]"],
            [("Time, devices", MILLISECONDS), ("Time, user space", MILLISECONDS)],
        )
        note = f"Times of the slave (receiver). {_paths(results)} The original sent each file once."
        shown = table(results, f"{RESULTS[method]}: 1 file in one execution", heads, lines, note)
        text = "; ".join(_brief(results, line) for line in (lines[0], lines[-1]))
        answer = f"{text}." if any(line.sources[1].summary(results) for line in lines) else ""
        return Section("", answer, tables=[shown], missing=_missing(results, lines[0].sources[0]))

    return draw


def _brief(results: Analysed, line: Line) -> str:
    """Give the averages of one file size, and the document's single figure."""
    averages = _averages(results, dict(zip(WAYS, line.sources, strict=True)))
    return f"{line.names[0]}: {listed(averages) or 'not measured'} (original: {line.cited[0]} ms, once)"


def _several(method: str, files: int) -> Callable[[Analysed], Section]:
    """Return what draws five or ten files an execution."""

    def draw(results: Analysed) -> Section:
        levels: dict[str, Level] = {"sizes": "document", "files": files}
        cited = reference.EXECUTION[files][method]
        average = reference.AVERAGE[files][method]
        sources = {way: _source(way, "small", "slave", method, levels) for way in WAYS}
        shown = _runs(
            results,
            f"{RESULTS[method]}: {files} files in one execution",
            (cited, average),
            sources,
            (
                f"Times of the slave (receiver). {_paths(results)} The original prints "
                f"{format_count(PRINTED[files])} bytes; here {files} files have "
                f"{format_count(sum(SMALL[-files:]))}."
            ),
        )
        return _section(results, shown, sources, average)

    return draw


def _theirs(side: str, method: str, content: str) -> float:
    """Return the document's average of the large inputs in ms: as printed, to all its digits."""
    return mean(reference.averaged(_inputs(side), (method, content)) or ())


def _inputs(side: str) -> reference.Inputs:
    return reference.SENDER if side == "master" else reference.RECEIVER


def _large(method: str, side: str, content: str) -> Callable[[Analysed], Section]:
    """Return what draws the five large inputs in one execution."""

    def draw(results: Analysed) -> Section:
        levels: dict[str, Level] = {"sizes": "large", "content": content}
        average = _theirs(side, method, content)
        sources = {way: _source(way, "inputs", side, method, levels) for way in WAYS}
        cited = _inputs(side)[method, content]
        shown = _runs(
            results,
            f"{RESULTS[method]}, {side}, {content}",
            (cited, average),
            sources,
            (
                f"{_paths(results)} The original prints {format_count(reference.PRINTED_BYTES)} bytes for "
                f"the five inputs; here they have {format_count(sum(transfer.SIZES))}, and all are sent. "
                f"{sizes(results, 'transfer.inputs')}{_left_out(side, method, content)}"
            ),
        )
        return _section(results, shown, sources, average)

    return draw


def _section(results: Analysed, table: Table, sources: Mapping[str, Source], average: float) -> Section:
    """Return the table, with the averages in a sentence."""
    averages = _averages(results, sources)
    text = f"On average {listed(averages)}; the original's average is {average:.5g} ms." if averages else ""
    return Section("", text, tables=[table], missing=_missing(results, sources[DEVICES]))


def _averages(results: Analysed, sources: Mapping[str, Source]) -> list[str]:
    parts = []
    for way, source in sources.items():
        summary = source.summary(results)
        if summary is not None:
            own = own_scale(MILLISECONDS.scale([summary]), summary)
            parts.append(f"{own.with_unit(summary.mean)} (std {own.text(summary.std)}) {BY[way]}")
    return parts


def _runs(
    results: Analysed,
    title: str,
    theirs: tuple[Sequence[float], float],
    sources: Mapping[str, Source],
    note: str,
) -> Table:
    values, average = theirs
    kept = {way: source for way, source in sources.items() if source.summary(results) is not None}
    kept = kept or {USER_SPACE: sources[USER_SPACE]}
    cited = [Cited("Transmission time [ms]", values, {"mean": average})]
    runs = [Runs(f"Transmission time, {way}", source, MILLISECONDS) for way, source in kept.items()]
    return iterations(results, title, cited, runs, note)


def integrity(results: Analysed) -> Section | None:
    """sha512 of every received file against the sent one's."""
    experiment = results.get("transfer.copy")
    if experiment is None:
        return None
    rows = []
    for point in experiment.points:
        if point.factors.get("digest") != "sha512" or not len(point):
            continue
        failed = len(point.failed)
        rows.append(
            [
                str(point.factors.get("content")),
                str(point.factors.get("sender")),
                format_count(int(point.factors["size"])),
                format_count(len(point)),
                format_count(failed),
                "yes" if not failed else "no",
            ]
        )
    if not rows:
        return None
    columns = ["content", "method", "bytes of a file", "files sent", "failed", "sha512 equal in all"]
    note = (
        "The receiver computes sha512 of each file it has written and compares it with the sender's; a file "
        "that differs is a failed sample."
    )
    equal = sum(int(row[3]) for row in rows if row[5] == "yes")
    answer = f"sha512 of the received file equals the sent one's in {equal} of {_total(rows)} transfers."
    shown = Table("Integrity", columns, rows, frozenset({2, 3, 4}), note)
    return Section("", answer, tables=[shown])


def content(results: Analysed) -> Section | None:
    """Compare zeros with random bytes, paired by block."""
    experiment = results.get("transfer.inputs")
    if experiment is None:
        return None
    time = TIMES[USER_SPACE]["slave"]
    rows, parts = [], []
    narrow = replace(experiment, metrics={time: experiment.metrics[time]})
    for found in compare_within(narrow, "content", "random", "zeros").rows:
        method = str(found.factors.get("sender"))
        theirs = next(name for name, own in reference.METHODS.items() if own == method)
        cited = _theirs("slave", theirs, "zeros") / _theirs("slave", theirs, "random")
        ratio = bounded_text(found.ratio, *found.ci95)
        rows.append([RESULTS[theirs], f"{cited:.2f}", ratio, found.different])
        parts.append(
            f"{RESULTS[theirs]}: zeros take {ratio} times as long as random bytes (original: {cited:.2f})"
        )
    if not rows:
        return None
    columns = ["method", "original: zeros / random", "zeros / random (95 % interval)", "different"]
    note = (
        "The slave's time of the five large inputs, through user space; ours is paired by block, with p "
        "corrected (Holm). The original's is the ratio of its averages."
    )
    return Section(
        "", f"{'; '.join(parts)}.", tables=[Table("Zeros and random bytes", columns, rows, note=note)]
    )


def _total(rows: list[list[str]]) -> str:
    return str(sum(int(row[3]) for row in rows)) if rows else MISSING


DRAWN: Mapping[str, Callable[[Analysed], Section | None]] = {
    **{f"{method}-1": _one(method) for method in RESULTS},
    **{f"{method}-{files}": _several(method, files) for method in RESULTS for files in (5, 10)},
    **{
        f"{method}-{side}-{content}": _large(method, side, content)
        for method in RESULTS
        for side in ("master", "slave")
        for content in transfer.CONTENTS
    },
    "integrity": integrity,
    "content": content,
}
"""By the key of the step."""
