"""Measures trials whose answer is known, keeps them in a small file, and judges them: the power of verdicts.

    python benchmarks/power_trials.py measure STORE [--rounds 100] [--seconds 20] [--load sibling]
    python benchmarks/power_trials.py pack STORE -o benchmarks/trials/idle.npz
    python benchmarks/power_trials.py judge benchmarks/trials/idle.npz

In a round each subject is measured in four interleaved sides: two that are equal, one that is slowed down by
1 %, one by 0.3 %. The first against each other one is a trial, and takes half of the time. Every fourth round
has a separate run of each class of work as well. A packed file has the median of every block, in order, which
is what comparisons are made of; the verdicts of other tools' rules on it take a block, a process of its own,
for a sample.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from oscope import labs
from oscope.analysis.calibration.methods import METHODS, OSCOPE, judge
from oscope.model.factors import Level
from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples
from oscope.planning.plan import Amount, Plan, make_plan
from oscope.probe import catalogue
from oscope.runner.execution import execute
from oscope.runner.injection.run_injection import RunInjection
from oscope.runner.injection.spec import Injection
from oscope.runner.interleaved import execute_interleaved
from oscope.statistics import compare_results, effect
from oscope.statistics.core_clock import CORE_LOADS, core_loads
from oscope.statistics.rate import Rate
from oscope.statistics.sides import measure as measure_sides
from oscope.storage.store import Store
from oscope.targets.affinity import Affinity

SUBJECTS: dict[str, tuple[str, dict[str, Level]]] = {
    "getppid": ("syscall.cost", {"call": "getppid", "style": "loop"}),
    "read 4K": (
        "disk.read",
        {"block_size": "4K", "cache": "warm", "engine": "read", "threads": 1, "size": "1M"},
    ),
    "latency": ("memory.latency", {"size": "64K", "stride": 64, "pages": "4K", "order": "random"}),
    "fault": ("memory.fault", {"kind": "zero-page", "threads": 1, "size": "4M"}),
    "pipe": ("ipc.latency", {"channel": "pipe", "mode": "2thread", "size": 1, "placement": "free"}),
}
INTERLEAVED = ("getppid", "read 4K")
EFFECTS = (0.0, 0.0, 0.01, 0.003)
REPS = 5
SEPARATE_EVERY = 4
SEPARATE_S = 10.0
PILOT_S = 5.0
MOST_BLOCKS = 4000
LAGS = (1, 2, 3)
"""A separate run is compared with the first, second and third run after it."""
KNOWN = (0, 3, 5)
"""Verdicts are also judged with only so many runs known, those just before the two, as in a young store."""
WITH_STATES = "pipe"
"""Unchanged runs of these differ by where their two sides run: no young store can show by how much."""
STEP = 1e-5
"""Of the logarithm of a block's median, as a packed file has it."""
SHIFTS = np.arange(2.0, 12.01, 0.1)
"""Effects between separate runs that are tried, in deviations between runs."""
POWER = 0.9
TOGETHER = (2, 6)
"""So many trials are taken for a longer one, such as 20 s or a minute."""


@dataclass(frozen=True)
class Measured:
    """A run of one side, as a packed file has it."""

    subject: str
    group: str
    """Sides of one group were interleaved; a separate run has none."""
    effect: float
    """By which share its iterations were to be slowed down."""
    slower: float
    """By which share of the group's first side they were: that side may be faster than the pilot run was."""
    better: str
    median: float
    blocks: int
    core_loads_ns: float | None = None
    """Median time of the loads that tell the core's speed; files from before they were taken have none."""


def planned(subject: str, seed: int, seconds: float) -> Plan:
    """Return the plan of one point, whose blocks end with the time."""
    name, settings = SUBJECTS[subject]
    plan = make_plan(
        [labs.experiment(name)],
        catalogue.load(),
        profile="quick",
        settings={factor: [level] for factor, level in settings.items()},
        amount=Amount(reps=REPS * MOST_BLOCKS),
        seed=seed,
    )
    (experiment,) = plan.experiments
    experiment = replace(experiment, points=experiment.points[:1], blocks=MOST_BLOCKS)
    return replace(plan, experiments=(experiment,), again=True, budget_s=seconds)


def measure(place: Path, rounds: int, seconds: float, load: str, separate: bool) -> None:
    """Measure the rounds into a store; which runs belong together is written beside it, line by line."""
    random = np.random.default_rng()
    with ExitStack() as stack:
        if load != "none":
            cause = Injection(causes=(load,), seed=int(random.integers(2**32)))
            stack.enter_context(RunInjection(cause.to_object(), Affinity()))
        store = stack.enter_context(Store.open(place))
        log = stack.enter_context(_log_of(place).open("a"))
        pilots = {name: _iteration_ns(store, name) for name in INTERLEAVED}
        for number in range(rounds):
            for name in INTERLEAVED:
                plan = planned(name, int(random.integers(1, 2**32)), seconds)
                sides = [
                    replace(
                        plan,
                        injection=Injection(
                            delay_ns=size * pilots[name], seed=plan.seed, steady=True
                        ).to_object(),
                    )
                    for size in EFFECTS
                ]
                outcomes = execute_interleaved(sides, store)
                if any(outcome.stopped for outcome in outcomes):
                    return
                _note(log.write, "paired", name, [outcome.run_id for outcome in outcomes])
            for name in SUBJECTS if separate and number % SEPARATE_EVERY == 0 else ():
                plan = planned(name, int(random.integers(1, 2**32)), SEPARATE_S)
                _note(log.write, "separate", name, [execute(plan, store).run_id])
            log.flush()


def _log_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.jsonl")


def _note(write: Callable[[str], object], kind: str, name: str, runs: Sequence[str]) -> None:
    write(json.dumps({"t": time.time(), "kind": kind, "name": name, "ids": runs}) + "\n")


def _iteration_ns(store: Store, subject: str) -> float:
    """Return the time of one iteration of a subject, by a run of some seconds."""
    (found,) = store.results(
        execute(planned(subject, 1, PILOT_S), store).run_id, columns="metrics"
    ).experiments
    return found.iteration_ns(found.points[0])


def pack(place: Path, target: Path) -> None:
    """Write the median of every block of every run into a file of some megabytes at most."""
    runs: list[Measured] = []
    values: list[np.ndarray[tuple[int], np.dtype[np.int16]]] = []
    with Store.read(place) as store:
        for line in _log_of(place).read_text().splitlines():
            entry = json.loads(line)
            group = entry["ids"][0] if entry["kind"] == "paired" else ""
            first_ns = 1.0
            for run_id, size in zip(entry["ids"], EFFECTS, strict=False):
                (found,) = store.results(run_id, columns="metrics").experiments
                if run_id == entry["ids"][0]:
                    first_ns = found.iteration_ns(found.points[0])
                delay_ns = float((found.settings.get("injection") or {}).get("delay_ns", 0.0))
                column = found.metrics[found.headline]
                medians = block_values(found.points[0], column)
                whole = float(np.nanmedian(medians))
                values.append(
                    np.clip(np.round(np.log(medians / whole) / STEP), -32767, 32767).astype(np.int16)
                )
                name = entry["name"].replace("read4k", "read 4K")
                runs.append(
                    Measured(
                        name,
                        group,
                        size,
                        delay_ns / first_ns,
                        str(column.better),
                        whole,
                        len(medians),
                        loads if np.isfinite(loads := core_loads(found.points[0])) else None,
                    )
                )
    with target.open("wb") as file:
        np.savez_compressed(
            file, values=np.concatenate(values), runs=np.array(json.dumps([asdict(run) for run in runs]))
        )


def block_values(point: PointSamples, column: Column) -> Floats:
    """Return what a comparison makes of each block: the median that so many samples are expected to have."""
    sides = measure_sides(point, point, column)
    if sides is None or not sides[2]:
        raise ValueError(f"{column.name} has no values above 0")
    own = sides[0]
    return np.exp(own.value[np.argsort(own.unit)])


def unpack(place: Path) -> list[tuple[Measured, ExperimentResults]]:
    """Read a packed file: each run with results of one value a block."""
    with np.load(place) as file:
        values, runs = file["values"].astype(float) * STEP, json.loads(str(file["runs"]))
    found, begun = [], 0
    members: dict[str, list[str]] = defaultdict(list)
    for number, each in enumerate(runs):
        members[each["group"]].append(f"run{number}")
    for number, each in enumerate(runs):
        run = Measured(**each)
        median = run.median * np.exp(values[begun : begun + run.blocks])
        begun += run.blocks
        partners = members[run.group] if run.group else None
        found.append((run, _results(f"run{number}", number, run, median, partners)))
    return found


def _results(
    run_id: str, number: int, run: Measured, medians: Floats, partners: list[str] | None
) -> ExperimentResults:
    count = len(medians)
    block = np.arange(count)
    point = PointSamples(
        factors={"subject": run.subject},
        block=block,
        process=block + 1,
        boot=np.zeros(count, dtype=np.int64),
        rep=np.zeros(count, dtype=np.int64),
        # Only the order counts.
        started_ns=number * 10**12 + block * 10**7,
        raw=np.zeros(count),
        iterations=np.ones(count, dtype=np.int64),
        correction=np.zeros(count),
        metrics={"value": medians},
        covariates={} if run.core_loads_ns is None else {CORE_LOADS: np.full(count, run.core_loads_ns)},
    )
    return ExperimentResults(
        run_id,
        run.subject,
        run.subject,
        1,
        "",
        0,
        (point,),
        {"value": Column("value", "ns", better=run.better)},
        {},
        {"clock": {"kind": "tsc", "hz": 1e9}, "machine": "0" * 16, "kernel": {"release": "0"}},
        settings={"interleaved": partners},
    )


@dataclass
class Tally:
    """Counts of the verdicts on trials of one kind."""

    found: int = 0
    holds: int = 0
    contradictions: int = 0
    of: int = 0


def judge_interleaved(runs: Sequence[tuple[Measured, ExperimentResults]]) -> Iterator[str]:
    """Yield a line for each subject and effect: how often each method found it, and how often it is held."""
    groups: dict[str, list[tuple[Measured, ExperimentResults]]] = defaultdict(list)
    for run, results in runs:
        if run.group:
            groups[run.group].append((run, results))
    tallies: dict[tuple[str, float, str], Tally] = defaultdict(Tally)
    for sides in groups.values():
        first, a = sides[0]
        for run, b in sides[1:]:
            truth = 1 + run.slower if run.better == "less" else 1 / (1 + run.slower)
            verdicts, _ = judge(a, b)
            for method in METHODS:
                tally, verdict = tallies[run.subject, run.effect, method], verdicts[method]
                tally.of += 1
                tally.holds += verdict.holds(truth)
                tally.found += verdict.different if not run.effect else verdict.finds(truth)
                backwards = (verdict.ratio - 1) * (run.median - first.median) < 0
                tally.contradictions += verdict.different and backwards
    for (subject, size, method), tally in tallies.items():
        what = f"slowed by {size:.1%}" if size else "equal sides"
        line = f"{subject}, {what}, {method}: found in {Rate(tally.found, tally.of)}"
        if method == OSCOPE:
            line += (
                f"; interval holds the truth in {Rate(tally.holds, tally.of)}; "
                f"against the medians {tally.contradictions}"
            )
        yield line


def judge_together(runs: Sequence[tuple[Measured, ExperimentResults]]) -> Iterator[str]:
    """Yield a line for each subject, effect and number of trials that are taken for one longer trial."""
    sides: dict[str, list[tuple[Measured, Floats]]] = defaultdict(list)
    for run, results in runs:
        if run.group:
            sides[run.group].append((run, np.log(results.points[0].metrics["value"])))
    pairs: dict[tuple[str, float], list[Floats]] = defaultdict(list)
    for (first, a), *others in sides.values():
        for run, b in others:
            count = min(len(a), len(b))
            slower = (b[:count] - a[:count]) * (1 if run.better == "less" else -1)
            pairs[first.subject, run.effect].append(slower)
    for (subject, size), own in pairs.items():
        for number in TOGETHER:
            found = [
                effect.paired(np.concatenate(own[i : i + number]))
                for i in range(0, len(own) - number + 1, number)
            ]
            right = sum(each.p < effect.LEVEL and (not size or each.effect > 0) for each in found)
            if found:
                yield f"{subject}, {size:.1%}, {number} trials taken as one: found in {right} of {len(found)}"


def judge_separate(runs: Sequence[tuple[Measured, ExperimentResults]]) -> Iterator[str]:
    """Yield a line for each class of work: the errors between separate runs, and the effect found in 90 %."""
    classes: dict[str, list[ExperimentResults]] = defaultdict(list)
    for run, results in runs:
        if not run.group:
            classes[run.subject].append(results)
    total = Tally()
    for subject, own in classes.items():
        if len(own) < 2:
            continue
        medians = np.log([np.median(each.points[0].metrics["value"]) for each in own])
        deviation = float(medians.std(ddof=1))
        pairs = [(own[i], own[i + lag]) for lag in LAGS for i in range(len(own) - lag)]
        tally, needed = Tally(), []
        for a, b in pairs:
            earlier = [each for each in own if each not in (a, b)]
            (row,) = compare_results(a, b, earlier=earlier).rows
            tally.of += 1
            tally.found += row.different == "yes"
            tally.holds += row.ci95[0] <= 1 <= row.ci95[1]
            tally.contradictions += (
                row.different == "yes" and (row.ratio - 1) * (row.median_b - row.median_a) < 0
            )
            needed.append(_least_found(a, b, earlier, deviation))
        reach = float(np.quantile(needed, POWER))
        yield (
            f"{subject}: {len(own)} runs, s {deviation:.2%}; false positives {Rate(tally.found, tally.of)}; "
            f"interval holds in {Rate(tally.holds, tally.of)}; "
            f"{POWER:.0%} find {reach * deviation:.2%} = {reach:.1f} s"
        )
        for name in ("found", "holds", "contradictions", "of"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
    if total.of:
        yield (
            f"all: false positives {Rate(total.found, total.of)}; interval holds in "
            f"{Rate(total.holds, total.of)}; against the medians {total.contradictions}"
        )


def judge_few_known(runs: Sequence[tuple[Measured, ExperimentResults]]) -> Iterator[str]:
    """Yield a line for each number of runs that the store has before the two: how often they differ."""
    classes: dict[str, list[ExperimentResults]] = defaultdict(list)
    for run, results in runs:
        if not run.group and not run.subject.startswith(WITH_STATES):
            classes[run.subject].append(results)
    for known in KNOWN:
        found = [
            row.different == "yes"
            for own in classes.values()
            for lag in LAGS
            for i in range(known, len(own) - lag)
            for row in compare_results(own[i], own[i + lag], earlier=own[i - known : i]).rows
        ]
        if found:
            yield f"{known} earlier runs known: false positives {Rate(sum(found), len(found))}"


def _least_found(
    a: ExperimentResults, b: ExperimentResults, earlier: Sequence[ExperimentResults], deviation: float
) -> float:
    """Return the smallest effect, in deviations between runs, from which on B is found to be larger."""
    low, high = 0, len(SHIFTS)
    # What is found of an effect is found of a larger one.
    while low < high:
        middle = (low + high) // 2
        (row,) = compare_results(a, _shifted(b, SHIFTS[middle] * deviation), earlier=earlier).rows
        if row.different == "yes" and row.ratio > 1:
            high = middle
        else:
            low = middle + 1
    return float(SHIFTS[low]) if low < len(SHIFTS) else float("inf")


def _shifted(results: ExperimentResults, by: float) -> ExperimentResults:
    point = results.points[0]
    values = point.metrics["value"] * np.exp(by)
    return replace(results, points=(replace(point, metrics={"value": values}),))


def main(words: Sequence[str] | None = None) -> int:
    """Measure, pack or judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="measure trials into a store")
    measuring.add_argument("store", type=Path)
    measuring.add_argument("--rounds", type=int, default=100)
    measuring.add_argument("--seconds", type=float, default=20.0, help="of four interleaved sides")
    measuring.add_argument("--load", default="none", help="what disturbs the machine, such as sibling")
    measuring.add_argument("--no-separate", action="store_true", help="leave out the separate runs")
    packing = commands.add_parser("pack", help="keep the medians of the blocks in a small file")
    packing.add_argument("store", type=Path)
    packing.add_argument("-o", dest="target", type=Path, required=True)
    judging = commands.add_parser("judge", help="judge packed trials anew")
    judging.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args(words)
    if given.command == "measure":
        measure(given.store, given.rounds, given.seconds, given.load, not given.no_separate)
    elif given.command == "pack":
        pack(given.store, given.target)
    else:
        packed = {place: unpack(place) for place in given.files}
        interleaved = [run for runs in packed.values() for run in runs]
        print("interleaved, all files together")
        for line in (*judge_interleaved(interleaved), *judge_together(interleaved)):
            print(f"  {line}")
        for place, runs in packed.items():
            print(f"separate runs of {place}")
            for line in (*judge_separate(runs), *judge_few_known(runs)):
                print(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
