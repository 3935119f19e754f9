"""What each call costs, in a loop and by itself, and what entering the kernel adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oscope.figures.analysed import paired_difference
from oscope.figures.tables import unmeasured
from oscope.figures.words import excludes_zero, median
from oscope.labs.engine.drawing import dots
from oscope.labs.engine.question import Question
from oscope.labs.engine.run import Run
from oscope.labs.engine.table import TableOf, stat, text
from oscope.labs.engine.words import value
from oscope.model.samples import PointSamples
from oscope.statistics import Summary

METRIC = "time_ns"
STYLES = ("loop", "single")
BARE = "getppid"
"""A call that only reads a number in the kernel: its cost is nearly that of entering and leaving it."""
OUTSIDE = "clock_gettime"
VDSO_CLOCK_SOURCES = frozenset({"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"})
"""Clock sources that the vDSO reads by itself (arch/x86/include/asm/vdso/clocksource.h)."""


@dataclass(frozen=True)
class Call:
    """One call in both styles."""

    run: Run
    name: str

    def point(self, style: str) -> PointSamples | None:
        """Return its point in a style, measured or not."""
        return self.run.experiment.point(call=self.name, style=style)

    def of(self, style: str) -> Summary | None:
        """Return its cost in a style."""
        return self.run.summary(self.point(style), METRIC)

    def why(self, style: str) -> str:
        """Return why a style has no cost."""
        point = self.point(style)
        return unmeasured(point, METRIC) if point else f"style={style} was not run"

    @property
    def difference(self) -> Summary | None:
        """Single less loop, paired by block."""
        return _difference(self.run, self.point("loop"), self.point("single"))


def _difference(run: Run, a: PointSamples | None, b: PointSamples | None) -> Summary | None:
    return paired_difference(run.experiment, a, b, METRIC) if a and b else None


def _calls(run: Run) -> list[Call]:
    return [Call(run, name) for name in run.levels("call")]


def _headline(_: Run, calls: Sequence[Call]) -> str:
    for style, where in (("loop", "in a loop"), ("single", "timed by itself")):
        found = {call.name: summary for call in calls if (summary := call.of(style)) is not None}
        if found:
            ordered = sorted(found, key=lambda name: found[name].median)
            first, last = BARE if BARE in found else ordered[0], ordered[-1]
            text = f"{first} costs {value(found[first], 'ns')} {where}"
            if first == last:
                return f"{text}."
            last_text = f"{text}; {last}, the most expensive of {len(found)} calls"
            return f"{last_text}, {value(found[last], 'ns')}."
    return ""


def _crossing(run: Run, _: Sequence[Call]) -> list[str]:
    """Say what a call into the kernel costs over one that the vDSO answers."""
    bare, outside = (run.experiment.point(call=call, style="loop") for call in (BARE, OUTSIDE))
    if bare is None or outside is None:
        return []
    source = run.experiment.environment.get("clocksource")
    if source not in VDSO_CLOCK_SOURCES:
        return [
            (
                "What a call costs over the vDSO is not measured: the kernel's clock source is "
                f"{source or 'not known'}, which the vDSO cannot be relied on to read."
            )
        ]
    difference, base = _difference(run, outside, bare), run.summary(outside, METRIC)
    if difference is None or base is None:
        return []
    return [
        (
            f"{BARE} enters the kernel to read a number, and takes {median(difference, 'ns')} more (paired "
            f"by block) than {OUTSIDE}, which the vDSO answers in {median(base, 'ns')}: entering costs more "
            f"than that, since {OUTSIDE} also computes."
        )
    ]


def _differs(call: Call) -> str | None:
    """Say whether a call timed by itself differs from one in a loop by more than the clock's step."""
    found = call.difference
    return None if found is None else ("yes" if excludes_zero(found) else "not found")


def _dots(calls: Sequence[Call]) -> list[tuple[str, str, Summary]]:
    return [
        (style, call.name, found)
        for style in STYLES
        for call in calls
        if (found := call.of(style)) is not None
    ]


section = Question(
    title="What a call costs",
    experiment="syscall.cost",
    rows=_calls,
    headline=_headline,
    text=(_crossing),
    tables=(
        TableOf(
            "Cost of one call",
            (
                text("call", lambda call: call.name),
                stat("loop", lambda call: call.of("loop"), "ns", why=lambda call: call.why("loop")),
                stat("single", lambda call: call.of("single"), "ns", why=lambda call: call.why("single")),
                stat("single - loop", lambda call: call.difference, "ns"),
                text("differ", _differs),
            ),
            "Medians, less the cost of reading the clock. The difference is paired by block; not found: "
            "within half a step of the clock. gethostid(3) is a library function that reads a file.",
        )
    ),
    figures=(
        lambda _, calls: (
            [
                dots(
                    "Cost of one call, in a loop and by itself",
                    "time of one call",
                    _dots(calls),
                    "ns",
                    "Medians with their 95 % intervals; where none is seen, it is narrower than the dot.",
                )
            ]
            if _dots(calls)
            else []
        )
    ),
)
