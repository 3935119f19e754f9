"""What a fault costs by its kind, and whether two threads fault twice as fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oscope.labs.engine.contrast import compared, row_of
from oscope.labs.engine.drawing import strips
from oscope.labs.engine.quantity import Quantity, figure, plain
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Point, Run, first
from oscope.labs.engine.table import TableOf, count, ratio, text
from oscope.statistics import ComparedMetric, Summary

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


@dataclass(frozen=True)
class Kind:
    """One kind of fault, by one thread and by two."""

    run: Run
    name: str
    two_over_one: ComparedMetric | None

    def by(self, threads: int, quantity: Quantity) -> str:
        """Return a quantity with so many threads."""
        return quantity.text(self.run.experiment, first(self.run.experiment, kind=self.name, threads=threads))

    def of(self, name: str) -> Summary | None:
        """Return a count of one thread, or of two where that was not measured."""
        points = (first(self.run.experiment, kind=self.name, threads=threads) for threads in ENDS)
        return self.run.summary(next(filter(None, points), None), plain("", name))


def _fewest(run: Run) -> list[Point]:
    """Return the points of the fewest threads that have times, the quickest first."""
    found = sorted(run.points("time_ns"), key=lambda each: each.summary.median)
    threads = min((int(each.samples.factors.get("threads", 1)) for each in found), default=0)
    return [each for each in found if each.samples.factors.get("threads", 1) == threads]


def _rows(run: Run) -> list[Kind]:
    rows = compared(run.experiment, [RATE], "threads", ENDS)
    kinds = run.levels("kind") if _fewest(run) else []
    return [
        Kind(run, kind, row_of(rows, RATE, kind=kind)) for kind in kinds if first(run.experiment, kind=kind)
    ]


def _headline(run: Run, _: Sequence[Kind]) -> str:
    ordered = _fewest(run)
    quick, slow = ordered[0], ordered[-1]
    threads = int(quick.samples.factors.get("threads", 1))
    who = "" if threads == 1 else f" by {threads} threads at once"
    text = f"A page fault of kind {quick.level('kind')} takes {quick.value}{who}"
    return f"{text}." if slow is quick else f"{text}; {slow.level('kind')}, the slowest, {slow.value}."


section = Question(
    title="What a page fault costs by its kind",
    experiment="memory.fault",
    rows=_rows,
    headline=_headline,
    text=(
        "A touch is timed with the exception, its handling and the return; getrusage proves one fault a "
        "page. Two threads fault in their own halves of one mapping."
    ),
    tables=(
        TableOf(
            "Faults by kind",
            (
                text("kind", lambda row: row.name),
                text("what it is", lambda row: KIND_WORDS.get(row.name, "")),
                count("faults", lambda row: row.of("faults")),
                text("major", lambda row: None if (n := row.of("major")) is None else figure(n, "")),
                text("time of a fault, 1 thread", lambda row: row.by(1, TIME)),
                text("faults a second, 1 thread", lambda row: row.by(1, RATE)),
                text("2 threads", lambda row: row.by(2, RATE)),
                ratio("2 / 1", lambda row: row.two_over_one, "different"),
            ),
            "Medians with their 95 % intervals; the ratio is paired by block, p corrected (Holm) for all "
            "kinds.",
        )
    ),
    figures=(
        lambda run, _: strips(
            "Time of a page fault by kind", "time", _fewest(run), lambda each: each.level("kind")
        )
    ),
    factors=("kind", "threads", "size"),
)
