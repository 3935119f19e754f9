"""Finds the commit at which a metric changed: both ends first, then commits between, with both ends beside.

Each step is a run of its own in the store, of one to two commits and both ends, interleaved. What is known is
computed from these runs alone, so that a bisection resumes from them.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oscope.model.errors import OscopeError, UsageError
from oscope.model.formatting import format_share
from oscope.model.revision import FACTOR, Revision
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.model.units import format_duration
from oscope.programs.worktrees import BuildError
from oscope.statistics import ComparedMetric
from oscope.statistics.bisection import (
    ENOUGH,
    Group,
    Reading,
    best_group,
    choose,
    posterior,
    probability_after,
    probability_of_change,
)
from oscope.statistics.compare import compare_points

_HALF = 1.959964
"""Half of a 95 % interval, in standard errors."""
SURE = 0.95
"""From this probability on a commit counts as one of the ends."""
WALL_TIMES = ("time_ns", "net_ns")
"""Metrics in which the time of others on the CPUs counts too."""
MOST_SUSPECTS = 5
"""Commits that a sentence names."""
SPARE_STEPS = 8
"""Steps beyond those that a bisection without noise takes."""


@dataclass(frozen=True)
class Step:
    """What one run found."""

    run_id: str
    positions: tuple[int, ...]
    """Positions in the line that it measured beside the ends; none: the ends alone."""
    verdicts: tuple[str, ...]
    """For each of them: as the first end, as the last, or between both."""


@dataclass
class Bisection:
    """The line of commits, and what is known of it."""

    line: tuple[Revision, ...]
    """The end before, then every commit up to the end after."""
    steps: list[Step] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    ends: list[ComparedMetric] = field(default_factory=list)
    """The last end against the first, of each run."""
    skipped: dict[int, str] = field(default_factory=dict)
    """Why positions cannot be measured."""
    jump: ComparedMetric | None = None
    """The commit after the change against the one before it, once both were measured in one run."""
    jumped: tuple[int, int] | None = None
    """Their positions."""
    misses: int = 0

    @property
    def commits(self) -> int:
        """How many commits may have made the change."""
        return len(self.line) - 1

    @property
    def differ(self) -> bool:
        """Whether the ends differ, by the verdict of their own run."""
        return bool(self.ends) and self.ends[0].different == "yes"

    @property
    def group(self) -> Group:
        """The commits that have most likely made the change, with the probability that they have."""
        found = best_group(posterior(self.commits, self.readings), self.skipped)
        changes = [math.log(row.ratio) for row in self.ends]
        sure = probability_of_change(changes, [_error(row) for row in self.ends])
        return Group(found.before, found.after, found.probability * sure)

    @property
    def expected_steps(self) -> int:
        """How many runs a search takes if all goes well: the ends, the halvings, both sides of the commit."""
        return 1 + math.ceil(math.log2(self.commits)) + (self.commits > 1)

    def expected_with(self, chosen: Sequence[int]) -> int:
        """Return how many runs the search takes in all, the next of which measures the positions `chosen`.

        Unless these are both sides of the likeliest change, a run of those is still to come after it.
        """
        group = best_group(posterior(self.commits, self.readings), self.skipped)
        is_last = tuple(chosen) == self._inner(group)
        return max(len(self.steps) + 1 + (not is_last), self.expected_steps)

    def _inner(self, group: Group) -> tuple[int, ...]:
        """Return both sides of a change, less the ends, which every run measures."""
        return tuple(at for at in (group.before, group.after) if at not in (0, self.commits))

    def next(self) -> tuple[int, ...] | None:
        """Return the positions to measure next beside the ends; None where the search is over."""
        if len(self.steps) >= self.expected_steps + SPARE_STEPS:
            return None
        probabilities = posterior(self.commits, self.readings)
        group = best_group(probabilities, self.skipped)
        inner = self._inner(group)
        confirmed = not inner or (group.before, group.after) == self.jumped
        if group.probability >= ENOUGH:
            return None if confirmed else inner
        rounds = Counter(reading.position for reading in self.readings)
        at = choose(probabilities, self.skipped, rounds, self.misses)
        if at is not None:
            return (at,)
        return None if confirmed else inner

    def skip(self, revision: Revision, why: str) -> None:
        """Leave out a commit that cannot be measured."""
        self.skipped[self.position(revision)] = why
        self.misses += 1

    def position(self, revision: Revision) -> int:
        """Return where in the line a commit is."""
        return next(at for at, each in enumerate(self.line) if each.commit == revision.commit)

    def learn(self, results: ExperimentResults) -> Step:
        """Take in what a run found, and return it. Raises OscopeError where an end has no value any more."""
        points = {str(point.factors[FACTOR]): point for point in results.points}
        places = {each.short: at for at, each in enumerate(self.line)}
        measured = {places[short]: point for short, point in points.items()}
        first, last = (measured.pop(at) for at in (0, self.commits))
        ends = _compared(results, first, last)
        if ends is None:
            lost = first if first.skipped else last
            raise OscopeError(
                f"{lost.factors[FACTOR]}: {lost.skipped or 'it has no value that can be compared'}",
                remedy=lost.remedy or "bisect by a metric that is above 0 at both ends",
            )
        self.ends.append(ends)
        self.misses = 0
        verdicts = []
        for at, point in sorted(measured.items()):
            low, high = _compared(results, first, point), _compared(results, last, point)
            if low is None or high is None:
                self.skip(self.line[at], point.skipped or "it has no value that can be compared")
                verdicts.append("skipped")
                continue
            centre = (math.log(low.ratio) + math.log(high.ratio)) / 2
            error = (_error(low) + _error(high)) / 2
            self.readings.append(Reading(at, centre, error, math.log(ends.ratio)))
            verdicts.append(self.verdict(at))
        self._look_at_jump(results, measured | {0: first, self.commits: last})
        step = Step(results.run_id, tuple(sorted(measured)), tuple(verdicts))
        self.steps.append(step)
        return step

    def verdict(self, at: int) -> str:
        """Say which end a commit is like, by all its readings."""
        after = probability_after(each for each in self.readings if each.position == at)
        if max(after, 1 - after) < SURE:
            return f"between {self.line[0].name} and {self.line[-1].name}: cannot tell"
        return f"as {(self.line[-1] if after > 0.5 else self.line[0]).name}"

    def _look_at_jump(self, results: ExperimentResults, measured: dict[int, PointSamples]) -> None:
        """Compare both sides of the likeliest change, where this run measured both."""
        group = best_group(posterior(self.commits, self.readings), self.skipped)
        if group.before in measured and group.after in measured:
            found = _compared(results, measured[group.before], measured[group.after])
            if found is not None:
                self.jump, self.jumped = found, (group.before, group.after)

    def to_object(self) -> dict[str, Any]:
        """Return what was found as a JSON object, for the last run and for --export json."""
        group = self.group
        shares = posterior(self.commits, self.readings)
        suspects = self.line[group.before + 1 : group.after + 1] if self.differ else ()
        return {
            "first": vars(self.line[0]),
            "last": vars(self.line[-1]),
            "differ": self.ends[0].different if self.ends else "cannot tell",
            "suspects": [vars(each) for each in suspects],
            "probability": group.probability if self.differ else None,
            "runs": [step.run_id for step in self.steps],
            "commits": [
                {
                    "commit": each.commit,
                    "subject": each.subject,
                    "probability": round(float(share), 6) if self.differ else None,
                    "skipped": self.skipped.get(at),
                }
                for at, (each, share) in enumerate(zip(self.line[1:], shares, strict=True), start=1)
            ],
        }


def _compared(results: ExperimentResults, a: PointSamples, b: PointSamples) -> ComparedMetric | None:
    """Compare the judged metric of two points of a run; None where there is no ratio to speak of."""
    try:
        row = compare_points(a, b, results.metrics[results.headline], same_run=True)
    except UsageError:
        return None
    finite = all(math.isfinite(each) and each > 0 for each in (row.ratio, *row.ci95))
    return row if finite else None


def _error(row: ComparedMetric) -> float:
    """Return the standard error of the logarithm of a ratio, from its interval."""
    low, high = row.ci95
    return (math.log(high) - math.log(low)) / (2 * _HALF)


Measure = Callable[[Sequence[Revision]], ExperimentResults]
"""Builds and measures commits with both ends; BuildError where one of the commits does not build."""


def search(bisection: Bisection, measure: Measure, notify: Callable[[str], None]) -> None:
    """Measure until the commit is found, or no measurement would help; `notify` hears a line on each step.

    Nothing is measured where the ends do not differ.
    """
    began, before = time.monotonic(), len(bisection.steps)
    while bisection.differ and (chosen := bisection.next()) is not None:
        revisions = [bisection.line[at] for at in chosen]
        done = len(bisection.steps)
        expected = bisection.expected_with(chosen)
        names = " and ".join(str(each) for each in revisions)
        left = ""
        if done > before:
            left_s = (expected - done) * (time.monotonic() - began) / (done - before)
            left = f", about {format_duration(max(round(left_s), 1))} left"
        notify(f"step {done + 1} of about {expected}{left}: {names}")
        try:
            results = measure(revisions)
        except BuildError as error:
            lost = next(each for each in revisions if each.commit == error.revision.commit)
            bisection.skip(lost, error.message)
            notify(f"skipped: {error.message}")
            for line in error.lines:
                notify(f"its build: {line}")
            continue
        step = bisection.learn(results)
        for at, verdict in zip(step.positions, step.verdicts, strict=True):
            notify(f"{bisection.line[at].short} is {verdict}")


def sentences(bisection: Bisection, metric: str) -> list[str]:
    """Say what was found: whether the ends differ, which commit is the likeliest, and how sure that is."""
    first, last = bisection.line[0], bisection.line[-1]
    if not bisection.differ:
        compared = f"{first.label} and {last.label} were compared in {metric}"
        ends = bisection.ends[0]
        if ends.different == "no":
            return [f"{compared}: they do not differ; nothing to bisect"]
        return [
            f"{compared}: cannot tell whether they differ ({_share(ends)}); nothing to bisect",
            *_how_to_tell(ends, metric),
        ]
    group = bisection.group
    suspects = bisection.line[group.before + 1 : group.after + 1]
    chance = _chance(group.probability)
    if len(suspects) == 1:
        lines = [f"{suspects[0].short} ({suspects[0].subject}) changed {metric}: {chance}"]
    else:
        inner = [bisection.line[at] for at in range(group.before + 1, group.after) if at in bisection.skipped]
        named = ", ".join(f"{each.short} ({each.subject})" for each in suspects[:MOST_SUSPECTS])
        more = f" and {len(suspects) - MOST_SUSPECTS} more" if len(suspects) > MOST_SUSPECTS else ""
        why = f"; {len(inner)} of them could not be measured" if inner else ""
        lines = [f"one of {len(suspects)} commits changed {metric}: {named}{more}: {chance}{why}"]
    jump, ends = bisection.jump, bisection.ends[-1]
    if jump is not None and bisection.jumped == (group.before, group.after):
        lines.append(
            f"there {metric} changes by {_share(jump)}; from {first.name} to {last.name} by {_share(ends)}"
        )
        if group.probability >= ENOUGH and any(row.ci95[0] <= 1 <= row.ci95[1] for row in (jump, ends)):
            lines.append(
                "the intervals are of the last step alone; "
                f"the probability rests on all {len(bisection.steps)}"
            )
        if jump.ci95[0] > ends.ci95[1] or jump.ci95[1] < ends.ci95[0]:
            lines.append("other commits of the range change it too: bisect on both sides of this one")
    if group.probability < ENOUGH:
        lines.append("this is less than 95 %: measure more with --reps, or a quieter machine")
    return lines


def _how_to_tell(ends: ComparedMetric, metric: str) -> list[str]:
    """Say how large a difference of the ends would have been found, and how a smaller one may be."""
    lines = []
    if math.isfinite(ends.detectable):
        lines.append(
            f"a difference of {format_share(ends.detectable)} would have been found (with 80 % power)"
        )
    remedy = (
        f"to find a smaller one, measure more with --reps N ({min(ends.n_a, ends.n_b)} runs of each here)"
    )
    if metric in WALL_TIMES:
        remedy += ", or judge CPU time with --metric cpu_ns, which scatters less where others use the CPUs"
    return [*lines, remedy]


def _chance(probability: float) -> str:
    """Write a probability; nothing is certain."""
    return f"probability {min(math.floor(1000 * probability) / 10, 99.9):.3g} %"


def _share(row: ComparedMetric) -> str:
    """Write a relative change with its interval, such as `+20 % [+19, +21]`."""
    value, low, high = (100 * (each - 1) for each in (row.ratio, *row.ci95))
    decimals = 0 if high - low >= 2 else 1 if high - low >= 0.2 else 2
    return f"{value:+.{decimals}f} % [{low:+.{decimals}f}, {high:+.{decimals}f}]"
