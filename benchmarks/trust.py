"""How often verdicts are wrong on this machine, idle and beside a neighbour, and how small a change is found.

    python benchmarks/trust.py          # `make calibrate`: all pairs that the bars ask for, some four hours

`make bench` takes one pair of each subject and way on the machine as it is; `make bench-full` takes all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from bars import Bar, Bench, Effort, Figure, Part, share
from oscope import labs
from oscope.analysis.calibration import trials
from oscope.analysis.calibration.methods import METHODS, OSCOPE
from oscope.analysis.calibration.pair_measurement import measure
from oscope.analysis.calibration.spec import SUBJECTS, WAYS, CalibrationSpec
from oscope.analysis.calibration.trials import Trial
from oscope.cli.views.calibrate import watching
from oscope.figures.error_rates import by_method_and_way, by_subject
from oscope.report import terminal
from oscope.statistics.rate import Rate

PAIRS = 30
"""Of each subject and way: 300 pairs of equal sides under each load, and as many that differ."""
EFFECT = 0.02
POWER_TRIALS = 20
POWER = ((0.02, 30.0, 500), (0.01, 120.0, 1200))
"""A slow-down, the most seconds that a side may take to find it, and the blocks that it takes."""
SYSTEM_CALL = SUBJECTS[0]
LOADS = {"none": "idle", "sibling": "beside a neighbour"}
ALARMS = {
    load: Bar(f"trust: false positives, {where}", "%", most=5, by_interval=True)
    for load, where in LOADS.items()
}
COVERAGE = {
    load: Bar(f"trust: coverage, {where}", "%", 93, 97, by_interval=True) for load, where in LOADS.items()
}
OTHERS = {
    load: Bar(f"trust: methods with fewer false positives and misses, {where}", least=0, most=0)
    for load, where in LOADS.items()
}
FOUND = {
    effect: (
        Bar(f"trust: {effect:.0%} of a system call found", "%", least=90, by_interval=True),
        Bar(f"trust: {effect:.0%} of a system call, longest side", "s", most=limit_s),
    )
    for effect, limit_s, _ in POWER
}


def _measure(spec: CalibrationSpec) -> list[Trial]:
    with watching() as listener:
        return list(measure(spec, listener, find=labs.experiment))


def errors(load: str, bench: Bench) -> Iterator[Figure]:
    """Give false positives and coverage under a load, over all subjects and ways."""
    spec = CalibrationSpec(pairs=bench.pick(1, 1, PAIRS), effects=(EFFECT,), load=load, seed=1)
    if bench.effort is Effort.SMOKE:
        spec = CalibrationSpec(
            (SYSTEM_CALL,), WAYS, pairs=1, effects=(EFFECT,), blocks=3, reps=2, load=load, seed=1
        )
    found = _measure(spec)
    out = terminal.console()
    for table in (by_subject(found), *by_method_and_way(found)):
        terminal.print_table(table, out)
    yield _share(ALARMS[load], trials.false_alarms(found))
    apart = "; ".join(f"{way} {trials.coverage(t for t in found if t.way == way)}" for way in WAYS)
    yield _share(COVERAGE[load], trials.coverage(found), apart)
    yield _beside_others(found, OTHERS[load])


def _share(bar: Bar, rate: Rate, detail: str = "") -> Figure:
    return share(bar, rate.count, rate.of, detail)


def _beside_others(found: Sequence[Trial], bar: Bar) -> Figure:
    """Return how many methods have fewer errors of both kinds."""
    rates = {
        method: (trials.false_alarms(found, method).share, 1 - trials.found(found, EFFECT, method).share)
        for method in METHODS
    }
    own = rates[OSCOPE]
    beaten = [method for method, (alarms, missed) in rates.items() if alarms < own[0] and missed < own[1]]
    text = "; ".join(f"{name} {100 * one:.1f} / {100 * other:.1f}" for name, (one, other) in rates.items())
    return Figure(bar, len(beaten), detail=f"false positives / misses of {EFFECT:.0%} [%]: {text}")


def power(effect: float, blocks: int, bench: Bench) -> Iterator[Figure]:
    """Give in how many trials a slow-down of a system call was found, and how long a side took."""
    found = _measure(
        CalibrationSpec(
            (SYSTEM_CALL,),
            WAYS[:1],
            pairs=bench.pick(1, 4, POWER_TRIALS),
            equal=False,
            effects=(effect,),
            blocks=bench.pick(3, blocks, blocks),
            reps=10,
            seed=2,
        )
    )
    rate_bar, longest_bar = FOUND[effect]
    yield _share(rate_bar, trials.found(found, effect), f"intervals that hold it {trials.coverage(found)}")
    yield Figure(longest_bar, max(trial.seconds for trial in found))


PARTS = (
    *(
        Part(
            f"Pairs of runs of five subjects, interleaved and in sequence, {where}. Sides are equal, or "
            f"one is slowed down by {EFFECT:.0%}.",
            (ALARMS[load], COVERAGE[load], OTHERS[load]),
            partial(errors, load),
            short_s=80 if load == "none" else None,
            full_s=4200,
        )
        for load, where in LOADS.items()
    ),
    *(
        Part(
            f"Pairs of runs of a system call, one side slowed down by {effect:.0%}, {blocks} interleaved "
            "blocks.",
            FOUND[effect],
            partial(power, effect, blocks),
            short_s=None,
            full_s=2 * POWER_TRIALS * limit_s,
            smoke=effect == EFFECT,
        )
        for effect, limit_s, blocks in POWER
    ),
)


def main() -> int:
    """Measure all pairs; 1 if a bar is missed."""
    argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0]).parse_args()
    missed = 0
    with ExitStack() as stack:
        for part in PARTS:
            for figure in part.figures(Bench(Effort.FULL, stack)):
                verdict = figure.bar.judge(figure)
                missed += verdict == "missed"
                print(f"{figure.bar.name}: {figure.text} (wanted: {figure.bar.bound}) {verdict}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
