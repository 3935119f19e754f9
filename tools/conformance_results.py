"""Results of the outside suites: one file of JSON for each suite and file system, in target/conformance."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "target" / "conformance"
"""Where the suites are installed, and the results kept."""
RESULTS = TOOLS / "results"
HANGS = "hangs"
"""What a test is recorded to have reported when it was killed at its time limit."""


@dataclass
class Result:
    """Result of one suite on one file system."""

    suite: str
    system: str
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """By test, what it reported."""
    skipped: dict[str, str] = field(default_factory=dict)
    """By test, the reason that the suite gives; empty where it gives none."""
    left: list[str] = field(default_factory=list)
    """Tests that were not reached: the run was interrupted."""
    again: list[str] = field(default_factory=list)
    """Tests that were run again later than the others."""
    summary: str = ""
    """One line, of a suite that has no named tests."""
    date: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).date().isoformat())
    kernel: str = field(default_factory=lambda: f"{platform.system()} {platform.release()}")

    def merged(self, earlier: Result) -> Result:
        """Return this result with those tests of an earlier one that it does not have."""
        new = {*self.passed, *self.failed, *self.skipped}
        result = dataclasses.replace(
            self,
            passed=[*(name for name in earlier.passed if name not in new), *self.passed],
            failed={name: text for name, text in earlier.failed.items() if name not in new} | self.failed,
            skipped={name: text for name, text in earlier.skipped.items() if name not in new} | self.skipped,
            left=[name for name in earlier.left if name not in new],
            again=sorted({*earlier.again, *(new - {*earlier.left})}),
        )
        if earlier.kernel != self.kernel:
            result.kernel = f"{earlier.kernel}; {self.kernel}"
        return result

    def save(self, folder: Path = RESULTS) -> None:
        """Store it in place of an earlier result of the same suite on the same file system."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.suite}-{self.system}.json"
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")


Results = dict[str, dict[str, Result]]
"""By suite, then by file system."""


def load(folder: Path = RESULTS) -> Results:
    """Return what is stored."""
    found: Results = {}
    for path in sorted(folder.glob("*-*.json")):
        result = Result(**json.loads(path.read_text()))
        found.setdefault(result.suite, {})[result.system] = result
    return found
