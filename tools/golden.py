"""Writes tests/golden/EXPERIMENT.json: a few real samples of each experiment, and their statistics.

    python tools/golden.py [EXPERIMENT]...

To be run by hand when the format or the statistics change on purpose; the difference is then read in the
commit. What names a machine is left out, and the seed is fixed. The kernel lab's need its kernel, built by
`oscope kernel build --patch my_precious --patch reclaim-policy`, and a boot for each repetition.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import oscope
from oscope import labs
from oscope.api import Run
from oscope.model.experiment import Experiment
from oscope.model.factors import Level
from oscope.model.samples import Results
from oscope.storage import record

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"
KEPT = ("clock", "self_check", "guest")
NARROW: Mapping[str, tuple[Level, ...]] = {
    "call": ("my_precious", "my_precious_logged"),
    "policy": ("own", "reclaim-active"),
    "mapping": ("anonymous",),
    "pattern": ("random",),
    "files": (1,),
    "sizes": ("equal",),
    "size": (8 << 20,),
    "content": ("random",),
    "system": ("oscope", "nfs"),
    "operation": ("read-again",),
    "delay": (0.01,),
}
"""Levels measured in a guest, which is slow: those of the two points that are kept."""


def measure(experiment: Experiment, store: str, on: str | None = None) -> Run:
    """Measure `experiment` where it wants to be, or in the guest `on`, with few repetitions."""
    if experiment.guest is None:
        return oscope.run(experiment.name, profile="quick", reps=12, seed=1, store=store)
    levels: dict[str, Any] = {n: list(NARROW[n]) for n in NARROW if n in experiment.full.factors}
    return oscope.run(
        experiment.name,
        profile="full",
        reps=5,
        seed=1,
        store=store,
        on=on,
        **levels,
    )


def main() -> None:
    """Measure and write the records."""
    known = dict.fromkeys(experiment.name for lab in labs.LABS for experiment in lab.experiments)
    for name in sys.argv[1:] or known:
        with tempfile.TemporaryDirectory() as folder:
            run = measure(labs.experiment(name), str(Path(folder) / "golden.db"))
        (results,) = run.results.experiments
        results = dataclasses.replace(
            results,
            run_id="golden",
            started="2026-01-01T00:00:00+00:00",
            points=results.points[:2],
            environment={key: results.environment[key] for key in KEPT if key in results.environment},
        )
        (FOLDER / f"{name}.json").write_bytes(record.to_json(Results((results,))))


if __name__ == "__main__":
    main()
