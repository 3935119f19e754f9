"""The answer of a calibration: rates of error with their intervals, beside those of common habits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oscope import questions as q
from oscope.analysis.calibration import result as result_of
from oscope.analysis.calibration import trials
from oscope.analysis.calibration.certificate import entries
from oscope.analysis.calibration.method_rates import MethodRates, method_rates
from oscope.analysis.calibration.methods import METHODS, OSCOPE, T_INTERVAL
from oscope.analysis.calibration.peers import WELCH
from oscope.analysis.calibration.spec import CalibrationSpec
from oscope.analysis.calibration.trials import Trial
from oscope.figures import reach
from oscope.model.factors import Profile
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


def calibrate(profile: Profile) -> Mapping[str, Any]:
    """Calibrate this machine: an object of `oscope.calibration/1`."""
    from oscope import labs  # noqa: PLC0415 - the labs hold this one

    quick = CalibrationSpec(pairs=1, effects=(0.05,), blocks=5, reps=5)
    spec = quick if profile == "quick" else CalibrationSpec(pairs=10, effects=(0.02,))
    return result_of.calibrate(spec, find=labs.experiment)


def section(title: str, result: Mapping[str, Any]) -> q.Section:
    """Return the rates of one calibration, `oscope.calibration/1`."""
    found = trials.from_object(result["trials"])
    certified = entries(found)
    return q.Section(
        title=title,
        answer=answer(found),
        text=[_told(result, found)],
        tables=[*([reach.table(certified)] if certified else []), by_subject(found), by_method(found)],
        figures=[*([reach.figure(certified)] if certified else []), _figure(found)],
    )


def answer(found: Sequence[Trial]) -> str:
    """Tell the rates in a few sentences."""
    certified = entries(found)
    parts = [reach.sentence(certified)] if certified else []
    parts.append(f"Equal sides were found to differ in {trials.false_alarms(found)} pairs; {NOMINAL}.")
    if effects := trials.effects(found):
        parts.append(f"Intervals held a known difference in {trials.coverage(found)}.")
        parts += [
            f"A slow-down of {q.format_share(effect)} was found in {trials.found(found, effect)}."
            for effect in effects
        ]
    return " ".join(parts)


def _told(result: Mapping[str, Any], found: Sequence[Trial]) -> str:
    wanted = result["wanted"]
    seconds = float(np.median([trial.seconds for trial in found])) if found else float("nan")
    text = (
        f"Each side has {wanted['blocks']} blocks of {wanted['reps']} samples, which took "
        f"{seconds:.2g} s. A known difference is a wait in the measured region of side B, so many ns for "
        "each iteration; equal sides are measured by the same code as any run."
    )
    if wanted["load"] != "none":
        text += f" Meanwhile oscope inject caused interference by {wanted['load']}, in phases."
    if result["interrupted"]:
        text += " It was interrupted, and covers the pairs up to then."
    return text


Subject = tuple[str, str, Sequence[Trial]]
"""A subject, how its sides were measured, and its pairs."""


def by_subject(found: Sequence[Trial]) -> q.Table:
    """Return the counts of each subject and way, and of all together."""
    effects = trials.effects(found)
    own: list[Subject] = [(*name, each) for name, each in trials.by_subject(found).items()]

    def slowed(effect: float) -> q.Column[Subject]:
        return q.text(f"found {q.format_share(effect)}", lambda row: _count(trials.found(row[2], effect)))

    held: q.Column[Subject] = q.text("truth held", lambda row: _count(trials.coverage(row[2])))
    return q.TableOf[Subject](
        "Errors by subject",
        *q.items("subject", "sides"),
        q.text("false positives", lambda row: _count(trials.false_alarms(row[2]))),
        q.text("would find", lambda row: _seen(trials.detectable(row[2]))),
        *([held] if effects else []),
        *map(slowed, effects),
        note="Would find: the smallest difference found with 80 % power, the median of the pairs. Truth "
        "held: the 95 % interval holds the known difference. Sides in sequence allow for a common drift.",
    ).of([*sorted(own, key=lambda row: row[:2]), ("all", "", found)])


def _seen(share: float) -> str:
    if not np.isfinite(share):
        return q.MISSING
    return q.format_share(float(f"{share:.2g}")) if share <= _MOST_SEEN else f"> {q.format_share(_MOST_SEEN)}"


def _count(rate: Rate) -> str:
    return f"{rate.count} of {rate.of}" if rate.of else q.MISSING


def by_method_and_way(found: Sequence[Trial]) -> list[q.Table]:
    """Return that table for each way of measuring: drift between separate runs misleads most methods.

    The last one has the note.
    """
    ways = sorted({trial.way for trial in found})
    if len(ways) == 1:
        return [by_method(found)]
    notes = [*[""] * (len(ways) - 1), _METHODS_NOTE]
    own = [[trial for trial in found if trial.way == way] for way in ways]
    titles = [f"{METHODS_TITLE}, sides {way}" for way in ways]
    return [by_method(*each) for each in zip(own, titles, notes, strict=True)]


def by_method(found: Sequence[Trial], title: str = METHODS_TITLE, note: str = _METHODS_NOTE) -> q.Table:
    """Return what Oscope, other tools' rules and common habits make of the same samples."""
    effects = trials.effects(found)

    def power(effect: float) -> list[q.Column[MethodRates]]:
        def found(rates: MethodRates) -> str | None:
            rate = rates.power[effect]
            return f"{100 * rate.share:.0f} %" if rate.of else None

        def seconds(rates: MethodRates) -> float | None:
            return rates.seconds_per_find(effect)

        share = q.format_share(effect)
        return [q.text(f"found {share}", found), q.written(f"s per {share}", seconds, "{:.3g}".format)]

    held: q.Column[MethodRates] = q.text(
        "truth held", lambda rates: None if rates.coverage is None else rates.coverage.percent
    )
    pairs = [f"{trials.false_alarms(found).of} pairs without a difference"]
    pairs += [f"{trials.found(found, effect).of} of {q.format_share(effect)}" for effect in effects]
    return q.TableOf[MethodRates](
        title,
        q.text("method", lambda rates: rates.method),
        q.text("false positives", lambda rates: rates.false_positives.percent),
        *(column for effect in effects for column in power(effect)),
        *([held] if effects else []),
        note=f"{', '.join(pairs)}. {note}".rstrip(),
    ).of(method_rates(found))


def _figure(found: Sequence[Trial]) -> q.Figure:
    series = []
    for rates in method_rates(found):
        name, colour = rates.method, _COLOURS[rates.method]
        every = {0.0: rates.false_positives, **rates.power}
        dots = [(100 * effect, _dot(name, rate, colour)) for effect, rate in every.items()]
        series.append(q.plots.Line(name, dots, colour, "solid" if name == OSCOPE else "dash"))
    return q.plots.lines(
        "Found to differ, by how much the sides differ",
        (q.plots.axis("true slow-down [%]"), q.plots.axis("pairs found to differ [%]", range=[-3, 103])),
        series,
        "At 0 these are false positives, of which 5 % are allowed; further right, more is better.",
    )


def _dot(name: str, rate: Rate, colour: int) -> q.plots.Dot:
    share = rate.share if rate.of else 0.0
    return q.plots.Dot(name, 100 * share, q.interval(rate.interval, 0.01), colour=colour)
