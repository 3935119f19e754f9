"""The certificate as a table and a figure: the smallest difference found, by the time spent measuring."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from oscope.analysis.calibration.certificate import FEWEST_RUNS, INTERLEAVED, POWER, TIMES_S, Entry
from oscope.analysis.calibration.spec import DUET
from oscope.figures import plots
from oscope.model.document import Figure, Table
from oscope.model.formatting import MISSING, format_share
from oscope.model.units import format_duration

_MOST = 1.0
"""A difference as large as the value itself is no promise."""
_STEPS = 25
_SEPARATE = "separate runs"
_DASHES = {INTERLEAVED: "solid", DUET: "dot", _SEPARATE: "dash"}
TITLE = "Smallest difference found, by measuring time"


def table(entries: Sequence[Entry]) -> Table:
    """Return a row for each class of work and way, a column for each measuring time."""
    rows = []
    for entry in entries:
        rows.append([entry.subject, entry.way, *(_share(entry.interleaved(s)) for s in TIMES_S)])
        if entry.way == INTERLEAVED:
            rows.append([entry.subject, _SEPARATE, *(_share(entry.separate(s)) for s in TIMES_S)])
    columns = ["class of work", "sides", *(format_duration(seconds) for seconds in TIMES_S)]
    note = (
        f"Found in {format_share(POWER)} of cases, with 5 % false positives, at one point; the time is that "
        "of both sides. Between separate runs, more time does not help beyond how much runs differ though "
        f"nothing was changed: {_deviations(entries)}. Times beyond those measured are extrapolated."
    )
    return Table(TITLE, columns, rows, note=note)


def figure(entries: Sequence[Entry]) -> Figure:
    """Return the curves: time on one axis, the smallest difference on the other, both logarithmic."""
    times = np.geomspace(TIMES_S[0], TIMES_S[-1], _STEPS)
    series = []
    colours = {subject: number for number, subject in enumerate(dict.fromkeys(e.subject for e in entries))}
    for entry in entries:
        colour = colours[entry.subject]
        curves = [(entry.way, entry.interleaved, "solid" if entry.way == INTERLEAVED else "dot")]
        if entry.way == INTERLEAVED:
            curves.append((_SEPARATE, entry.separate, "dash"))
        for way, effect_at, style in curves:
            name = f"{entry.subject}, {way}"
            points = [
                (float(seconds), plots.Dot(name, 100 * effect, colour=colour))
                for seconds in times
                if (effect := effect_at(float(seconds))) <= _MOST
            ]
            if points:
                series.append(plots.Line(name, points, colour, style))
    return plots.lines(
        TITLE,
        (
            plots.axis("measuring time [s]", scale="log"),
            plots.axis("smallest difference found [%]", scale="log"),
        ),
        series,
        f"Solid: the sides interleaved; dashed: two separate runs{_dotted(entries)}. "
        f"Found in {format_share(POWER)} of cases.",
    )


def worst_table(entries: Sequence[Entry]) -> Table:
    """Return a row for each way of measuring: what is found in every class of work, by measuring time."""
    rows = [
        [way + _part_of(own, entries), *(_share(effect_at(seconds)) for seconds in TIMES_S)]
        for way, own, effect_at in _ways(entries)
    ]
    columns = ["sides", *(format_duration(seconds) for seconds in TIMES_S)]
    note = (
        f"The smallest difference found in at least {format_share(POWER)} of cases, with 5 % false positives "
        "or fewer, in the class of work where it is largest. The time is that of both sides together: two "
        f"runs of 10 s each take 20 s. {MISSING}: in some class of work there are too few pairs or runs."
    )
    numeric = frozenset(range(1, len(columns)))
    return Table("In every class of work", columns, rows, numeric, note)


def worst_figure(entries: Sequence[Entry]) -> Figure:
    """Return the curve of each way of measuring, in the class of work where the difference is largest."""
    times = np.union1d(np.geomspace(TIMES_S[0], TIMES_S[-1], 2 * _STEPS), TIMES_S)
    series = []
    for colour, (way, _, effect_at) in enumerate(_ways(entries)):
        points = [
            (float(seconds), plots.Dot(way, 100 * effect, colour=colour))
            for seconds in times
            if (effect := effect_at(float(seconds))) <= _MOST
        ]
        if points:
            series.append(plots.Line(way, points, colour, _DASHES[way]))
    ticks = {"tickvals": list(TIMES_S), "ticktext": [format_duration(seconds) for seconds in TIMES_S]}
    drawn = plots.lines(
        TITLE,
        (
            plots.axis("measuring time, both sides together", scale="log", **ticks),
            plots.axis("smallest difference found [%]", scale="log"),
        ),
        series,
    )
    # A curve has no measured points: it follows from the certificate, which the table rounds.
    traces = [{**trace, "mode": "lines", "error_y": None} for trace in drawn.traces]
    return replace(drawn, traces=traces, layout={**drawn.layout, "height": 320})


def _ways(
    entries: Sequence[Entry],
) -> Iterator[tuple[str, Sequence[Entry], Callable[[float], float]]]:
    """Give each way of measuring, its classes of work, and what so many seconds find in the worst of them."""
    alone = _alone(entries)
    duets = [entry for entry in entries if entry.way == DUET]
    for way, own, effect_at in (
        (INTERLEAVED, alone, Entry.interleaved),
        (DUET, duets, Entry.interleaved),
        (_SEPARATE, alone, Entry.separate),
    ):
        if own:
            yield way, own, partial(_worst, own, effect_at)


def _worst(own: Sequence[Entry], effect_at: Callable[[Entry, float], float], seconds: float) -> float:
    return max(effect_at(entry, seconds) for entry in own)


def _part_of(own: Sequence[Entry], entries: Sequence[Entry]) -> str:
    """Say of how many classes of work, unless of all."""
    count = len({entry.subject for entry in entries})
    return "" if len(own) == count else f", {len(own)} of {count} classes of work"


def sentence(entries: Sequence[Entry]) -> str:
    """Say in one sentence what 10 s of measuring find here."""
    text = f"10 s of interleaved measuring find a difference of {interleaved(entries)}"
    apart = separate(entries)
    return f"{text}." if apart is None else f"{text}; two separate runs of 10 s each, {apart}."


def interleaved(entries: Sequence[Entry]) -> str:
    """Return the smallest differences that 10 s find, from the most to the least precise class of work."""
    return _span([entry.interleaved(TIMES_S[1]) for entry in _alone(entries)])


def separate(entries: Sequence[Entry]) -> str | None:
    """Return those between separate runs of 10 s each; None where there were too few runs to know."""
    known = [entry.separate(2 * TIMES_S[1]) for entry in _alone(entries) if entry.knows_runs]
    return _span(known) if known else None


def seconds_to_find(entries: Sequence[Entry], change: float) -> float | None:
    """Return the measuring time, both sides together, that finds `change` in every class of work.

    None where a class never finds it, or nothing was calibrated.
    """
    pairs = [(entry.pairs_for(change), entry.pair_s) for entry in _alone(entries)]
    times = [count * seconds for count, seconds in pairs if count is not None]
    return max(times) if times and len(times) == len(pairs) else None


def rounded(seconds: float) -> str:
    """Return a measuring time to two digits, rounded up."""
    step = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return format_duration(float(f"{math.ceil(seconds / step) * step:.2g}"))


def _alone(entries: Sequence[Entry]) -> list[Entry]:
    """Return those of sides that nothing of Oscope ran beside."""
    return [entry for entry in entries if entry.way == INTERLEAVED]


def _dotted(entries: Sequence[Entry]) -> str:
    return "; dotted: both sides at the same time (duet)" if len(_alone(entries)) < len(entries) else ""


def _span(shares: Sequence[float]) -> str:
    """Return the least and the greatest share; those that are unknown are counted."""
    known = [share for share in shares if np.isfinite(share)]
    if not known:
        return MISSING
    ends = " to ".join(dict.fromkeys(_share(end) for end in (min(known), max(known))))
    lacking = len(shares) - len(known)
    return f"{ends} (not known in {lacking} of {len(shares)} classes of work)" if lacking else ends


def _share(share: float) -> str:
    if not np.isfinite(share):
        return MISSING
    return format_share(float(f"{share:.2g}")) if share <= _MOST else f"> {format_share(_MOST)}"


def _deviations(entries: Sequence[Entry]) -> str:
    known = [entry for entry in _alone(entries) if entry.runs >= FEWEST_RUNS]
    if not known:
        return "not known, too few runs"
    runs = " to ".join(dict.fromkeys(str(end(entry.runs for entry in known)) for end in (min, max)))
    return f"by {_span([entry.run_deviation for entry in known])} (standard deviation of {runs} runs)"
