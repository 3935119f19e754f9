"""The bpftrace program of a tracer: its parts composed to one text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.trace import factor
from oscope.trace.calls import call_number, transfer_numbers
from oscope.trace.layout import offsets
from oscope.trace.templates import templates

KINDS = (*factor.KINDS, "events")
"""What a program can watch, each a file in `programs`."""

EXACT_RESULTS = 4096
"""What calls that move no bytes return is counted value by value below this, by powers of two from it on."""

NEEDED: Mapping[str, tuple[str, ...]] = {
    "marks": ("task:task_newtask", "sched:sched_process_exec", "sched:sched_process_exit"),
    "family": ("raw_syscalls:sys_enter", "task:task_newtask", "sched:sched_process_exit"),
    "counts": ("raw_syscalls:sys_enter",),
    "syscalls": ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit"),
    "sched": ("sched:sched_switch", "sched:sched_waking"),
    "faults": ("exceptions:page_fault_user", "exceptions:page_fault_kernel"),
    "events": ("raw_syscalls:sys_exit",),
}
"""Tracepoints without which a part cannot be."""

HELPFUL = (
    "kmem:rss_stat",
    "filemap:mm_filemap_map_pages",
    "filemap:mm_filemap_fault",
    "writeback:writeback_dirty_folio",
)
"""Tracepoints that tell the kinds of faults apart. Kernels have them from 5.5, 6.12, 6.12 and 5.18 on."""

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
_MAP_WRITTEN = re.compile(r"^\s*@(\w+)\[.*\] = ", re.MULTILINE)
_PROBE = re.compile(r"^(?:BEGIN|END|(?:uprobe|tracepoint|software):)", re.MULTILINE)
_MAP = re.compile(r"@(\w+)\[")


def is_plain(path: Path) -> bool:
    """Return whether `path` can stand in a program as it is."""
    return _PLAIN_PATH.fullmatch(str(path)) is not None


@dataclass(frozen=True)
class Marks:
    """Trace what is done between the marks of the probe at `probe`, a path of plain characters."""

    probe: Path

    def __post_init__(self) -> None:
        if not is_plain(self.probe):
            raise OscopeError(f"the path {str(self.probe)!r} cannot be named in a bpftrace program")


@dataclass(frozen=True)
class Family:
    """Trace process `pid` and its descendants, from its next execve on."""

    pid: int


@dataclass(frozen=True)
class Program:
    """A whole program."""

    kinds: tuple[str, ...]
    selection: Marks | Family
    text: str

    @property
    def probes(self) -> int:
        """How many places it is attached to; bpftrace goes on without a uprobe that it does not find."""
        return len(_PROBE.findall(self.text))

    @cached_property
    def maps(self) -> frozenset[str]:
        """Names of its maps."""
        return frozenset(_MAP.findall(self.text))

    def map_written(self, line: int) -> str | None:
        """Return the name of the map that `line`, from 1, writes to; None where it writes to none."""
        found = _MAP_WRITTEN.match(self.text.splitlines()[line - 1])
        return found[1] if found else None


def compose(kinds: Collection[str], selection: Marks | Family, present: Collection[str]) -> Program:
    """Return the program that watches `kinds` of what is selected; `present`: tracepoints, fields."""
    texts = templates()
    texts.globals["offsets"] = offsets
    numbers = transfer_numbers()
    asked: dict[int, list[int]] = {}
    for number, index in numbers.items():
        if index is not None:
            asked.setdefault(index, []).append(number)
    chosen = {"probe": str(selection.probe)} if isinstance(selection, Marks) else {"pid": selection.pid}
    # Each system call's entry is met once: what counts calls is left out where their times are taken.
    selected = [kind for kind in KINDS if kind in kinds and not (kind == "counts" and "syscalls" in kinds)]
    parts = ["marks" if isinstance(selection, Marks) else "family", *selected]
    return Program(
        tuple(selected),
        selection,
        "\n".join(
            texts.get_template(f"{part}.bt").render(
                chosen,
                asked=asked,
                transfers=list(numbers),
                present=present,
                execve=call_number("execve"),
                exact_results=EXACT_RESULTS,
            )
            for part in parts
        ),
    )


def needed(kinds: Collection[str], selection: Marks | Family) -> tuple[str, ...]:
    """Return the tracepoints without which such a program cannot be."""
    parts = ("marks" if isinstance(selection, Marks) else "family", *kinds)
    return tuple(dict.fromkeys(name for part in parts for name in NEEDED[part]))
