"""The table of a run, for a terminal and as Markdown, with the machine and the code that it is of."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from rich.table import Table

from bars import Effort
from measuring import ROOT, started
from oscope.model.formatting import format_value
from runner import Module, Outcome, Run

PAGE = ROOT / "docs" / "benchmarks.md"
STYLES = {"met": "green", "missed": "bold red", "shown": "dim", "not measured": "yellow"}
COMMANDS = {Effort.SHORT: "make bench", Effort.FULL: "make bench-full", Effort.SMOKE: "bench.py --smoke"}
_HEAD = """\
# Benchmarks: Oscope beside its peers

This page is written by a whole run of `make bench` or `make bench-full`, and by nothing else.
"""
_READING = """\
A bar is a limit that Oscope sets itself. The value decides (the median, where there are several values). A
share of trials misses its bar only if its whole interval is beyond it. Intervals are 95 % confidence
intervals: of medians by the BCa bootstrap, of shares by Wilson. A ratio compares two sides measured in
interleaved rounds. *Shown*: no bar is set. *Not measured* gives the reason. `make bench` has fewer rounds and
trials than `make bench-full`; its intervals are wider.
"""


@dataclass(frozen=True)
class Origin:
    """Which code was measured, when, and on what machine."""

    commit: str
    begun: datetime
    environment: dict[str, Any]
    load: float
    """Processes that wanted to run when it began, on average over the minute before."""

    @classmethod
    def now(cls) -> Self:
        """Look at the checkout, and have the probe look at the machine."""
        with started() as probe:
            environment = dict(probe.hello.environment)
        return cls(commit_of(ROOT), datetime.now(UTC), environment, os.getloadavg()[0])

    def rows(self) -> list[tuple[str, str]]:
        """Return what is known, line by line."""
        machine, kernel = self.environment, self.environment["kernel"]
        memory = float(machine["memory"]["total_bytes"])
        return [
            ("commit", self.commit),
            ("begun", f"{self.begun:%Y-%m-%d %H:%M} UTC"),
            ("processor", str(machine["cpu"]["model"])),
            ("CPUs", f"{machine['cpu']['logical']}, of which {len(machine['cpu']['allowed'])} could be used"),
            ("memory", format_value(memory, memory * 5e-4, "B")),
            ("kernel", f"Linux {kernel['release']} {kernel['arch']}"),
            ("virtualisation", str(machine["hypervisor"] or "none")),
            ("load at the start", f"{self.load:.2f}"),
        ]


def commit_of(root: Path) -> str:
    """Return the commit of the checkout, and whether anything but the page of results differs from it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".", ":!docs/benchmarks.md")
        return f"{git('rev-parse', 'HEAD')}{', with uncommitted changes' if changed else ''}"
    except (OSError, subprocess.SubprocessError):
        return "unknown: this is no git checkout"


def measured(outcome: Outcome) -> str:
    """Return the figure, or why there is none."""
    return outcome.why if outcome.figure is None else outcome.figure.text


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return how many bars there are of each verdict."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    text = ", ".join(f"{counts[verdict]} {verdict}" for verdict in STYLES)
    failed = sum(outcome.failed for outcome in outcomes)
    return f"{text} ({failed} of them failed or were stopped)" if failed else text


def table(run: Run) -> Table:
    """Return the table for a terminal."""
    found = Table("module", "bar", "measured", "wanted", "result", title=f"Bars: {summary(run.outcomes)}")
    last = ""
    for outcome in run.outcomes:
        if last and outcome.module != last:
            found.add_section()
        style = STYLES[outcome.verdict]
        result = f"[{style}]{outcome.verdict}[/{style}]"
        cells = (outcome.bar.name, measured(outcome), outcome.bar.bound)
        # Brackets in them are intervals, not styles.
        found.add_row(outcome.module, *(cell.replace("[", "\\[") for cell in cells), result)
        last = outcome.module
    return found


def page(run: Run, origin: Origin, took_s: float) -> str:
    """Return the page of a whole run."""
    facts = [*origin.rows(), ("run", f"`{COMMANDS[run.effort]}`, {took_s / 60:.0f} min")]
    lines = [_HEAD, "| | |", "|---|---|", *(_row(each) for each in facts), ""]
    lines += [f"{summary(run.outcomes)}.", "", _READING]
    lines += [_row(("module", "bar", "measured", "wanted", "result")), "|---|---|---|---|---|"]
    for one in run.outcomes:
        verdict = f"**{one.verdict}**" if one.verdict == "missed" else one.verdict
        lines.append(_row((one.module, one.bar.name, measured(one), one.bar.bound, verdict)))
    lines += ["", "## How each is measured", ""]
    for module in run.modules:
        lines += [f"### `{module.name}`", "", module.title, "", *_described(module), ""]
    return "\n".join(lines).rstrip() + "\n"


def _described(module: Module) -> list[str]:
    return [f"- {'; '.join(bar.name for bar in part.bars)}: {part.what}" for part in module.parts]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
