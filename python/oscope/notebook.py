"""The runs of a notebook: those stored beside it, so that its outputs repeat, or new ones of this machine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import oscope
from oscope.api import Run
from oscope.model.errors import UsageError
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults, Results
from oscope.storage import record

RECORD = "OSCOPE_NOTEBOOK_RECORD"
"""Variable of the environment that names the file of the stored runs, in place of the notebook's own."""
MEASURE = "OSCOPE_NOTEBOOK_MEASURE"
"""Variable that, if it is set, has this machine measured; a path is where the new runs are stored."""


class Runs:
    """The runs that a notebook asks for, in the order in which it does."""

    def __init__(self, file: str | Path) -> None:
        """Read the runs stored in `file`, unless this machine is to be measured."""
        self._new = os.environ.get(MEASURE)
        self._measured: list[ExperimentResults] = []
        self._taken: Counter[str] = Counter()
        self._stored: tuple[ExperimentResults, ...] = ()
        if self._new is None:
            self._stored = record.read(Path(os.environ.get(RECORD, file))).experiments

    def run(self, name: str, **chosen: Level | Sequence[Level]) -> Run:
        """Return the next stored run of the experiment `name`, or measure it as `oscope.run` does.

        Raises UsageError where the record has no such run.
        """
        if self._new is not None:
            options: dict[str, Any] = dict(chosen)
            return self._keep(oscope.run(name, **options))
        found = [each for each in self._stored if each.experiment == name]
        number = self._taken[name]
        self._taken[name] += 1
        if number >= len(found):
            raise UsageError(
                f"the stored runs have {len(found)} of {name}, and the notebook asks for one more",
                remedy=f"set {MEASURE}=1 to measure this machine",
            )
        return Run(found[number].run_id, Results((found[number],)))

    def _keep(self, run: Run) -> Run:
        self._measured += run.results.experiments
        if self._new and "/" in self._new:
            Path(self._new).write_bytes(record.to_json(Results(tuple(self._measured))))
        return run
