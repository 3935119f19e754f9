"""Figures 2 to 6 of CS380L lab 2, which are tables of means and deviations, from a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oscope.assignments.memory import NO_KERNEL, POLICIES, PREPARED
from oscope.assignments.memory_policy import POLICY
from oscope.assignments.tables import Source, gaps, guest, own_scale, sizes, take_reasons
from oscope.figures.analysed import Analysed
from oscope.labs.memory import MAPPINGS, PATTERNS
from oscope.model.document import Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, Scale
from oscope.originals import memory as reference
from oscope.questions.original_figures import Known
from oscope.statistics import Summary

ORIGINAL = "The original's figures are means of 5 runs with 1 048 576 sets in 1 GiB, on another machine."
COUNTED: tuple[tuple[str, str], ...] = (
    ("Data L1 read access", "l1d_read_access"),
    ("Data L1 write access", "l1d_write_access"),
    ("Data L1 read miss", "l1d_read_miss"),
    ("Data L1 read miss rate", "rate"),
    ("Data TLB read miss", "dtlb_read_miss"),
    ("Data TLB write miss", "dtlb_write_miss"),
)
USED: tuple[tuple[str, str], ...] = (
    ("utime", "utime_s"),
    ("stime", "stime_s"),
    ("minflt", "minflt"),
    ("majflt", "majflt"),
    ("inblock", "inblock"),
    ("oublock", "oublock"),
    ("maxrss", "maxrss_kib"),
)
"""What getrusage gives, in the order of Figures 5 and 6."""
BRIEF = tuple(row for row in USED if row[0] in ("utime", "stime", "minflt", "maxrss"))
"""The rows of Figure 2: the others are 0 there."""
UNITS = {"_s": "s", "_kib": "KiB"}
RATES = {"seq": Known(0.038), "random": Known(0.110)}
PRESSURE_RATES = {"compete": Known(0.113), "none": Known(0.109)}
FIRST = "first64th"


@dataclass(frozen=True)
class Side:
    """A column of a figure: its name, and where it comes from."""

    name: str
    experiment: str
    levels: Mapping[str, Level]
    cited: Mapping[str, Known]

    def source(self, metric: str) -> Source:
        """Return where the figure of a row comes from."""
        if metric.endswith("rate"):
            model = metric.removesuffix("rate")
            return Source(self.experiment, f"{model}l1d_read_miss", self.levels, f"{model}l1d_read_access")
        return Source(self.experiment, metric, self.levels)


@dataclass(frozen=True)
class Row:
    """A row of a figure: a metric, from each side."""

    name: str
    metric: str
    sources: Sequence[Source]


def _grid(results: Analysed, title: str, sides: Sequence[Side], rows: Sequence[Row], note: str) -> Table:
    """Return a figure of the document: a row for each metric, and the document's columns before ours."""
    columns = [
        "",
        *(f"original: {side.name}" for side in sides),
        *(f"{side.name}: {what}" for side in sides for what in ("mean (std)", "median (95 % interval)")),
    ]
    lines, counts = [], set()
    for row in rows:
        unit = next((unit for end, unit in UNITS.items() if row.metric.endswith(end)), "")
        cited = [_cited(side.cited.get(row.metric)) for side in sides]
        found = [source.summary(results) for source in row.sources]
        counts |= {each.n for each in found if each is not None}
        name = f"{row.name} [{unit}]" if unit else row.name
        if not any(found):
            lines.append([name, *cited, row.sources[0].reason(results)])
            continue
        lines.append([name, *cited, *(cell for each in found for cell in _cells(each, unit))])
    # `gaps` says them above the table.
    take_reasons(lines)
    measured = [f"{end:d}" for end in sorted({min(counts), max(counts)})] if counts else ["0"]
    return Table(title, columns, lines, frozenset(), f"Here n = {' to '.join(measured)}. {note}")


def _cells(summary: Summary | None, unit: str) -> list[str]:
    if summary is None:
        return [MISSING, MISSING]
    own = own_scale(Scale(unit, 1.0, 0, unit), summary)
    return [
        f"{own.text(summary.mean)} (std {own.text(summary.std)})",
        f"{own.text(summary.median)} ({own.span(summary.ci95)})",
    ]


def _cited(known: Known | None) -> str:
    if known is None:
        return MISSING
    scale = Scale("", 1.0, 3)
    return f"{scale.text(known.mean)} (std {scale.text(known.deviation)})"


def _rows(sides: Sequence[Side], names: Sequence[tuple[str, str]]) -> list[Row]:
    return [Row(name, metric, [side.source(metric) for side in sides]) for name, metric in names]


def _simulated(names: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(f"{name} (model)", f"simulated_{metric}") for name, metric in names]


def figure_2(results: Analysed) -> Section:
    """Draw Figure 2, sequential and random access: counters of caches and TLBs, times and faults."""
    names = {"seq": "[sequential access]", "random": "[random access]"}

    def sides(experiment: str, counters: str) -> list[Side]:
        return [
            Side(
                names[pattern],
                experiment,
                {"pattern": pattern, "footprint": FIRST, "counters": counters},
                {**reference.PATTERN[pattern], "rate": RATES[pattern]},
            )
            for pattern in PATTERNS
        ]

    hardware = sides("memory.counters", "hardware")
    rows = [
        *_rows(hardware, COUNTED),
        *_rows(sides("memory.counters", "simulated"), _simulated(COUNTED)),
        *_rows(sides("memory.access", "none"), BRIEF),
    ]
    note = (
        "Model: counts of a model of this processor's caches and TLBs, which is fed with the same addresses; "
        "they never stand in place of the counters. "
        f"{sizes(results, 'memory.access', 'memory.counters')} {ORIGINAL}"
    )
    shown = _grid(results, "Figure 2: sequential and random access", hardware, rows, note)
    return Section("", "", tables=[shown], missing=gaps(results, _all(rows)))


def figure_3(results: Analysed) -> Section:
    """Draw Figure 3, file-backed mappings: resident memory and blocks of both parts of the program."""
    short = {"seq": "seq", "random": "rand"}
    sides = [
        Side(
            f"[{'share' if mapping == 'shared' else mapping}, {short[pattern]}]",
            "memory.mapping",
            {"mapping": mapping, "pattern": pattern, "footprint": FIRST},
            reference.MAPPING[mapping, pattern],
        )
        for mapping in ("private", "shared")
        for pattern in PATTERNS
    ]
    rows = _rows(sides, MAPPED)
    note = f"fun: do_mem_access. {sizes(results, 'memory.mapping')} {ORIGINAL}"
    shown = _grid(results, "Figure 3: MAP_PRIVATE and MAP_SHARED", sides, rows, note)
    return Section("", "", tables=[shown], missing=gaps(results, _all(rows)))


MAPPED = tuple(
    (f"{name} ({part})", f"{prefix}{metric}")
    for part, prefix in (("init", "init_"), ("fun", ""))
    for name, metric in (("maxrss", "maxrss_kib"), ("inblock", "inblock"), ("oublock", "oublock"))
)
"""The rows of Figures 3 and 4."""


def figure_4(results: Analysed) -> Section:
    """Draw Figure 4: MAP_POPULATE, and memset with msync."""
    names = ("[private, populate]", "[share, populate]", "[share, memset and msync]")
    sides = [
        Side(
            name,
            "memory.initialise",
            {"mapping": mapping, "populate": populate, "initialise": initialise},
            reference.PREPARED[mapping, populate, initialise],
        )
        for name, (mapping, populate, initialise) in zip(names, PREPARED, strict=True)
    ]
    rows = _rows(sides, MAPPED)
    note = f"Sequential access. fun: do_mem_access. {sizes(results, 'memory.initialise')} {ORIGINAL}"
    shown = _grid(results, "Figure 4: MAP_POPULATE and memset after allocation", sides, rows, note)
    return Section("", "", tables=[shown], missing=gaps(results, _all(rows)))


def figure_5(results: Analysed) -> Section:
    """Draw Figure 5: random access with and without a process that competes for memory."""
    names = {"compete": "[compete]", "none": "[no compete]"}

    def sides(counters: str) -> list[Side]:
        return [
            Side(
                name,
                "memory.pressure",
                {"pressure": pressure, "counters": counters},
                {**reference.PRESSURE[pressure], "rate": PRESSURE_RATES[pressure]},
            )
            for pressure, name in names.items()
        ]

    rows = [*_rows(sides("none"), USED), *_rows(sides("hardware"), COUNTED)]
    note = f"Anonymous memory, random access. {sizes(results, 'memory.pressure')} {ORIGINAL}"
    shown = _grid(results, "Figure 5: with and without memory pressure", sides("none"), rows, note)
    return Section("", "", tables=[shown], missing=gaps(results, _all(rows)))


def figure_6(results: Analysed) -> Section:
    """Draw Figure 6: the modified and the unmodified policy, for each mapping."""
    if results.get("kernel.reclaim-wall") is None:
        return Section("", "", missing=NO_KERNEL)
    titles = {"reclaim-active": "[modified kernel]", "own": "[no modified kernel]"}
    tables = []
    for mapping in MAPPINGS:
        sides = [
            Side(
                titles[policy],
                "kernel.reclaim-wall",
                {"policy": policy, "mapping": mapping, "pattern": "random"},
                POLICY[mapping, policy],
            )
            for policy in POLICIES
        ]
        where = guest(results, "kernel.reclaim-wall")
        note = f"{where} {sizes(results, 'kernel.reclaim-wall')} {ORIGINAL}".strip()
        rows = _rows(sides, (*USED, *COUNTED))
        tables.append(_grid(results, f"Figure 6: {mapping} mapping", sides, rows, note))
    return Section("", "", tables=tables)


def _all(rows: Sequence[Row]) -> list[Source]:
    return [source for row in rows for source in row.sources]


DRAWN: Mapping[str, Callable[[Analysed], Section | None]] = {
    "figure-2": figure_2,
    "figure-3": figure_3,
    "figure-4": figure_4,
    "figure-5": figure_5,
    "figure-6": figure_6,
}
"""By the key of the step."""
