"""Large inputs: time against size and content, and the original report's five inputs in one execution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean
from statistics import median as middle

import numpy as np

from oscope import questions as q
from oscope.labs.transfer import CONTENTS, SIZES
from oscope.labs.transfer import ways as moved
from oscope.labs.transfer.ways import CALLS, CONTENT, COPIED, DEVICE, METHOD, Sides, way
from oscope.originals import transfer as reference
from oscope.questions.combined_factors import verdict_table
from oscope.statistics.ranks import rank_sum
from oscope.statistics.warmup import first_and_later

# ---- by size, also of what goes through the devices


def equal(rows: Sequence[q.Contrast]) -> list[q.Contrast]:
    """Return the rows of files that all have one size, by rising size."""
    own = (each for each in rows if each.row.factors.get("sizes", "equal") == "equal")
    return sorted(own, key=lambda each: each.size)


def headline(rows: Sequence[q.Contrast], names: tuple[str, str]) -> str:
    """Say from which size on mmap is faster, and by how much at the largest; of random bytes if sent."""
    here = [each for each in equal(rows) if each.ends[1] == names[1]]
    if not here:
        return f"{q.listed(names)} were not both measured, so that mmap is not compared."
    content = max((each.level("content") for each in here), key="random".__eq__)
    what = "random bytes" if content == "random" else content
    own = {each.size: each.row for each in here if each.level("content") == content}
    faster = {size: row.different == "yes" and row.ratio < 1 for size, row in own.items()}
    start = q.lasting(list(own), faster.__getitem__)
    some = q.listed([q.format_bytes(size) for size, is_faster in faster.items() if is_faster])
    found = f"is found faster than {names[0]} {f'only at {some}' if some else 'at no size'}"
    if start is not None:
        found = f"is faster than {names[0]} from {q.format_bytes(start)} on"
    time = q.times_or_judged(own[max(own)], "its time")
    return f"With {what}, {names[1]} {found}; at {q.format_bytes(max(own))} it takes {time}."


def firsts(run: q.Run, metric: str) -> str:
    """Return a note of how the first execution of each process compares with those after it."""
    ratios, blocks = np.zeros(0), np.zeros(0, dtype=np.int64)
    for point in q.known(run.experiment, metric):
        values, kept = q.measured(point, metric)
        block = point.block[kept]
        is_first = np.isin(np.arange(len(block)), np.unique(block, return_index=True)[1])
        first, later, own = first_and_later(values, is_first, block)
        ratios, blocks = np.append(ratios, first / later), np.append(blocks, own)
    found = q.summarise(ratios, blocks, seed=run.experiment.seed)
    if found.ci95 is None:
        return ""
    ratio = q.bounded_text(found.median, *found.ci95)
    return f" The first of a process takes {ratio} times those after it (of {q.format_count(found.n)}, 95 %)."


def of_one_size(run: q.Run, metric: str) -> list[q.Point]:
    """Return the points whose files all have one size, by rising size."""
    return sorted(run.only(sizes="equal").points(metric), key=lambda each: each.size)


def table_of_times(run: q.Run, sides: Sides, title: str, note: str = "") -> q.Table:
    """Return the averages and medians of both sides, a row for each size, content and way."""
    return q.TableOf[q.Point](
        f"{title}, time on both sides",
        q.level("size"),
        CONTENT,
        METHOD,
        q.count("n", lambda each: each.summary.n),
        *moved.times_of(sides, "{side}, {part}", *moved.SPREAD),
        q.value("throughput", moved.RATE, "B/s"),
        note=f"The average and standard deviation of all executions, and the median with its interval.{note}",
    ).of(of_one_size(run, sides.receiver))


def verdicts(rows: Sequence[q.Contrast], base: str, title: str) -> q.Table:
    """Return each other way's time over that of `base`, by size and content."""
    return verdict_table(title, "method", base, equal(rows), q.level("size"), CONTENT)


def figures(run: q.Run, metric: str, title: str) -> Iterator[q.Figure]:
    """Draw time over size for each content that was measured at several sizes."""
    own, unit = run.only(sizes="equal"), run.experiment.metrics[metric].unit
    for content in run.levels("content"):
        curves = moved.curves(own, metric, content=content)
        yield from q.several(f"{title}, {content}", curves, unit, "size of the file")


Cited = tuple[str, str, str, Sequence[float]]
CITED: Sequence[Cited] = [
    (side, *key, reference.averaged(inputs, key))
    for side, inputs in (("receiver", reference.RECEIVER), ("sender", reference.SENDER))
    for key in inputs
]
"""The original report's times: side, method, content, ms."""
CITED_COLUMNS = q.items("side", "method", "content")
ORIGINAL: q.TableOf[Cited] = q.TableOf(
    "The original report's large inputs",
    *CITED_COLUMNS,
    q.count("n", lambda row: len(row[3])),
    q.number("mean [ms]", lambda row: mean(row[3]), ".1f"),
    q.number("median [ms]", lambda row: middle(row[3]), ".1f"),
    q.text("groups: median [ms] (n)", lambda row: reference.groups_text(row[3])),
    note="1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB in one execution. A group ends where the next value is "
    f"more than {reference.GAP_MS:g} ms away. The report prints {q.format_count(reference.PRINTED_BYTES)} "
    f"bytes; its inputs have {sum(SIZES) / reference.PRINTED_BYTES:g} times as many, so no throughput is "
    f"cited. {reference.WAITED} {reference.WHERE}",
)


def _verdicts(run: q.Run) -> list[q.Contrast]:
    return moved.compared_ways(run, COPIED.sender, CALLS)


LARGE = q.Question(
    title="Large inputs: mmap against read and write",
    experiment="transfer.large",
    rows=q.points(COPIED.sender),
    headline=lambda run, _: headline(_verdicts(run), COPIED.methods),
    text="Timed from the sender's connect, and the receiver's accept, to the receipt of a verified file.",
    tables=lambda run, _: [
        table_of_times(run, COPIED, "Large inputs", firsts(run, COPIED.sender)),
        verdicts(_verdicts(run), CALLS, "Against read and write, the sender's time"),
        ORIGINAL.of(CITED),
    ],
    figures=lambda run, _: figures(run, COPIED.sender, "Time of the sender"),
    timed=True,
)

# ---- zeros against random bytes: the original report saw a difference, and guessed the CPU

METRICS = (COPIED.sender, COPIED.receiver, "cpu_s_per_gib", "receiver_cpu_s_per_gib")


def _most_apart(_: q.Run, rows: Sequence[q.Contrast]) -> str:
    here = [each for each in rows if each.row.metric == COPIED.receiver] or rows
    points = q.counted(len(here), "point")
    if not (apart := q.apart(here)):
        return f"The content makes no difference that was found at {points}."
    most = max(apart, key=lambda each: abs(np.log(each.row.ratio)))
    return (
        f"Random bytes take another time than zeros at {len(apart)} of {points}, most at "
        f"{way(most.row.factors)}, {most.level('size')}: {q.times(most.row)}."
    )


def _received(method: str) -> tuple[Sequence[float], Sequence[float]]:
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


def _within(method: str) -> str:
    """Return the difference within each group that both contents have, with its p."""
    zeros, random = (reference.groups(values) for values in _received(method))
    shared = ((a, b) for a in zeros for b in random if abs(middle(a) - middle(b)) < reference.GAP_MS)
    tests = ((a, b, rank_sum(a, b, exact=True)) for a, b in shared)
    return q.listed([f"{middle(b) - middle(a):+.1f} near {middle(a):.0f} (p {p:.2f})" for a, b, p in tests])


ZEROS_ORIGINAL: q.TableOf[str] = q.TableOf(
    "The original report's difference between random bytes and zeros",
    q.text("method", lambda method: method),
    q.text("zeros: groups [ms] (n)", lambda method: reference.groups_text(_received(method)[0])),
    q.text("random: groups [ms] (n)", lambda method: reference.groups_text(_received(method)[1])),
    q.number("averages apart [ms]", lambda method: float(np.diff([*map(mean, _received(method))])[0]), ".0f"),
    q.number("by more in the late group [ms]", by_group, ".0f"),
    q.text("within a group [ms]", _within),
    note="Within a group: random less zeros, p of the exact rank sum test, uncorrected.",
)
ZEROS: q.Question[q.Contrast] = q.Question(
    title="Zeros against random bytes",
    experiment="transfer.large",
    rows=lambda run: sorted(
        q.contrasts(run, METRICS, "content", (CONTENTS[0], CONTENTS[1])), key=lambda each: each.size
    ),
    headline=_most_apart,
    tables=(
        q.TableOf(
            "Zeros against random bytes",
            q.level("size"),
            q.text("method", lambda each: way(each.row.factors)),
            q.text("metric", lambda each: each.row.metric),
            q.ratio("random / zeros", lambda each: each.row, "different", "matters"),
            note="Paired by block, p corrected (Holm) for all rows.",
        ),
        lambda *_: ZEROS_ORIGINAL.of(reference.METHODS),
    ),
    timed=True,
)

# ---- the original report's second test: its five large inputs in one execution


THROUGH = {"transfer.inputs": COPIED, "transfer.device-inputs": DEVICE}
APART = "A guest has its own clock and its own kernel: its figures are not compared with those of user space."
Shown = tuple[Sides, q.Run, Sequence[q.Point]]


def _shown(run: q.Run) -> list[Shown]:
    runs = ((sides, found) for name, sides in THROUGH.items() if (found := run.beside(name)) is not None)
    return [(sides, each, rows) for sides, each in runs if (rows := each.points(sides.receiver))]


def _against(shown: Shown) -> list[q.Contrast]:
    sides, run, _ = shown
    return moved.compared_ways(run, sides.receiver, sides.methods[0])


def _five(_: q.Run, shown: Sequence[Shown]) -> str:
    pairs = [(each[0], row) for each in shown for row in _against(each) if row.ends[1] == each[0].methods[1]]
    if not pairs:
        return "The original report's two methods were not both measured."
    sides, found = max(pairs, key=lambda pair: pair[1].level("content") == "random")
    time = q.times_or_judged(found.row, f"the time of {sides.methods[0]} through {sides.name}")
    return f"Five large inputs take by {sides.methods[1]} {time}."


def _average(heading: str, side: reference.Inputs) -> q.Column[q.Point]:
    """Return a column of the averages of the original report's ten executions by each method."""

    def average(method: str, point: q.Point) -> float | None:
        found = reference.averaged(side, (method, point.level("content")))
        return mean(found) if found else None

    return moved.cited(heading, average, ".1f")


def _five_tables(_: q.Run, shown: Sequence[Shown]) -> Iterator[q.Table]:
    for sides, _, points in shown:
        yield q.TableOf[q.Point](
            f"Five large inputs through {sides.name}",
            CONTENT,
            METHOD,
            q.count("bytes", "bytes"),
            q.count("n", lambda each: each.summary.n),
            *moved.times_of(sides, "{side}, {part}", *moved.SPREAD),
            _average("original report's sender, mean [ms]", reference.SENDER),
            _average("its receiver, mean [ms]", reference.RECEIVER),
            note="The average of all executions, and the median with its interval. "
            f"{reference.WAITED} {reference.WHERE}",
        ).of(points)
    for each in shown:
        title = f"Against {each[0].methods[0]} through {each[0].name}, the receiver's time"
        yield verdict_table(title, "method", each[0].methods[0], _against(each), CONTENT)


def _five_figures(_: q.Run, shown: Sequence[Shown]) -> Iterator[q.Figure]:
    for sides, _, points in shown:
        rows = moved.way_dots(points, lambda each: f"{each['content']}, {way(each.factors)}")
        title = f"Time of the receiver, five large inputs through {sides.name}"
        yield q.dots(title, "receiver's time", rows, "ns")


FIVE = q.Question(
    title="Five large inputs in one execution",
    experiment=tuple(THROUGH),
    rows=_shown,
    headline=_five,
    about=(
        f"1 KiB, 5 KiB, 1 MiB, 10 MiB and 100 MiB, {q.format_count(sum(SIZES))} bytes, over one connection: "
        "ten executions in the original report, without a first one started by hand. Here all count."
    ),
    text=(
        lambda _, shown: APART if any(sides is DEVICE for sides, *_ in shown) else None,
        lambda _, shown: dict.fromkeys(text for _, run, _ in shown for text in q.cautions(run.experiment)),
    ),
    tables=_five_tables,
    figures=_five_figures,
)
