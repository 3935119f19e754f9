"""Trials of a slow tail of known size: whether it is found, and whether anything is found without one.

    python benchmarks/tail_trials.py measure STORE benchmarks/trials/tails.npz [--rounds 20] [--seconds 60]
    python benchmarks/tail_trials.py judge benchmarks/trials/tails.npz

A round interleaves three sides: two that are equal, and one in which 2 % of the repetitions are slowed down
in the measured region. The delay is what raises p99 of a pilot run by 10 %; by how much it raises that of the
equal sides, whose tail is seldom the pilot's, is computed from their samples. The first side against each of
the others is a trial. In a third one 2 % of the second side's stored samples are delayed by what raises its
own p99 by 10 %. The file has every sample with its block, so that others can judge anew; `measure` adds to
what is there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from oscope.model.samples import Column, ExperimentResults, Floats, PointSamples
from oscope.runner.execution import execute
from oscope.runner.injection.spec import Injection
from oscope.runner.interleaved import execute_interleaved
from oscope.statistics import compare_results
from oscope.statistics.quantiles import TailDifference
from oscope.statistics.rate import Rate
from oscope.storage.store import Store
from power_trials import SUBJECTS, planned

SUBJECT = "getppid"
QUANTILE = 0.99
SLOWER = 0.10
"""What p99 grows by."""
DELAYED = 0.02
"""Share of the repetitions that are delayed: twice those beyond p99, so that it lies within them."""
SIDES = 3
STEP = 1e-4
"""Of the logarithm of a sample over its run's median, as the file has it."""
HIGHEST = 32767
DRAWS = 50
"""Of the samples that are delayed, to know by how much p99 grows."""
NULL = Injection(steady=True)
"""No delay, by the code that delays."""


@dataclass(frozen=True)
class Side:
    """The samples of one side in order, each with its block."""

    trial: str
    """Sides of one trial were interleaved."""
    delay_ns: float
    median_ns: float
    values: npt.NDArray[np.int16]
    """Logarithms over the median, in `STEP`."""
    blocks: npt.NDArray[np.int32]

    @property
    def samples(self) -> Floats:
        """The samples in ns, to a step."""
        return np.asarray(self.median_ns * np.exp(self.values * STEP))


def measure(store: Store, rounds: int, seconds: float) -> Iterator[Side]:
    """Measure the rounds, each `seconds` long for each two sides; yield the sides of whole ones."""
    random = np.random.default_rng()
    for _ in range(rounds):
        seed = int(random.integers(1, 2**32))
        _, pilot = _samples(store, execute(planned(SUBJECT, seed, seconds / 6), store).run_id)
        delay_ns = delay_of(pilot, np.random.default_rng(seed))
        slow = Injection(delay_ns=delay_ns, seed=seed, on_reps=1.0, off_reps=1 / DELAYED - 1)
        plan = planned(SUBJECT, seed, seconds * SIDES / 2)
        sides = [replace(plan, injection=each.to_object()) for each in (NULL, NULL, slow)]
        outcomes = execute_interleaved(sides, store)
        if any(outcome.stopped for outcome in outcomes):
            return
        runs = [outcome.run_id for outcome in outcomes]
        for run_id, delay in zip(runs, (0.0, 0.0, delay_ns), strict=True):
            blocks, values = _samples(store, run_id)
            yield side_of(runs[0], delay, values, blocks.astype(np.int32))


def _samples(store: Store, run_id: str) -> tuple[npt.NDArray[np.int64], Floats]:
    (found,) = store.results(run_id, columns="metrics").experiments
    point = found.points[0]
    values = point.metrics[found.headline]
    kept = np.isfinite(values)
    return np.asarray(point.block)[kept], values[kept]


def delay_of(samples: Floats, random: np.random.Generator) -> float:
    """Return the delay of a share of `DELAYED` that raises p99 of the samples by `SLOWER`, in their unit."""
    delayed = random.random((DRAWS, len(samples))) < DELAYED
    low, high = 0.0, float(np.quantile(samples, QUANTILE)) * (1 + SLOWER)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if _growth(samples, delayed, middle) > SLOWER else (middle, high)
    return high


def growth_of(samples: Floats, delay: float, random: np.random.Generator) -> float:
    """Return by which share p99 of the samples grows if a share of `DELAYED` is delayed so."""
    return _growth(samples, random.random((DRAWS, len(samples))) < DELAYED, delay)


def _growth(samples: Floats, delayed: npt.NDArray[np.bool_], delay: float) -> float:
    """Return the median growth of p99 over the draws, each of which says which samples are delayed."""
    slow = np.quantile(samples + delayed * delay, QUANTILE, axis=1)
    return float(np.median(slow) / np.quantile(samples, QUANTILE)) - 1


def delayed_copy(side: Side, random: np.random.Generator) -> Side:
    """Return a side of which some stored samples are delayed, so that its p99 grows by `SLOWER`."""
    samples = side.samples
    delay = delay_of(samples, random)
    return side_of(side.trial, delay, samples + delay * (random.random(len(samples)) < DELAYED), side.blocks)


def side_of(trial: str, delay_ns: float, samples: Floats, blocks: npt.NDArray[np.int32]) -> Side:
    """Return a side of samples in ns, in order, each with its block."""
    median = float(np.median(samples))
    steps = np.clip(np.round(np.log(samples / median) / STEP), -HIGHEST, HIGHEST).astype(np.int16)
    return Side(trial, delay_ns, median, steps, blocks)


def write(place: Path, sides: Sequence[Side]) -> None:
    """Write all sides into one compressed file."""
    description = [
        {key: value for key, value in asdict(side).items() if key not in ("values", "blocks")}
        | {"samples": len(side.values)}
        for side in sides
    ]
    with place.open("wb") as file:
        np.savez_compressed(
            file,
            values=np.concatenate([side.values for side in sides]),
            # Blocks repeat; their steps compress to next to nothing.
            blocks=np.concatenate([np.diff(side.blocks, prepend=0).astype(np.int16) for side in sides]),
            sides=np.array(json.dumps(description)),
        )


def read(place: Path) -> list[Side]:
    """Return the sides of a file."""
    with np.load(place) as file:
        values, blocks, sides = file["values"], file["blocks"], json.loads(str(file["sides"]))
    found, begun = [], 0
    for side in sides:
        end = begun + side.pop("samples")
        own = np.cumsum(blocks[begun:end].astype(np.int32), dtype=np.int32)
        found.append(Side(values=values[begun:end], blocks=own, **side))
        begun = end
    return found


def results(side: Side, number: int) -> ExperimentResults:
    """Return a side as a stored run has it."""
    count = len(side.values)
    order = np.arange(count)
    point = PointSamples(
        factors={"subject": SUBJECT},
        block=side.blocks.astype(np.int64),
        process=side.blocks.astype(np.int64) + 1,
        boot=np.zeros(count, dtype=np.int64),
        rep=order,
        # Only the order counts.
        started_ns=number * 10**12 + order * 10**6,
        raw=np.zeros(count),
        iterations=np.ones(count, dtype=np.int64),
        correction=np.zeros(count),
        metrics={"time_ns": side.samples},
        covariates={},
    )
    return ExperimentResults(
        f"side{number}",
        SUBJECTS[SUBJECT][0],
        SUBJECTS[SUBJECT][0],
        1,
        "",
        0,
        (point,),
        {"time_ns": Column("time_ns", "ns", better="less")},
        {},
        {"clock": {"kind": "tsc", "hz": 1e9}, "machine": "0" * 16, "kernel": {"release": "0"}},
        settings={"interleaved": ["side0", "side1"]},
    )


def judged(a: Side, b: Side) -> dict[float, TailDifference]:
    """Return the verdict on each quantile of two sides of a trial."""
    comparison = compare_results(results(a, 0), results(b, 1))
    return {tail.quantile: tail for tail in comparison.tails}


def lines(sides: Sequence[Side]) -> Iterator[str]:
    """Yield how often p99 was found slower, how often anything was found of equal sides, and the sizes."""
    trials: dict[str, list[Side]] = {}
    for side in sides:
        trials.setdefault(side.trial, []).append(side)
    random = np.random.default_rng(1)
    found, growths, delayed, equal, tails = [], [], [], [], []
    for a, b, slow in trials.values():
        growths.append(growth_of(np.concatenate([a.samples, b.samples]), slow.delay_ns, random))
        found.append(_finds(a, slow))
        delayed.append(_finds(a, delayed_copy(b, random)))
        equal.append(judged(a, b))
        tails.append(float(np.quantile(a.samples, QUANTILE)) / a.median_ns)
    yield f"p99 raised by {SLOWER:.0%} of stored samples: found in {Rate(sum(delayed), len(delayed))}"
    yield f"p99 raised while measured by {_range(growths, '.1%')}: found in {Rate(sum(found), len(found))}"
    for quantile in sorted({quantile for each in equal for quantile in each}):
        false = [each[quantile].different for each in equal if quantile in each]
        yield f"equal sides, p{100 * quantile:.4g}: a difference in {Rate(sum(false), len(false))}"
    anything = [any(tail.different for tail in each.values()) for each in equal]
    yield f"equal sides, any quantile: a difference in {Rate(sum(anything), len(anything))}"
    yield f"p99 over the median {_range(tails, '.3f')}"
    yield f"samples a side {_range([len(side.values) for side in sides], ',.0f')}"


def _finds(a: Side, b: Side) -> bool:
    """Return whether p99 of B is found to be slower; of too few samples nothing is."""
    tail = judged(a, b).get(QUANTILE)
    return tail is not None and tail.different and tail.ratio > 1


def _range(values: Sequence[float], form: str) -> str:
    return f"{np.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main(words: Sequence[str] | None = None) -> int:
    """Measure or judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="measure trials, and add them to a file")
    measuring.add_argument("store", type=Path)
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--rounds", type=int, default=20)
    measuring.add_argument("--seconds", type=float, default=60.0, help="of the two sides of a trial")
    judging = commands.add_parser("judge", help="judge stored trials anew")
    judging.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args(words)
    if given.command == "measure":
        sides = read(given.file) if given.file.exists() else []
        with Store.open(given.store) as store:
            for side in measure(store, given.rounds, given.seconds):
                sides.append(side)
                if not len(sides) % SIDES:
                    write(given.file, sides)
    else:
        sides = [side for place in given.files for side in read(place)]
    for line in lines(sides):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
