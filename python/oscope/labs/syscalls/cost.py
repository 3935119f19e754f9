"""What a call costs, in a loop and by itself, beside entering the kernel, and how many fit into a second."""

from __future__ import annotations

from collections.abc import Sequence

from oscope import questions as q
from oscope.originals import syscalls as reference

# ---- cost

METRIC = "time_ns"
STYLES = {"loop": "in a loop", "single": "by itself"}
BARE = "getppid"
"""A call that only reads a number in the kernel: its cost is nearly that of entering and leaving it."""
OUTSIDE = "clock_gettime"
VDSO_CLOCK_SOURCES = frozenset({"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"})
"""Clock sources that the vDSO reads by itself (asm/vdso/clocksource.h of x86 and arm64)."""


def by_style(run: q.Run, **levels: q.Level) -> list[q.PivotRow]:
    """Return each call in both styles."""
    return q.pivot(run.narrowed("call", "style"), METRIC, "style", **levels)


def differs(call: q.PivotRow) -> str | None:
    """Say whether it differs timed by itself from one in a loop by more than the clock's step."""
    found = call.difference(*STYLES)
    return None if found is None else ("yes" if q.excludes_zero(found) else "not found")


def _style(style: str) -> q.Column[q.PivotRow]:
    return q.stat(style, lambda call: call.at(style), "ns", why=lambda call: call.why(style))


def _cheapest(_: q.Run, calls: Sequence[q.PivotRow]) -> str:
    for style, where in (("loop", "in a loop"), ("single", "timed by itself")):
        found = {call.level("call"): summary for call in calls if (summary := call.at(style)) is not None}
        if found:
            ordered = sorted(found, key=lambda name: found[name].median)
            first, last = BARE if BARE in found else ordered[0], ordered[-1]
            text = f"{first} costs {q.bracketed(found[first], 'ns')} {where}"
            most = f"; {last}, the most expensive of {len(found)} calls, {q.bracketed(found[last], 'ns')}"
            return f"{text}{'' if first == last else most}."
    return ""


def _crossing(run: q.Run, _: Sequence[q.PivotRow]) -> str | None:
    bare, outside = (run.experiment.point(call=call, style="loop") for call in (BARE, OUTSIDE))
    if bare is None or outside is None:
        return None
    source = run.experiment.environment.get("clocksource")
    if source not in VDSO_CLOCK_SOURCES:
        return (
            "What a call costs over the vDSO is not measured: the kernel's clock source is "
            f"{source or 'not known'}, which the vDSO cannot be relied on to read."
        )
    difference = q.paired_difference(run.experiment, outside, bare, METRIC)
    base = run.summary(outside, METRIC)
    if difference is None or base is None:
        return None
    if difference.median <= 0 or not q.excludes_zero(difference):
        return (
            f"It was not found that {BARE}, which enters the kernel, takes more than {OUTSIDE}, which the "
            f"vDSO answers: the difference is {q.median(difference, 'ns')}, paired by block."
        )
    return (
        f"{BARE} enters the kernel to read a number, and takes {q.median(difference, 'ns')} more (paired "
        f"by block) than {OUTSIDE}, which the vDSO answers in {q.median(base, 'ns')}: entering costs more "
        f"than that, since {OUTSIDE} also computes."
    )


def _cost_figure(_: q.Run, calls: Sequence[q.PivotRow]) -> q.Figure | None:
    every = ((style, call.level("call"), call.at(style)) for style in STYLES for call in calls)
    found = [(style, name, cost) for style, name, cost in every if cost is not None]
    styles = dict.fromkeys(style for style, *_ in found)
    title = f"Cost of one call, {q.listed([STYLES[style] for style in styles])}"
    note = "Medians with their 95 % intervals; where none is seen, it is narrower than the dot."
    return q.dots(title, "time of one call", found, "ns", note) if found else None


COST = q.Question(
    title="What a call costs",
    experiment="syscall.cost",
    rows=by_style,
    headline=_cheapest,
    text=_crossing,
    tables=q.TableOf(
        "Cost of one call",
        q.level("call"),
        *map(_style, STYLES),
        q.stat("single - loop", lambda call: call.difference(*STYLES), "ns"),
        q.text("differ", differs),
        note="Medians, less the clock's reading. The difference is paired by block; not found: its interval "
        "reaches 0, or half a step of the clock. gethostid(3) is a library function that reads a file.",
    ),
    figures=_cost_figure,
)

# ---- entering the kernel: a call that does not exist, beside getppid and sched_yield


def _beside(title: str, what: str, ratio: str, factor: str, base: q.Level) -> q.TableOf[q.Point]:
    """Return the table of what each level of a factor costs, with its ratio to the level `base`."""
    return q.TableOf(
        title,
        q.text(what, lambda point: point.name),
        q.stat("{}", lambda point: point.summary, "ns", "n", "median", "95 %"),
        q.ratio(ratio, lambda each: q.beside(each, factor, base), "different", "matters"),
        note="Medians; each ratio is paired by block, p corrected (Holm) for all rows.",
    )


ENTRY = q.Question(
    title="Entering the kernel",
    experiment="syscall.entry",
    rows=q.points("time_ns"),
    headline="{least.name} costs {least.value}; {most.name}, the most expensive of {count}, {most.value}",
    text="No kernel has call 1023: its cost is entering and leaving it. Call 24 (x86-64) is sched_yield.",
    tables=_beside("Cost of a call beside getppid", "call", "call / getppid", "call", "getppid"),
    figures=lambda _, found: q.strips("Time of one call", "time", ((each.name, each) for each in found)),
)

# ---- requests through io_uring, many with one system call

URING = q.Question(
    title="Requests through io_uring",
    experiment="syscall.uring-nop",
    rows=q.points("time_ns"),
    headline="a request costs {most.value} with {most.name} a call, {least.value} with {least.name}",
    text="A request does nothing (IORING_OP_NOP): it is io_uring's own work and a share of the system call.",
    tables=_beside(
        "Cost of a request by how many one call submits", "requests a call", "beside one", "batch", 1
    ),
    figures=lambda _, found: q.strips("Time of one request", "time", ((each.name, each) for each in found)),
)

# ---- how many calls fit into a second

UNIT = "calls/s"


def _cited(point: q.Point) -> float | None:
    return reference.CALLS_PER_SECOND.get(point["call"])


def _in_a_loop(point: q.Point) -> q.Summary | None:
    cost = q.Run.of(point.run.results, "syscall.cost")
    found = cost.at("time_ns", call=point["call"], style="loop") if cost else None
    return None if found is None or found.median <= 0 else found


def _predicted(point: q.Point) -> tuple[float, float] | None:
    """Return the reciprocal of the cost of one call in a loop, with what decides its digits."""
    if (found := _in_a_loop(point)) is None:
        return None
    rate = 1e9 / found.median
    return rate, rate * (q.uncertainty(found) or 0.0) / found.median


def _fewer(_: q.Run, found: Sequence[q.Point]) -> str | None:
    # The cost of read is that of another file.
    return q.why_fewer((each["call"], each, _in_a_loop(each)) for each in found if each["call"] != "read")


def _throughput_figure(_: q.Run, found: Sequence[q.Point]) -> q.Figure:
    scale = q.shared_scale([each.summary for each in found], UNIT)
    rows: list[tuple[str, str, q.Summary | float | None]] = [
        *(("here", each["call"], each.summary) for each in found),
        *(("original", each["call"], _cited(each)) for each in found),
    ]
    title = "Calls a second, here and in the original report"
    return q.bars(title, q.plots.axis(scale.unit), rows, factor=scale.factor, cited=["original"])


THROUGHPUT = q.Question(
    title="How many calls fit into a second",
    experiment="syscall.throughput",
    rows=q.points("calls_per_s"),
    headline=q.extremes(
        lambda fast: f"{fast['call']} reaches {q.bracketed(fast.summary, UNIT)}",
        lambda slow: f"; {slow['call']}, the slowest, {q.bracketed(slow.summary, UNIT)}",
        by=lambda each: -each.summary.median,
        measured=q.of_point,
    ),
    text=("The original report counts each call as one byte moved; so does bytes_per_s here.", _fewer),
    tables=q.TableOf(
        "Calls a second",
        q.level("call"),
        q.level("duration", "for"),
        q.count("n", lambda point: point.summary.n),
        q.stat("{}", lambda point: point.summary, UNIT, "median", "95 %", "std. dev."),
        q.stat("bytes", "bytes_per_s", "B/s", "median"),
        q.in_unit("original", lambda point: None if (c := _cited(point)) is None else (c, None), UNIT),
        q.number("here / original", lambda point: (c := _cited(point)) and point.summary.median / c),
        q.in_unit("1 / cost in a loop", _predicted, UNIT),
        note="The last column is the reciprocal of the median of `syscall.cost`, whose read is from "
        "/dev/zero; this one is from a file in memory.",
    ),
    figures=_throughput_figure,
)
