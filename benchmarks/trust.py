"""How often verdicts are wrong on this machine, idle and beside a neighbour, and how small a change is found.

    python benchmarks/trust.py          # `make calibrate`: all pairs that the bars ask for, some four hours

`make bench` takes a fifth of the pairs, and leaves out the trials of two minutes a side.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from bars import Bar
from oscope import terminal
from oscope.calibration import trials
from oscope.calibration.methods import METHODS, OSCOPE
from oscope.calibration.running import measure
from oscope.calibration.trials import Trial
from oscope.calibration.wanted import SUBJECTS, WAYS, Wanted
from oscope.cli.calibrate_shown import watching
from oscope.labs.trust.answers import by_method, by_subject

PAIRS = 30
"""Of each subject and way: 300 pairs of equal sides under each load, and as many that differ."""
EFFECT = 0.02
POWER_TRIALS = 20
POWER = ((0.02, 30.0, 500), (0.01, 120.0, 1200))
"""A slow-down, the most seconds that a side may take to find it, and the blocks that it takes."""
SYSTEM_CALL = SUBJECTS[0]
WANTED_POWER = 0.9


def bars(share: float = 0.2) -> Iterator[Bar]:
    """Measure the pairs, or a `share` of them, print what was found, and yield it against the bars."""
    for load in ("none", "sibling"):
        yield from _errors(load, max(1, round(PAIRS * share)))
    for effect, limit_s, blocks in POWER if share >= 1 else POWER[:1]:
        yield _power(effect, limit_s, blocks, max(1, round(POWER_TRIALS * share)))


def _measure(wanted: Wanted) -> list[Trial]:
    with watching() as listener:
        return list(measure(wanted, listener))


def _errors(load: str, pairs: int) -> Iterator[Bar]:
    """Yield false alarms and coverage under a load, over all subjects and ways."""
    found = _measure(Wanted(pairs=pairs, effects=(EFFECT,), load=load, seed=1))
    out = terminal.console()
    terminal.print_table(by_subject(found), out)
    terminal.print_table(by_method(found), out)
    where = "idle" if load == "none" else "beside a neighbour"
    alarms, held = trials.false_alarms(found), trials.coverage(found)
    apart = "; ".join(f"{way} {trials.coverage(t for t in found if t.way == way)}" for way in WAYS)
    yield Bar(f"trust: false alarms, {where}", str(alarms), "<= 5 %", met=alarms.share <= 0.05)
    yield Bar(f"trust: coverage, {where}", f"{held}: {apart}", "93 to 97 %", met=0.93 <= held.share <= 0.97)
    yield _beside_others(found, where)


def _beside_others(found: Sequence[Trial], where: str) -> Bar:
    """Return the errors of both kinds of all methods, which no other one shall have fewer of both of."""
    told = {
        method: (trials.false_alarms(found, method).share, 1 - trials.found(found, EFFECT, method).share)
        for method in METHODS
    }
    own = told[OSCOPE]
    beaten = [method for method, (alarms, missed) in told.items() if alarms < own[0] and missed < own[1]]
    text = "; ".join(f"{name} {100 * one:.1f} / {100 * other:.1f}" for name, (one, other) in told.items())
    return Bar(
        f"trust: false alarms / misses of 2 % [%], {where}", text, "none has fewer of both", met=not beaten
    )


def _power(effect: float, limit_s: float, blocks: int, count: int) -> Bar:
    """Return in how many trials a slow-down of a system call was found, and how long a side took."""
    found = _measure(
        Wanted(
            (SYSTEM_CALL,),
            WAYS[:1],
            pairs=count,
            equal=False,
            effects=(effect,),
            blocks=blocks,
            reps=10,
            seed=2,
        )
    )
    rate, longest = trials.found(found, effect), max(trial.seconds for trial in found)
    text = f"{rate}, {longest:.0f} s a side at most; intervals that hold it {trials.coverage(found)}"
    met = rate.share >= WANTED_POWER and longest <= limit_s
    return Bar(
        f"trust: {effect:.0%} of a system call found", text, f">= 90 % within {limit_s:g} s a side", met=met
    )


def main() -> int:
    """Measure all pairs; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--share", type=float, default=1.0, metavar="S", help="of the pairs (default: 1)")
    missed = 0
    for bar in bars(parser.parse_args().share):
        missed += not bar.met
        print(f"{bar.name}: {bar.measured} (wanted {bar.wanted}) {'yes' if bar.met else 'NO'}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
