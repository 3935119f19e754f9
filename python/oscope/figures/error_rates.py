"""How often verdicts were wrong in a calibration: sentences, tables, and a figure beside common habits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.analysis.calibration import trials
from oscope.analysis.calibration.certificate import entries
from oscope.analysis.calibration.method_rates import method_rates
from oscope.analysis.calibration.methods import METHODS, OSCOPE, T_INTERVAL
from oscope.analysis.calibration.peers import WELCH
from oscope.analysis.calibration.trials import Trial
from oscope.figures import mde, plots
from oscope.model.document import Figure, Table
from oscope.model.formatting import MISSING, format_share
from oscope.statistics.rate import Rate

_COLOURS = {name: index for index, name in enumerate(name for name in METHODS if name != WELCH)}
_COLOURS[WELCH] = _COLOURS[T_INTERVAL]
"""Colours of the methods in figures: hyperfine's script is the t-test of the t-interval, on times."""
METHODS_TITLE = "Errors of Oscope and of common habits"
_METHODS_NOTE = (
    "In brackets 95 % intervals (Wilson). Found: the difference is reported, in the right direction. s per: "
    "seconds of measuring, of both sides, per difference found; – where the method found none or its false "
    "positives exceed 5 % (the whole interval does). Truth held: the method's 95 % interval holds the known "
    "difference. hyperfine, criterion and pyperf: their rules on the same samples, all blocks pooled. The "
    "minimum and the median (lmbench) have no test: more than 1 % is taken for a difference."
)
_MOST_SEEN = 10.0
NOMINAL = "the level is 5 %, and 95 % for intervals"


def sentences(found: Sequence[Trial]) -> list[str]:
    """Return the rates, a sentence each: what 10 s of measuring find, if that is known, in front."""
    certified, effects = entries(found), trials.effects(found)
    lines = [mde.sentence(certified)] if certified else []
    lines.append(f"Equal sides were found to differ in {trials.false_alarms(found)} pairs; {NOMINAL}.")
    if effects:
        lines.append(f"Intervals held a known difference in {trials.coverage(found)}.")
    for effect in effects:
        lines.append(f"A slow-down of {format_share(effect)} was found in {trials.found(found, effect)}.")
    return lines


def by_subject(found: Sequence[Trial]) -> Table:
    """Return the counts of each subject and way, and of all together."""
    effects = trials.effects(found)
    own = sorted(trials.by_subject(found).items(), key=lambda row: row[0])
    rows = [
        [
            subject,
            way,
            _count(trials.false_alarms(each)),
            _seen(trials.detectable(each)),
            *([_count(trials.coverage(each))] if effects else []),
            *(_count(trials.found(each, effect)) for effect in effects),
        ]
        for (subject, way), each in (*own, (("all", ""), found))
    ]
    columns = ["subject", "sides", "false positives", "would find", *(["truth held"] if effects else [])]
    note = (
        "Would find: the smallest difference found with 80 % power, the median of the pairs. Truth "
        "held: the 95 % interval holds the known difference. Sides in sequence allow for a common drift."
    )
    found_at = [f"found {format_share(effect)}" for effect in effects]
    return Table("Errors by subject", [*columns, *found_at], rows, note=note)


def _seen(share: float) -> str:
    if not np.isfinite(share):
        return MISSING
    return format_share(float(f"{share:.2g}")) if share <= _MOST_SEEN else f"> {format_share(_MOST_SEEN)}"


def _count(rate: Rate) -> str:
    return f"{rate.count} of {rate.of}" if rate.of else MISSING


def by_method_and_way(found: Sequence[Trial]) -> list[Table]:
    """Return the table of the methods for each way of measuring: drift between runs misleads most methods.

    The last one has the note.
    """
    ways = sorted({trial.way for trial in found})
    if len(ways) == 1:
        return [by_method(found)]
    notes = [*[""] * (len(ways) - 1), _METHODS_NOTE]
    own = [[trial for trial in found if trial.way == way] for way in ways]
    titles = [f"{METHODS_TITLE}, sides {way}" for way in ways]
    return [by_method(*each) for each in zip(own, titles, notes, strict=True)]


def by_method(found: Sequence[Trial], title: str = METHODS_TITLE, note: str = _METHODS_NOTE) -> Table:
    """Return what Oscope, other tools' rules and common habits make of the same samples."""
    effects = trials.effects(found)
    columns = ["method", "false positives"]
    columns += [f"{what} {format_share(effect)}" for effect in effects for what in ("found", "s per")]
    rows = []
    for rates in method_rates(found):
        row = [rates.method, rates.false_positives.percent]
        for effect in effects:
            row += [_power(rates.power[effect]), _seconds(rates.seconds_per_find(effect))]
        held = MISSING if rates.coverage is None else rates.coverage.percent
        rows.append([*row, *([held] if effects else [])])
    pairs = [f"{trials.false_alarms(found).of} pairs without a difference"]
    pairs += [f"{trials.found(found, effect).of} of {format_share(effect)}" for effect in effects]
    columns += ["truth held"] if effects else []
    return Table(title, columns, rows, note=f"{', '.join(pairs)}. {note}".rstrip())


def _power(rate: Rate) -> str:
    return f"{100 * rate.share:.0f} %" if rate.of else MISSING


def _seconds(seconds: float | None) -> str:
    return MISSING if seconds is None else f"{seconds:.3g}"


def figure(found: Sequence[Trial]) -> Figure:
    """Draw how often each method finds a difference, by how large it is; at 0 these are false positives."""
    series = []
    for rates in method_rates(found):
        name, colour = rates.method, _COLOURS[rates.method]
        every = {0.0: rates.false_positives, **rates.power}
        dots = [(100 * effect, _dot(name, rate, colour)) for effect, rate in every.items()]
        series.append(plots.Line(name, dots, colour, "solid" if name == OSCOPE else "dash"))
    return plots.lines(
        "Found to differ, by how much the sides differ",
        (plots.axis("true slow-down [%]"), plots.axis("pairs found to differ [%]", range=[-3, 103])),
        series,
        "At 0 these are false positives, of which 5 % are allowed; further right, more is better.",
    )


def _dot(name: str, rate: Rate, colour: int) -> plots.Dot:
    low, high = rate.interval
    return plots.Dot(name, 100 * (rate.share if rate.of else 0.0), (100 * low, 100 * high), colour=colour)
