"""What each call costs, in a loop and by itself, and what entering the kernel adds."""

from __future__ import annotations

from oscope.figures import plots
from oscope.figures.analysed import Analysed, paired_difference
from oscope.figures.experiments import dot
from oscope.figures.tables import doubt, row_scale, shared_scale, unmeasured
from oscope.figures.words import excludes_zero, listed, median
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING, Scale, format_value
from oscope.model.samples import ExperimentResults
from oscope.statistics import Summary

METRIC = "time_ns"
STYLES = ("loop", "single")
BARE = "getppid"
"""A call that only reads a number in the kernel: its cost is nearly that of entering and leaving it."""
OUTSIDE = "clock_gettime"
VDSO_CLOCK_SOURCES = frozenset({"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"})
"""Clock sources that the vDSO reads by itself (arch/x86/include/asm/vdso/clocksource.h)."""


def section(results: Analysed) -> Section | None:
    """Answer what one call costs."""
    experiment = results.get("syscall.cost")
    if experiment is None:
        return None
    calls = list(dict.fromkeys(str(point.factors["call"]) for point in experiment.points))
    return Section(
        title="What a call costs",
        answer=_answer(results, experiment),
        text=[*_crossing(results, experiment), *_single(experiment, calls)],
        tables=[_table(results, experiment, calls)],
        figures=_figure(results, experiment, calls),
    )


def _summary(
    results: Analysed, experiment: ExperimentResults, call: str, style: str = "loop"
) -> Summary | None:
    point = experiment.point(call=call, style=style)
    return results.summary(experiment, point, METRIC) if point else None


def _answer(results: Analysed, experiment: ExperimentResults) -> str:
    calls = dict.fromkeys(str(point.factors["call"]) for point in experiment.points)
    for style, opening in (("loop", "In a loop"), ("single", "Timed by itself")):
        found = {
            call: summary
            for call in calls
            if (summary := _summary(results, experiment, call, style)) is not None
        }
        if found:
            return f"{opening}, {_costs(found)}."
    return ""


def _costs(found: dict[str, Summary]) -> str:
    """Tell what the bare call, the cheapest and the dearest cost."""
    ordered = sorted(found, key=lambda call: found[call].median)
    chosen = [BARE] if BARE in found else []
    chosen += [call for call in dict.fromkeys((ordered[0], ordered[-1])) if call != BARE]
    told = [f"{call} costs {median(found[call], 'ns')}" for call in chosen]
    text = listed(told)
    return f"{text}, the cheapest and the dearest of {len(found)} calls" if _ends(chosen, ordered) else text


def _ends(chosen: list[str], ordered: list[str]) -> bool:
    """Say whether the calls told end with the cheapest and the dearest of more."""
    return len(ordered) > 2 and chosen[-2:] == [ordered[0], ordered[-1]]


def _crossing(results: Analysed, experiment: ExperimentResults) -> list[str]:
    """Tell what a call into the kernel costs over one that the vDSO answers."""
    bare, outside = experiment.point(call=BARE, style="loop"), experiment.point(call=OUTSIDE, style="loop")
    if bare is None or outside is None:
        return []
    source = experiment.environment.get("clocksource")
    if source not in VDSO_CLOCK_SOURCES:
        return [
            (
                "What a call costs over the vDSO is not measured: the kernel's clock source is "
                f"{source or 'not known'}, which the vDSO cannot be relied on to read, so {OUTSIDE} may "
                "enter the kernel here."
            )
        ]
    difference = paired_difference(experiment, outside, bare, METRIC)
    base = results.summary(experiment, outside, METRIC)
    if difference is None or base is None:
        return []
    return [
        (
            f"{OUTSIDE} is answered by the vDSO, without entering the kernel, in {median(base, 'ns')}. "
            f"{BARE} enters the kernel to read a number, and takes {median(difference, 'ns')} more "
            f"(paired by block). Since {OUTSIDE} has a time to work out meanwhile, entering and leaving "
            "the kernel costs more than that difference."
        )
    ]


def _single(experiment: ExperimentResults, calls: list[str]) -> list[str]:
    """Tell whether a call timed by itself costs what it costs in a loop."""
    apart: list[tuple[str, Summary]] = []
    alike: list[tuple[str, Summary]] = []
    for call in calls:
        loop, single = (experiment.point(call=call, style=style) for style in STYLES)
        difference = paired_difference(experiment, loop, single, METRIC) if loop and single else None
        if difference is not None:
            (apart if excludes_zero(difference) else alike).append((call, difference))
    if not apart and not alike:
        return []
    told = [f"{call} by {median(difference, 'ns')}" for call, difference in apart]
    parts = [f"timed by itself a call differs from one in a loop: {listed(told)}"] if apart else []
    if alike:
        step = max(difference.resolution for _, difference in alike)
        beyond = f" beyond the clock's step of {format_value(step, step / 10, 'ns')}" if step else ""
        parts.append(
            f"no difference between loop and single{beyond} was found for "
            f"{listed([call for call, _ in alike])}"
        )
    text = "; ".join(parts)
    return [text[0].upper() + text[1:] + ". What reading the clock costs is taken off in both."]


def _table(results: Analysed, experiment: ExperimentResults, calls: list[str]) -> Table:
    summaries = [_summary(results, experiment, call, style) for call in calls for style in STYLES]
    scale = shared_scale([each for each in summaries if each is not None], "ns")
    rows = [_row(results, experiment, call, scale) for call in calls]
    unit = f"[{scale.unit}]"
    columns = [
        "call",
        f"loop {unit}",
        f"95 % {unit}",
        f"single {unit}",
        f"95 % {unit}",
        f"single - loop {unit}",
        f"95 % {unit}",
    ]
    note = "Medians. The difference is paired by block. gethostid(3) is a library function that reads a file."
    return Table("Cost of one call", columns, rows, frozenset(range(1, len(columns))), note)


def _row(results: Analysed, experiment: ExperimentResults, call: str, scale: Scale) -> list[str]:
    cells = [call]
    for style in STYLES:
        point = experiment.point(call=call, style=style)
        summary = results.summary(experiment, point, METRIC) if point else None
        if summary is None:
            return [*cells, unmeasured(point, METRIC) if point else f"style={style} was not run"]
        cells += _cells(summary, scale)
    loop, single = (experiment.point(call=call, style=style) for style in STYLES)
    difference = paired_difference(experiment, loop, single, METRIC) if loop and single else None
    return [*cells, *(_cells(difference, scale) if difference else [MISSING, MISSING])]


def _cells(summary: Summary, column: Scale) -> list[str]:
    own = row_scale(column, summary)
    return [own.text(summary.median), MISSING if doubt(summary) is None else own.span(summary.ci95)]


def _figure(results: Analysed, experiment: ExperimentResults, calls: list[str]) -> list[Figure]:
    summaries = [_summary(results, experiment, call, style) for call in calls for style in STYLES]
    scale = shared_scale([each for each in summaries if each is not None], "ns")
    series: dict[str, list[plots.Dot]] = {}
    for style in STYLES:
        for call in calls:
            point = experiment.point(call=call, style=style)
            if point is not None and results.summary(experiment, point, METRIC) is not None:
                series.setdefault(style, []).append(
                    dot(results, experiment, (point, METRIC), scale, name=call)
                )
    if not series:
        return []
    note = "Medians with their 95 % intervals; where none is seen, it is narrower than the dot."
    return [
        plots.dots(
            "Cost of one call, in a loop and by itself", f"time of one call [{scale.unit}]", series, note
        )
    ]
