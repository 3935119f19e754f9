"""Whether zeros move faster than random bytes: the original report saw it, and guessed the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median as middle

import scipy

from oscope.figures.words import counted, listed
from oscope.labs.engine.contrast import compared
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, number, ratio, text
from oscope.labs.engine.words import times
from oscope.labs.transfer import CONTENTS, reference
from oscope.labs.transfer.points import COPIED, way
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

TITLE = "Zeros against random bytes"
METRICS = (COPIED.sender, COPIED.receiver, "cpu_s_per_gib", "receiver_cpu_s_per_gib")


def _compared(run: Run) -> list[ComparedMetric]:
    """Return random over zeros for each metric at each size and way, by rising size (Holm for all)."""
    rows = compared(run.experiment, METRICS, "content", (CONTENTS[0], CONTENTS[1]))
    return sorted(rows, key=lambda row: int(row.factors["size"]))


def _headline(_: Run, rows: Sequence[ComparedMetric]) -> str:
    here = [row for row in rows if row.metric == COPIED.receiver] or rows
    apart = [row for row in here if row.different == "yes"]
    if not apart:
        return f"The content makes no difference that was found at {counted(len(here), 'point')}."
    most = max(apart, key=lambda row: abs(row.ratio - 1))
    place = f"{way(most.factors)}, {format_bytes(int(most.factors['size']))}"
    where = f"at {len(apart)} of {counted(len(here), 'point')}"
    return f"Random bytes take another time than zeros {where}, most at {place}: {times(most)}."


def _received(method: str) -> tuple[Sequence[float], Sequence[float]]:
    """Return the original report's times in ms, of zeros and of random bytes."""
    zeros, random = (reference.RECEIVER[method, each] for each in CONTENTS)
    return zeros, random


def by_group(method: str) -> float:
    """Return what of the original's difference the numbers of executions in its late group make, in ms.

    The step is that of the series with zeros, which has both groups by either method.
    """
    early, late = reference.groups(reference.RECEIVER[method, CONTENTS[0]])
    border = (max(early) + min(late)) / 2
    zeros, random = (sum(value > border for value in values) / len(values) for values in _received(method))
    return (random - zeros) * (middle(late) - middle(early))


def _apart(method: str) -> float:
    zeros, random = _received(method)
    return sum(random) / len(random) - sum(zeros) / len(zeros)


def _within(method: str) -> str:
    """Return the difference within each group that both contents have, with its p."""
    zeros, random = (reference.groups(values) for values in _received(method))
    shared = ((a, b) for a in zeros for b in random if abs(middle(a) - middle(b)) < reference.GAP_MS)
    return listed(
        [
            f"{middle(b) - middle(a):+.1f} near {middle(a):.0f} (p "
            f"{scipy.stats.mannwhitneyu(a, b, method='exact').pvalue:.2f})"
            for a, b in shared
        ]
    )


def _groups(content: str, method: str) -> str:
    return reference.groups_text(reference.RECEIVER[method, content])


ORIGINAL: TableOf[str] = TableOf(
    "The original report's difference between random bytes and zeros",
    (
        text("method", lambda method: method),
        *(text(f"{content}: groups [ms] (n)", partial(_groups, content)) for content in CONTENTS),
        number("averages apart [ms]", _apart, ".0f"),
        number("by more in the late group [ms]", by_group, ".0f"),
        text("within a group [ms]", _within),
    ),
    "Within a group: random less zeros, p of the rank sum test, exact, uncorrected. The report guessed the "
    "CPU.",
)


section: Question[ComparedMetric] = Question(
    title=TITLE,
    experiment="transfer.large",
    rows=_compared,
    headline=_headline,
    tables=(
        TableOf(
            TITLE,
            (
                text("size", lambda row: format_bytes(int(row.factors["size"]))),
                text("method", lambda row: way(row.factors)),
                text("metric", lambda row: row.metric),
                ratio("random / zeros", lambda row: row, "different", "matters"),
            ),
            "Paired by block, p corrected (Holm) for all rows.",
        ),
        lambda *_: ORIGINAL.of(reference.METHODS),
    ),
    timed=True,
)
