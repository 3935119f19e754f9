"""What a call costs, in a loop and by itself, beside entering the kernel, and how many fit into a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oscope import questions as q
from oscope.labs.syscalls import reference

# ---- cost

METRIC = "time_ns"
STYLES = {"loop": "in a loop", "single": "by itself"}
BARE = "getppid"
"""A call that only reads a number in the kernel: its cost is nearly that of entering and leaving it."""
OUTSIDE = "clock_gettime"
VDSO_CLOCK_SOURCES = frozenset({"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"})
"""Clock sources that the vDSO reads by itself (asm/vdso/clocksource.h of x86 and arm64)."""


class Call(NamedTuple):
    """One call in both styles."""

    run: q.Run
    name: str

    def point(self, style: str) -> q.PointSamples | None:
        """Return its point in a style, measured or not."""
        return self.run.experiment.point(call=self.name, style=style)

    def of(self, style: str) -> q.Summary | None:
        """Return its cost in a style."""
        return self.run.summary(self.point(style), METRIC)

    def why(self, style: str) -> str:
        """Return why a style has no cost."""
        point = self.point(style)
        return q.unmeasured(point, METRIC) if point else f"style={style} was not run"

    def difference(self) -> q.Summary | None:
        """Return single less loop, paired by block."""
        return _difference(self.run, self.point("loop"), self.point("single"))

    def differs(self) -> str | None:
        """Say whether it differs timed by itself from one in a loop by more than the clock's step."""
        found = self.difference()
        return None if found is None else ("yes" if q.excludes_zero(found) else "not found")


def _difference(run: q.Run, a: q.PointSamples | None, b: q.PointSamples | None) -> q.Summary | None:
    return q.paired_difference(run.experiment, a, b, METRIC) if a and b else None


def _cheapest(_: q.Run, calls: Sequence[Call]) -> str:
    for style, where in (("loop", "in a loop"), ("single", "timed by itself")):
        found = {call.name: summary for call in calls if (summary := call.of(style)) is not None}
        if found:
            ordered = sorted(found, key=lambda name: found[name].median)
            first, last = BARE if BARE in found else ordered[0], ordered[-1]
            text = f"{first} costs {q.bracketed(found[first], 'ns')} {where}"
            most = f"; {last}, the most expensive of {len(found)} calls, {q.bracketed(found[last], 'ns')}"
            return f"{text}{'' if first == last else most}."
    return ""


def _crossing(run: q.Run, _: Sequence[Call]) -> str | None:
    bare, outside = (run.experiment.point(call=call, style="loop") for call in (BARE, OUTSIDE))
    if bare is None or outside is None:
        return None
    source = run.experiment.environment.get("clocksource")
    if source not in VDSO_CLOCK_SOURCES:
        return (
            "What a call costs over the vDSO is not measured: the kernel's clock source is "
            f"{source or 'not known'}, which the vDSO cannot be relied on to read."
        )
    difference, base = _difference(run, outside, bare), run.summary(outside, METRIC)
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


def _cost_figure(_: q.Run, calls: Sequence[Call]) -> q.Figure | None:
    found = [(style, call.name, cost) for style in STYLES for call in calls if (cost := call.of(style))]
    styles = dict.fromkeys(style for style, *_ in found)
    title = f"Cost of one call, {q.listed([STYLES[style] for style in styles])}"
    note = "Medians with their 95 % intervals; where none is seen, it is narrower than the dot."
    return q.dots(title, "time of one call", found, "ns", note) if found else None


COST = q.Question(
    title="What a call costs",
    experiment="syscall.cost",
    rows=lambda run: [Call(run, name) for name in run.levels("call")],
    headline=_cheapest,
    text=_crossing,
    tables=q.TableOf(
        "Cost of one call",
        q.text("call", lambda call: call.name),
        q.stat("loop", lambda call: call.of("loop"), "ns", why=lambda call: call.why("loop")),
        q.stat("single", lambda call: call.of("single"), "ns", why=lambda call: call.why("single")),
        q.stat("single - loop", Call.difference, "ns"),
        q.text("differ", Call.differs),
        note="Medians, less the cost of reading the clock. The difference is paired by block; not found: "
        "its interval reaches 0, or half a step of the clock. gethostid(3) is a library function that reads "
        "a file.",
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
    text=(
        "No kernel has call 1023: its cost is that of entering and leaving. Call 24 (x86-64) is sched_yield."
    ),
    tables=_beside("Cost of a call beside getppid", "call", "call / getppid", "call", "getppid"),
    figures=lambda _, found: q.strips("Time of one call", "time", ((each.name, each) for each in found)),
)

# ---- requests through io_uring, many with one system call

URING = q.Question(
    title="Requests through io_uring",
    experiment="syscall.uring-nop",
    rows=q.points("time_ns"),
    headline="a request costs {most.value} with {most.name} a call, {least.value} with {least.name}",
    text=(
        "A request does nothing (IORING_OP_NOP): that is io_uring's own work and a share of the system call."
    ),
    tables=_beside(
        "Cost of a request by how many one call submits", "requests a call", "beside one", "batch", 1
    ),
    figures=lambda _, found: q.strips("Time of one request", "time", ((each.name, each) for each in found)),
)

# ---- how many calls fit into a second

UNIT = "calls/s"


def _cited(point: q.Point) -> float | None:
    return reference.CALLS_PER_SECOND.get(point["call"])


def _predicted(point: q.Point) -> tuple[float, float] | None:
    """Return the reciprocal of the cost of one call in a loop, with what decides its digits."""
    cost = q.Run.of(point.run.results, "syscall.cost")
    found = cost.at("time_ns", call=point["call"], style="loop") if cost else None
    if found is None or found.median <= 0:
        return None
    rate = 1e9 / found.median
    return rate, rate * (q.uncertainty(found) or 0.0) / found.median


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
    text="The original report counts each call as one byte moved; so does bytes_per_s here.",
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
