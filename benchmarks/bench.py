"""Oscope beside its peers and against its own bars: `make bench`, `make bench-full`.

Every figure is measured in this run. A module that fails does not stop the others. The table at the end has
all bars; a whole run writes it into docs/benchmarks.md, a run of some modules does not. Progress goes to
standard error, the table to standard output. Exit code: 0, or 1 where a bar is missed, a module failed or
was stopped, 2 for a wrong command line, 130 after Ctrl-C (the table then has what was measured until then).
A bar that this machine cannot measure, for what is not installed or needs the full run, is no failure.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

sys.path.insert(0, str(Path(__file__).parent))

from bars import Bar, Effort, Part
from module_run import words_of
from results import PAGE, STYLES, Origin, measured, page, summary, table
from runner import Module, Outcome, Run

MODULES = (
    "syscall_cost",
    "disk",
    "ipc",
    "memory",
    "cache_model",
    "tracing",
    "responsiveness",
    "scale",
    "null_compare",
    "null_changes",
    "null_precision",
    "odd_fleets",
    "fleet_overhead",
    "kernel",
    "transfer",
    "long_line",
    "fs",
    "modules",
    "dhcp",
    "recording",
    "causes",
    "trust",
    "programs",
    "kits",
)
SHORT_MINUTES = 40.0
WIDTH = 160
"""Of the table where standard output is no terminal."""


def load(name: str) -> Module:
    """Import a module. One that cannot be imported has a part that says so, by failing as it did."""
    try:
        module = importlib.import_module(name)
        return Module(name, (module.__doc__ or name).split("\n", 1)[0], module.PARTS)
    except Exception as error:  # noqa: BLE001 - any of them is the module's, and the others are measured.
        why = words_of(error)
        broken = Part(why, (Bar("can be imported"),), lambda _: iter(()), short_s=0, full_s=0)
        return Module(name, why, (broken,))


class Shown:
    """Shows on standard error how far the run is, and each outcome as it comes."""

    def __init__(self, total_s: float, effort: Effort) -> None:
        self._console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
        self._progress = Progress(*columns, TextColumn("{task.fields[left]}"), console=self._console)
        self._task = self._progress.add_task("starting", total=max(total_s, 1.0), left="")
        self._total_s = total_s
        self._left = ""
        self._effort = effort
        self._effort = effort

    def __enter__(self) -> Shown:
        """Begin to show."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away."""
        self._progress.stop()

    def part(self, module: Module, index: int) -> None:
        """Show what is under way."""
        text = f"{module.name} {index + 1}/{len(module.parts)}: {module.parts[index].bars[0].name}"
        self._progress.update(self._task, description=text[:60])
        if not self._console.is_terminal:
            self._console.print(f"{text}; {self._left or 'it begins'}", markup=False, soft_wrap=True)

    def took(self, module: Module, index: int, seconds: float, cpu_s: float) -> None:
        """Show how long a part took, so that what it declares is kept true."""
        declared = module.parts[index].seconds(self._effort)
        text = f"{seconds:.0f} s, {cpu_s:.0f} s of CPU time; declared: {declared:.0f} s"
        self._console.print(f"  {'took':<12} {text}", style="dim", markup=False, soft_wrap=True)

    def outcome(self, outcome: Outcome) -> None:
        """Show a line."""
        style, bound = STYLES[outcome.verdict], outcome.bar.bound
        text = f"{outcome.verdict:<12} {outcome.bar.name}: {measured(outcome)} (wanted: {bound})"
        self._console.print(f"  {text}", style=style, markup=False, soft_wrap=True)

    def left(self, seconds: float) -> None:
        """Show the time left."""
        self._left = f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
        done = max(self._total_s - seconds, 0.0)
        self._progress.update(self._task, completed=done, left=self._left)


def parse_options(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"default: all of {', '.join(MODULES)}")
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--full", action="store_true", help="all rounds and trials: half a day")
    effort.add_argument("--smoke", action="store_true", help="one short round of each: does it work?")
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help=f"stop then; what is left is not measured (default: {SHORT_MINUTES:g}, with --full none)",
    )
    options = parser.parse_args(words)
    if unknown := [name for name in options.modules if name not in MODULES]:
        parser.error(f"there is no module {unknown[0]}; there are {', '.join(MODULES)}")
    if options.minutes is not None and not options.minutes > 0:
        parser.error("--minutes has to be more than 0")
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write the page after a whole run."""
    options = parse_options(words)
    effort = Effort.FULL if options.full else Effort.SMOKE if options.smoke else Effort.SHORT
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    minutes = options.minutes or (SHORT_MINUTES if effort is Effort.SHORT else None)
    modules = [load(name) for name in dict.fromkeys(options.modules or MODULES)]
    total_s = sum(part.seconds(effort) or 0.0 for module in modules for part in module.parts)
    begun = time.monotonic()
    origin = Origin.now()
    with Shown(total_s, effort) as shown:
        run = Run(modules, effort, shown, None if minutes is None else minutes * 60)
        run.go()
    out = Console()
    Console(width=None if out.is_terminal else WIDTH).print(table(run))
    print(f"{summary(run.outcomes)}; {origin.commit}")
    if run.interrupted:
        return 130
    if not options.modules and effort is not Effort.SMOKE:
        PAGE.write_text(page(run, origin, time.monotonic() - begun))
        print(f"written: {PAGE.relative_to(PAGE.parent.parent)}")
    return int(run.failed)


if __name__ == "__main__":
    sys.exit(main())
