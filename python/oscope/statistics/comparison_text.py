"""What a comparison says in words."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from oscope.model import clocks, formatting
from oscope.model.factors import as_typed
from oscope.model.samples import ExperimentResults
from oscope.statistics import between_runs, effect
from oscope.statistics.compared import LARGEST_RATIO
from oscope.statistics.core_clock import AT_ONE_SPEED
from oscope.statistics.estimating import FEWEST_CLUSTERS, Result
from oscope.statistics.quantiles import TailDifference

_MATTERS: Mapping[str, str] = {
    "yes": "it matters",
    "no": "too small to matter",
    # vocabulary: keep: the labs' answers and notebooks quote it
    "cannot tell": "whether it matters cannot be told",
}


_BENCHED = {
    "command.run": "oscope bench -- ./OLD --vs ./NEW",
    "python.call": "oscope.bench(old, new)",
}
"""What measures commands, and functions of Python, interleaved."""

MOST_NAMED = 3
"""Points whose levels a printed command names at most: more are mostly all that the experiment has."""

LARGE = 1.0
"""From this relative difference on, what would have been found is written as a factor."""

LAST_WITH_TENTHS = 9.0
"""Up to this relative difference a factor is written with one digit after the point."""


def factor_text(share: float) -> str:
    """Write a relative difference as a factor, `6.0` for one of 500 %; beyond bounds `more than 100`."""
    factor = 1 + share
    if factor > LARGEST_RATIO:
        return f"more than {LARGEST_RATIO}"
    return f"{factor:.1f}" if share < LAST_WITH_TENTHS else f"{factor:.0f}"


def sentence(result: Result, different: str, matters: str, figures: tuple[float, float, float, float]) -> str:
    """Say the answers in one sentence.

    The figures: ratio, its interval, and the change that would have been found, on the estimate's scale.
    """
    ratio, low, high, mde = figures
    found, unit = result.estimate, result.metric.unit
    if not np.isfinite(found.error):
        readings = result.a.n == result.b.n == 1
        what, vary = ("sample", "samples vary") if readings else ("process", "processes differ")
        return f"cannot tell: one {what} a side does not show how {vary}"
    if result.constant is not None and found.effect == 0:
        return f"no difference found: identical in all {result.constant.units}"
    if found.p < effect.LEVEL and result.contradicts and different != "no":
        return f"cannot tell: {_contradiction(result)}"
    if different != "yes":
        if np.isnan(mde):
            return "no difference found: most pairs are equal"
        least = result.ratio(mde) - 1
        if least >= LARGE:
            if result.method.startswith("unpaired") and result.fewest_clusters >= FEWEST_CLUSTERS:
                # Separate runs differ, whatever the number of their samples.
                return f"no difference found; none below a factor of {factor_text(least)} would have been"
            return f"no difference found; too few samples to see one below a factor of {factor_text(least)}"
        size = formatting.format_share(least)
        if np.isnan(ratio):
            size = formatting.format_value(mde, None, unit)
        return f"no difference found; one of {size} would have been"
    quality = _quality(ratio, result.metric.better)
    if result.constant is not None and unit == clocks.UNIT:
        amount = formatting.format_value(abs(found.effect), None, unit)
        share = "" if np.isnan(ratio) else f" ({formatting.format_share(abs(ratio - 1))})"
        direction = "more" if found.effect > 0 else "less"
        statement = f"B is {amount}{share} {direction} than A, the same in each of {result.constant.units}"
        return f"{statement}{quality}; {_MATTERS[matters]}"
    if np.isnan(ratio):
        change = formatting.format_interval(found.effect, found.low, found.high, unit)
        return f"B differs from A by {change}; A is not clearly above 0, so there is no ratio"
    half = (high - low) / 2
    change = formatting.format_share(abs(ratio - 1), half)
    limits = " to ".join(formatting.format_share(side - 1, half).removesuffix(" %") for side in (low, high))
    direction = "more" if ratio > 1 else "less"
    if unit == clocks.UNIT and not result.logarithmic:
        change = (
            f"{formatting.format_value(abs(found.effect), (found.high - found.low) / 2, unit)} ({change})"
        )
    speed = "" if result.explained is None else AT_ONE_SPEED
    return f"B is {change} {direction} than A{speed} (95 % interval {limits} %){quality}; {_MATTERS[matters]}"


def _contradiction(result: Result) -> str:
    """Say how the medians of all samples contradict the estimate."""
    if result.estimate.effect == 0:
        return (
            "the typical pair of blocks is equal, though more pairs differ in one direction than in the other"
        )
    estimated = "the typical pair of blocks" if result.explained is None else "what the core's speed leaves"
    if result.a.median == result.b.median:
        return f"the medians of all samples are equal, though {estimated} differs"
    return f"the medians of all samples differ in the opposite direction to {estimated}"


def tail_sentence(tail: TailDifference) -> str:
    """Say by how much a quantile of the slow tail differs, and how many samples are slower than A's."""
    low, high = tail.ci95
    half = (high - low) / 2
    if np.isnan(tail.ratio):
        change = f"{formatting.format_interval(tail.difference, low, high, tail.unit)} more than A's"
    else:
        figure, *ends = (
            formatting.format_value(each, min(half, 1.0), "") for each in (tail.ratio, low, high)
        )
        change = f"{figure} times A's (95 % interval {' to '.join(ends)})"
    medians = "though no difference of the medians was found"
    if tail.medians_differ:
        medians = "which the difference of the medians does not explain"
    where = "above" if tail.quantile > 0.5 else "below"
    return (
        f"{tail.name} is {change}, {medians}: {_one_in(tail.beyond_b)} of B's samples is {where} A's "
        f"{tail.name}, {_one_in(tail.beyond_a)} of A's"
    )


def _one_in(share: float) -> str:
    """Return `1 in 32`, to two digits; `none` of a share of 0."""
    return f"1 in {float(f'{1 / share:.2g}'):.12g}" if share > 0 else "none"


def _quality(ratio: float, better: str | None) -> str:
    """Say whether the change is for the better, where that can be said."""
    if better is None or np.isnan(ratio):
        return ""
    return f", {'better' if (ratio < 1) == (better == 'less') else 'worse'}"


def separate_runs(results: Sequence[Result], command: str) -> Iterator[str]:
    """Report how much separate runs differ here, and what interleaved sides would have found.

    `command` is the one that measures the sides interleaved.
    """
    own = [result for result in results if result.between != between_runs.NONE]
    if not own:
        return
    spreads = [result.between for result in own]
    # One other run shows no spread: it counts as none.
    fewest, most = (end(spread.runs for spread in spreads) for end in (min, max))
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    source = f"the {count} newest runs of this machine"
    if most == 0:
        source = (
            f"the drift within these two, but at least {formatting.format_share(between_runs.ASSUMED)}: "
            "the store has fewer than 2 other comparable runs of this machine"
        )
    elif fewest < between_runs.ASSUMED_RUNS:
        source = (
            f"{count} other runs of this machine and the drift within these two; with more runs it is surer"
        )
    text = f"two separate runs: unchanged runs differ by {_span(map(_without, own))} here"
    text += f" (standard deviation, by {source})"
    both = [
        (interleaved, result.ratio(result.estimate.detectable(effect.LEVEL)) - 1)
        for result in own
        if (interleaved := _interleaved(result)) is not None and np.isfinite(interleaved)
    ]
    # Where each block alone is as uncertain as runs are, interleaving promises nothing.
    if both and (better := float(np.median([x for x, _ in both]))) < (
        now := float(np.median([x for _, x in both]))
    ):
        text += (
            "; interleaved, the same measuring time would lower the mde to "
            f"{formatting.format_share(better / now)} of what it is: {command}"
        )
    elif fewest < between_runs.ASSUMED_RUNS:
        text += f"; interleaved sides share that drift: {command}"
    yield text


def _without(result: Result) -> float:
    """Return by how much runs differ where nothing is taken off."""
    return result.between.deviation if result.explained is None else result.explained.without


def core_speeds(results: Sequence[Result]) -> Iterator[str]:
    """Say what of the difference between separate runs was left out, since the core ran at another speed."""
    own = [result.explained for result in results if result.explained is not None]
    if not own:
        return
    speed = _span(max(each.slower, 1 / (1 + each.slower) - 1) for each in own)
    direction = {each.slower > 0 for each in own}
    side = "B" if direction == {True} else "A" if direction == {False} else "one side"
    yield (
        f"* the core was slower in {side}, by {speed} (loads from its first cache); what that changes, by "
        f"earlier runs, is taken off, and runs then differ by {_span(each.spread.deviation for each in own)} "
        f"in place of {_span(each.without for each in own)}"
    )


def _span(shares: Iterable[float]) -> str:
    found = [float(f"{share:.2g}") for share in shares]
    return " to ".join(dict.fromkeys(map(formatting.format_share, (min(found), max(found)))))


def _interleaved(result: Result) -> float | None:
    """Return the relative difference that as many pairs of neighbouring blocks would have found, or None."""
    values = result.a.value if len(result.a.value) <= len(result.b.value) else result.b.value
    pairs = len(values) // 2
    if pairs < effect.SIGNS_FROM or not result.logarithmic:
        return None
    found = effect.paired(values[1 : 2 * pairs : 2] - values[: 2 * pairs : 2])
    # Neighbours of one run are half as many pairs as two such runs would have had interleaved.
    return float(np.expm1(found.detectable(effect.LEVEL) / np.sqrt(2)))


def interleaved_command(a: ExperimentResults) -> str:
    """Return the command that measures such sides interleaved, with the levels of few points."""
    if a.experiment in _BENCHED:
        return _BENCHED[a.experiment]
    if a.environment.get("imported"):
        return _BENCHED["command.run"]
    if a.environment.get("guest"):
        words = ["oscope", "kernel", "ab"]
    elif a.environment.get("program"):
        words = ["oscope", "ab", "./OLD", "./NEW"]
    else:
        words = ["oscope", "ab", "OLD/oscope-probe", "NEW/oscope-probe"]
    words.append(a.experiment)
    for name in a.names if len(a.points) <= MOST_NAMED else ():
        words += ["--set", f"{name}={','.join(map(as_typed, a.levels(name)))}"]
    return shlex.join(words)
