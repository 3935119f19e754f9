"""What a fault costs by its kind, and whether two threads fault twice as fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.experiments import dot
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import narrowing, ratio_text, unmeasured
from oscope.labs.memory.sides import compared, figure, first, plain, row_of, shown, told
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, format_count
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.statistics import ComparedMetric, Summary

TITLE = "What a page fault costs by its kind"
TIME = plain("time of a fault", "time_ns", "ns")
RATE = plain("faults a second", "faults_per_s", "faults/s")
ENDS = (1, 2)
KIND_WORDS: Mapping[str, str] = {
    "zero-page": "read of anonymous memory: the page of zeros",
    "anonymous": "write to anonymous memory: a new page",
    "file": "read of a file's page that is in the page cache",
    "file-major": "read of a file's page that is on the device only",
    "copy-on-write": "write after fork",
    "huge": "write to a huge page of 2 MiB",
    "swap-in": "access to a page that was swapped out",
}


def section(results: Analysed) -> Section | None:
    """Tell the cost by kind, and how it scales."""
    experiment = results.get("memory.fault")
    if experiment is None:
        return None
    missing = unmeasured(experiment)
    counts = sorted({int(point.factors.get("threads", 1)) for point in shown(experiment)})
    known: list[tuple[PointSamples, Summary]] = []
    for threads in counts:
        known = [
            (point, each)
            for point in shown(experiment)
            if point.factors.get("threads", 1) == threads
            and (each := results.summary(experiment, point, "time_ns")) is not None
        ]
        if known:
            break
    if not known:
        return Section(TITLE, "", missing=missing) if missing else None
    rows = compared(experiment, [RATE], "threads", ENDS)
    return Section(
        title=TITLE,
        answer=" ".join([_span(known), *_scaling(experiment, rows)]),
        text=[
            (
                "A touch is timed with the exception, its handling and the return; getrusage proves one "
                "fault a page, and which were major. Two threads fault in their own halves of the same "
                "mapping: what they share is the address space and what the kernel takes pages from. The "
                "ipc lab traces the same faults (`trace.fault`)."
            ),
            *narrowing(experiment, ("kind", "threads", "size", "tracer")),
        ],
        tables=[_table(experiment, rows)],
        figures=[_figure(results, experiment, known)],
        missing=missing,
    )


def _span(known: Sequence[tuple[PointSamples, Summary]]) -> str:
    """Name the quickest and the slowest kind, and every one between."""
    ordered = sorted(known, key=lambda pair: pair[1].median)
    told_kinds = [f"{point.factors.get('kind')} {median(each, 'ns')}" for point, each in ordered]
    threads = int(ordered[0][0].factors.get("threads", 1))
    who = "one thread" if threads == 1 else f"{threads} threads at once"
    return f"A fault by {who} takes, by kind: {listed(told_kinds)}."


def _scaling(experiment: ExperimentResults, rows: Sequence[ComparedMetric]) -> list[str]:
    parts = []
    for kind in _kinds(experiment):
        row = row_of(rows, RATE, kind=kind)
        if row is not None:
            parts.append(f"{kind} {told(row)}")
    return [f"Two threads fault, against one: {'; '.join(parts)}."] if parts else []


def _kinds(experiment: ExperimentResults) -> list[Level]:
    return list(
        dict.fromkeys(point.factors["kind"] for point in shown(experiment) if "kind" in point.factors)
    )


def _table(experiment: ExperimentResults, rows: Sequence[ComparedMetric]) -> Table:
    lines = []
    for kind in _kinds(experiment):
        one, two = (first(experiment, kind=kind, threads=count) for count in ENDS)
        known = two if one is None else one
        faults = None if known is None else plain("", "faults").summary(experiment, known)
        major = None if known is None else plain("", "major").summary(experiment, known)
        lines.append(
            [
                str(kind),
                KIND_WORDS.get(str(kind), ""),
                MISSING if faults is None else format_count(faults.median),
                MISSING if major is None else figure(major, ""),
                TIME.text(experiment, one),
                RATE.text(experiment, one),
                RATE.text(experiment, two),
                ratio_text(row_of(rows, RATE, kind=kind)),
            ]
        )
    columns = [
        "kind",
        "what it is",
        "faults",
        "major",
        "time of a fault, 1 thread",
        "faults a second, 1 thread",
        "2 threads",
        "2 / 1 (95 %)",
    ]
    note = (
        "Medians with their 95 % intervals; the ratio is paired by block, p corrected (Holm) for all kinds."
    )
    return Table("Faults by kind", columns, lines, frozenset({2}), note)


def _figure(
    results: Analysed, experiment: ExperimentResults, known: Sequence[tuple[PointSamples, Summary]]
) -> Figure:
    scale = shared_scale([each for _, each in known], "ns")
    dots = [
        dot(
            results,
            experiment,
            (point, "time_ns"),
            scale,
            name=f"{point.factors.get('kind')}",
            colour=0,
        )
        for point, _ in sorted(known, key=lambda pair: pair[1].median)
    ]
    note = "Faint: single repetitions. Diamond: median with its 95 % interval."
    return plots.strips("Time of a page fault by kind", f"time [{scale.unit}]", dots, note)
