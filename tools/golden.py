"""Writes tests/golden/EXPERIMENT.json: a few real samples of each experiment, and their statistics.

    python tools/golden.py [EXPERIMENT]...

To be run by hand when the format or the statistics change on purpose; the difference is then read in the
commit. What names a machine is left out, and the seed is fixed.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path

import oscope
from oscope import labs, record
from oscope.samples import Results

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"
KEPT = ("clock", "self_check")


def main() -> None:
    """Measure and write the records."""
    known = dict.fromkeys(experiment.name for lab in labs.LABS for experiment in lab.experiments)
    for name in sys.argv[1:] or known:
        with tempfile.TemporaryDirectory() as folder:
            run = oscope.run(name, profile="quick", reps=12, seed=1, store=str(Path(folder) / "golden.db"))
        (results,) = run.results.experiments
        results = dataclasses.replace(
            results,
            run_id="golden",
            started="2026-01-01T00:00:00+00:00",
            points=results.points[:2],
            environment={key: results.environment[key] for key in KEPT},
        )
        (FOLDER / f"{name}.json").write_bytes(record.to_json(Results((results,))))


if __name__ == "__main__":
    main()
