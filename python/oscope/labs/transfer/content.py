"""Whether zeros move faster than random bytes: the document saw that they do, and guessed the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median as middle

import scipy

from oscope.figures.analysed import Analysed
from oscope.figures.words import counted, listed
from oscope.labs.transfer import CONTENTS, reference
from oscope.labs.transfer.points import COPIED, levels_compared, missing, untraced, verdict, way
from oscope.model.document import Section, Table
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

TITLE = "Zeros against random bytes"
METRICS = (COPIED.sender, COPIED.receiver, "cpu_s_per_gib", "receiver_cpu_s_per_gib")
SHOWN = {COPIED.sender: "sender's time", COPIED.receiver: "receiver's time"}


def section(results: Analysed) -> Section | None:
    """Say whether the content matters, by verdicts over all sizes and methods."""
    experiment = results.get("transfer.large")
    if experiment is None:
        return None
    rows = compared(experiment)
    if not rows:
        gaps = missing(experiment)
        return Section(TITLE, "", missing=gaps) if gaps else None
    return Section(
        title=TITLE,
        answer=" ".join(_answer(rows)),
        text=[_document()],
        tables=[_table(rows)],
        missing=missing(experiment),
    )


def compared(experiment: ExperimentResults) -> list[ComparedMetric]:
    """Return random over zeros for each metric at each size and way, p corrected (Holm) for all."""
    whole = replace(experiment, points=tuple(untraced(experiment)))
    return levels_compared(whole, METRICS, "content", (CONTENTS[0], CONTENTS[1]))


def _answer(rows: Sequence[ComparedMetric]) -> list[str]:
    said = []
    for metric, words in SHOWN.items():
        here = [row for row in rows if row.metric == metric]
        if here:
            said.append(_of(words, here))
    cpu = [row for row in rows if "cpu" in row.metric]
    apart = [row for row in cpu if row.different == "yes"]
    if cpu:
        found = listed([_place(row) for row in apart]) if apart else "nowhere"
        said.append(
            f"The CPU time a GiB, of which the document guessed that it makes the difference, is found "
            f"different {'at ' if apart else ''}{found} (of {counted(len(cpu), 'comparison')})."
        )
    return said


def _of(words: str, rows: Sequence[ComparedMetric]) -> str:
    slower = [row for row in rows if row.different == "yes" and row.ratio > 1]
    faster = [row for row in rows if row.different == "yes" and row.ratio < 1]
    same = [row for row in rows if row.different == "no"]
    parts = []
    for found, what in ((slower, "longer"), (faster, "shorter")):
        if found:
            most = max(found, key=lambda row: abs(row.ratio - 1))
            parts.append(
                f"{what} with random bytes at {len(found)} (most at {_place(most)}: {most.ratio:.3g} times)"
            )
    if same:
        parts.append(f"no different at {len(same)}")
    unknown = len(rows) - len(slower) - len(faster) - len(same)
    if unknown:
        parts.append(f"not to be told at {unknown}")
    return f"Of {counted(len(rows), 'point')}, the {words} is {listed(parts)}."


def _place(row: ComparedMetric) -> str:
    return f"{way(row.factors)}, {format_bytes(int(row.factors['size']))}"


def _table(rows: Sequence[ComparedMetric]) -> Table:
    lines = [
        (int(row.factors["size"]), [way(row.factors), row.metric, *verdict(row)])
        for row in rows
        if row.metric in METRICS
    ]
    lines.sort(key=lambda each: each[0])
    columns = ["size", "method", "metric", "random / zeros (95 %)", "different", "matters"]
    note = "Paired by block, p corrected (Holm) for all rows."
    return Table(TITLE, columns, [[format_bytes(size), *line] for size, line in lines], frozenset(), note)


def _document() -> str:
    """Part the document's difference into that of its groups and that within them."""
    told, shares, within = [], [], []
    for method in reference.METHODS:
        sides = {each: reference.groups(reference.RECEIVER[method, each]) for each in CONTENTS}
        groups = [f"{each} {_groups(parts)}" for each, parts in sides.items()]
        told.append(f"{method}: {listed(groups)}")
        shares.append(f"{by_group(method):.0f} of the {_apart(method):.0f} ms by {method}")
        for zeros, random in _shared(*sides.values()):
            p = scipy.stats.mannwhitneyu(zeros, random, method="exact").pvalue
            place = f"by {method} near {middle(zeros):.0f} ms (p {p:.2f})"
            within.append(f"{middle(random) - middle(zeros):+.1f} ms {place}")
    return (
        "The document found zeros faster than random bytes by the receiver's average, and guessed the CPU. "
        f"Its single times fall in groups a step apart ({'; '.join(told)}). That more executions with random "
        f"bytes fell in the late group makes {listed(shares)} between the averages; the step has its own "
        f"section. Within a group the medians differ, random less zeros, by {listed(within)}: by mmap random "
        "bytes are the later in both groups, and so few values do not decide whether the content does that "
        "(p of the rank sum test, exact, uncorrected)."
    )


def _groups(parts: Sequence[Sequence[float]]) -> str:
    return listed([f"{len(part)} near {middle(part):.0f} ms" for part in parts])


def _apart(method: str) -> float:
    """Return how far apart in ms the document's averages of both contents are."""
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
