"""Whether zeros move faster than random bytes: the original report saw it, and guessed the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median as middle

import scipy

from oscope.figures.words import counted, listed
from oscope.labs.engine.contrast import compared
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, ratio, text
from oscope.labs.engine.words import times, verdicts
from oscope.labs.transfer import CONTENTS, reference
from oscope.labs.transfer.points import COPIED, way
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

TITLE = "Zeros against random bytes"
METRICS = (COPIED.sender, COPIED.receiver, "cpu_s_per_gib", "receiver_cpu_s_per_gib")
SHOWN = {COPIED.sender: "sender's time", COPIED.receiver: "receiver's time"}


def content_compared(run: Run) -> list[ComparedMetric]:
    """Return random over zeros for each metric at each size and way, by rising size (Holm for all)."""
    rows = compared(run.experiment, METRICS, "content", (CONTENTS[0], CONTENTS[1]))
    return sorted(rows, key=lambda row: int(row.factors["size"]))


def _headline(_: Run, rows: Sequence[ComparedMetric]) -> str:
    here = [row for row in rows if row.metric == COPIED.receiver] or rows
    apart = [row for row in here if row.different == "yes"]
    if not apart:
        return f"The content makes no difference that was found at {counted(len(here), 'point')}."
    most = max(apart, key=lambda row: abs(row.ratio - 1))
    where = f"at {len(apart)} of {counted(len(here), 'point')}"
    return f"Random bytes take another time than zeros {where}, most at {_place(most)}: {times(most)}."


def _counts(_: Run, rows: Sequence[ComparedMetric]) -> list[str]:
    said = []
    for metric, words in SHOWN.items():
        here = [row for row in rows if row.metric == metric]
        if here:
            found = verdicts(here, "longer with random bytes", "shorter with random bytes")
            said.append(f"Of {counted(len(here), 'point')}, the {words} is {found}.")
    cpu = [row for row in rows if "cpu" in row.metric]
    apart = [_place(row) for row in cpu if row.different == "yes"]
    if cpu:
        found = f"at {listed(apart)}" if apart else "nowhere"
        said.append(
            "The CPU time a GiB, which the original report guessed to make the difference, is found "
            "different "
            f"{found} (of {counted(len(cpu), 'comparison')})."
        )
    return said


def _place(row: ComparedMetric) -> str:
    return f"{way(row.factors)}, {format_bytes(int(row.factors['size']))}"


def _original(*_: object) -> list[str]:
    """Split the original report's difference into that of its groups and that within them."""
    said, shares, within = [], [], []
    for method in reference.METHODS:
        sides = {each: reference.groups(reference.RECEIVER[method, each]) for each in CONTENTS}
        groups = [f"{each} {_groups(parts)}" for each, parts in sides.items()]
        said.append(f"{method}: {listed(groups)}")
        shares.append(f"{by_group(method):.0f} of the {_apart(method):.0f} ms by {method}")
        for zeros, random in _shared(*sides.values()):
            p = scipy.stats.mannwhitneyu(zeros, random, method="exact").pvalue
            place = f"by {method} near {middle(zeros):.0f} ms (p {p:.2f})"
            within.append(f"{middle(random) - middle(zeros):+.1f} ms {place}")
    return [
        (
            "The original report found zeros faster than random bytes by the receiver's average, and guessed "
            "the CPU. "
            f"Its single times fall in groups a step apart ({'; '.join(said)}). That more executions with "
            "random "
            f"bytes fell in the late group makes {listed(shares)} between the averages; the step has its own "
            f"section. Within a group the medians differ, random less zeros, by {listed(within)}: by mmap "
            "random "
            "bytes are the later in both groups, and so few values do not decide whether the content does "
            "that "
            "(p of the rank sum test, exact, uncorrected)."
        )
    ]


def _groups(parts: Sequence[Sequence[float]]) -> str:
    return listed([f"{len(part)} near {middle(part):.0f} ms" for part in parts])


def _apart(method: str) -> float:
    """Return how far apart in ms the original report's averages of both contents are."""
    zeros, random = (reference.RECEIVER[method, each] for each in CONTENTS)
    return sum(random) / len(random) - sum(zeros) / len(zeros)


def by_group(method: str) -> float:
    """Return what of that follows from how many executions fell in the late group alone, in ms.

    The step is that of the series with zeros, which has both groups by either method.
    """
    early, late = reference.groups(reference.RECEIVER[method, CONTENTS[0]])
    border = (max(early) + min(late)) / 2
    zeros, random = (
        sum(value > border for value in values) / len(values)
        for values in (reference.RECEIVER[method, each] for each in CONTENTS)
    )
    return (random - zeros) * (middle(late) - middle(early))


def _shared(
    zeros: Sequence[Sequence[float]], random: Sequence[Sequence[float]]
) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Return the groups that both contents have."""
    return [
        (one, other)
        for one in zeros
        for other in random
        if abs(middle(one) - middle(other)) < reference.GAP_MS
    ]


section: Question[ComparedMetric] = Question(
    title=TITLE,
    experiment="transfer.large",
    rows=content_compared,
    headline=_headline,
    text=(_counts, _original),
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
    ),
    timed=True,
)
