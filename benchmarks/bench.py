"""Oscope beside its peers and against its own bars: `make bench`.

Every figure is a ratio or a size taken in this run. Exit code 1 when a bar is missed, so that a miss cannot
be overlooked.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

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
    "kernel",
    "transfer",
    "fs",
    "modules",
    "dhcp",
    "recording",
    "causes",
    "trust",
)


def main() -> int:
    """Run the benchmark modules named on the command line, or all of them, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "modules", nargs="*", choices=[*MODULES, []], help="which of them to run (default: all)"
    )
    names = parser.parse_args().modules or MODULES
    console = Console(width=140)
    table = Table("benchmark", "measured", "wanted", "met", title="Oscope's bars on this machine")
    missed = 0
    for name in names:
        console.print(f"[dim]{name} ...[/dim]")
        for bar in importlib.import_module(name).bars():
            missed += not bar.met
            mark = "yes" if bar.met else "[bold red]no[/bold red]"
            console.print(f"  {bar.name}: {bar.measured} (wanted {bar.wanted}) {mark}")
            table.add_row(bar.name, bar.measured, bar.wanted, mark)
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
