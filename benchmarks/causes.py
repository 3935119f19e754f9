"""Eight causes injected into real runs, and which cause `oscope explain-variation` names first.

    python benchmarks/causes.py [--tries 20] [--seed 1] [--cause NAME]... [--store FILE]

A try is a run of an experiment on which the cause acts, and the attribution of its headline metric, as the
command prints it. The attribution does not see what was injected. Prints one row a cause.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bars import Bar, Bench, Effort, Figure, Part, share
from oscope import labs
from oscope.figures.analysed import Analysed
from oscope.model.factors import Level
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.probe import catalogue
from oscope.runner.execution import execute
from oscope.runner.injection import causes
from oscope.runner.injection.spec import Injection
from oscope.statistics.attribution import OWN, Attribution
from oscope.statistics.rate import Rate
from oscope.storage.store import Store

TRIES = 20
WANTED = 0.9
NOTHING = "nothing"
FILE_BYTES = 1 << 20
"""Of the file that is evicted: read again within a millisecond or two, so that many reads are measured."""

CALL: Mapping[str, Level] = {"call": "getppid", "style": "loop"}


@dataclass(frozen=True)
class Case:
    """A cause, the experiment on which it acts, and the names that stand for it in an attribution."""

    cause: str
    named: tuple[str, ...]
    """Any of them first is right."""
    experiment: str
    factors: Mapping[str, Level]
    reps: int
    amount: str = ""
    file: bool = False
    """The experiment reads a file of our own, which is the one that is evicted."""


CASES = (
    # A millisecond of calls on one CPU: what takes that CPU, or lengthens the calls, acts on it.
    Case("hog", ("run_delay_ns", "involuntary_switches"), "syscall.cost", CALL, 2500),
    # All CPUs read for some milliseconds: what takes the other CPU takes half of it, an SMT sibling or not.
    Case(
        "sibling",
        ("neighbour_ns", "runnable_others"),
        "memory.bandwidth",
        {"operation": "read", "threads": 0, "size": 256 << 20, "window": 0},
        200,
    ),
    # Loads that wait for the last cache, which a stream beside them takes, and the way to the memory with it.
    Case(
        "memory",
        ("memory_wait_ns",),
        "memory.latency",
        {"size": 8 << 20, "stride": 64, "pages": "huge", "order": "random"},
        1500,
    ),
    # The page cache is found as it is: neither warmed nor dropped before a reading.
    Case(
        "evict",
        ("block_inputs", "major_faults"),
        "disk.read",
        {"cache": "found", "engine": "read", "threads": 1, "block_size": 128 << 10},
        6000,
        file=True,
    ),
    Case("interrupts", ("timer_interrupts",), "syscall.cost", CALL, 2500),
    Case("migrate", ("migrations",), "syscall.cost", CALL, 2500),
    # A delay that no covariate shows, shorter than the call itself.
    Case("delay", (OWN,), "syscall.cost", CALL, 2500, amount="100ns"),
    Case("drift", ("drift",), "syscall.cost", CALL, 2500, amount="50ns"),
)


def first(found: Attribution) -> tuple[str, ...]:
    """Return the names of the first cause; `NOTHING` where none is named."""
    causes = found.ranked()
    return causes[0][0] if causes else (NOTHING,)


def planned(case: Case, seed: int, file: Path) -> Plan:
    """Plan a try that injects its cause alone."""
    factors = dict(case.factors) | ({"file": str(file)} if case.file else {})
    plan = make_plan(
        (labs.experiment(case.experiment),),
        catalogue.load(),
        profile="quick",
        settings={name: [level] for name, level in factors.items()},
        amount=Amount(reps=case.reps),
        seed=seed,
    )
    text = f"{case.cause}={case.amount}" if case.amount else case.cause
    injection = Injection.parse([text], causes.load(), seed)
    return replace(plan, injection=replace(injection, paths=(str(file),) if case.file else ()).to_object())


def tried(case: Case, seed: int, store: Store, file: Path) -> Attribution:
    """Measure a try; return the covariates associated with its variance."""
    outcome = execute(planned(case, seed, file), store)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if outcome.failures:
        raise RuntimeError("; ".join(outcome.failures))
    results = Analysed.of(store.results(outcome.run_id))
    (experiment,) = results.experiments
    (point,) = experiment.points
    return results.attribution(experiment, point, experiment.headline)


@dataclass(frozen=True)
class Score:
    """How often a cause was named first, and what was named instead."""

    cause: str
    tries: int
    right: int
    instead: Counter[str]

    @property
    def others(self) -> str:
        """What was named instead, and how often."""
        others = ", ".join(f"{name} {count}" for name, count in self.instead.most_common())
        return f"instead: {others}" if others else ""

    @property
    def text(self) -> str:
        """The share with its 95 % interval (Wilson 1927), and what was named instead."""
        low, high = Rate(self.right, self.tries).interval
        share = f"{self.right} of {self.tries} ({low:.0%} to {high:.0%})"
        return f"{share}; {self.others}" if self.others else share


def scored(tries: int, seed: int, chosen: Iterable[Case], place: Path, *, verbose: bool) -> Iterator[Score]:
    """Try each cause; the seeds of no two tries are alike."""
    with (
        Store.open(place) as store,
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="oscope-causes-") as name,
    ):
        file = Path(name) / "evicted"
        file.write_bytes(os.urandom(FILE_BYTES))
        # Only clean pages can be evicted.
        with file.open("rb") as written:
            os.fsync(written.fileno())
        for number, case in enumerate(chosen):
            right, instead = 0, Counter[str]()
            for turn in range(tries):
                found = tried(case, seed * 1_000_000 + number * 1000 + turn, store, file)
                names = first(found)
                hit = any(one in case.named for one in names[:1])
                right += hit
                if not hit:
                    instead[names[0]] += 1
                if verbose:
                    ranking = "; ".join(f"{' '.join(names)} {share:.0%}" for names, share in found.ranked())
                    print(f"  {case.cause} {turn + 1}: {'right' if hit else 'WRONG'}: {ranking}", flush=True)
            yield Score(case.cause, tries, right, instead)


def injected(bench: Bench) -> Iterator[Figure]:
    """Give each cause's score, and that of all together."""
    tries = bench.pick(1, 2, TRIES)
    chosen: tuple[Case, ...] = CASES
    if bench.effort is Effort.SMOKE:
        # Runs of a size at which nothing can be found out: that they work is all that is wanted.
        chosen = tuple(replace(case, reps=5) for case in CASES)
    scores = []
    for score in scored(tries, 1, chosen, bench.folder / "causes.db", verbose=True):
        scores.append(score)
        yield share(EACH[score.cause], score.right, score.tries, score.others)
    every = total(scores)
    yield share(ALL, every.right, every.tries)


def total(scores: Iterable[Score]) -> Score:
    """Add scores up."""
    every = list(scores)
    return Score("all", sum(one.tries for one in every), sum(one.right for one in every), Counter())


EACH = {case.cause: Bar(f"cause named first: {case.cause}", "%") for case in CASES}
ALL = Bar("cause named first: all", "%", least=100 * WANTED, by_interval=True)
PARTS = (
    Part(
        "Runs in which a cause is injected, and whether `oscope explain-variation` names it first.",
        (*EACH.values(), ALL),
        injected,
        short_s=140,
        full_s=1600,
    ),
)


def main() -> int:
    """Print the table; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tries", type=int, default=TRIES, metavar="N", help="of each cause (default 20)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cause", action="append", choices=[case.cause for case in CASES])
    parser.add_argument("--store", type=Path, help="keep the runs in this file")
    options = parser.parse_args()
    chosen = [case for case in CASES if options.cause is None or case.cause in options.cause]
    with tempfile.TemporaryDirectory(prefix="oscope-causes-") as name:
        place = options.store or Path(name) / "causes.db"
        scores = []
        for score in scored(options.tries, options.seed, chosen, place, verbose=True):
            scores.append(score)
            print(f"{score.cause:<12} {score.text}", flush=True)
    every = total(scores)
    print(f"{ALL.name}: {every.text} (wanted: {ALL.bound})")
    return 0 if every.right >= WANTED * every.tries else 1


if __name__ == "__main__":
    sys.exit(main())
