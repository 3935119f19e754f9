"""`oscope inject`: disturbs this machine on purpose, and reports when."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oscope.cli.destinations import Output, output_file
from oscope.cli.errors import DONE, note
from oscope.cli.options import parse_option, whole_number
from oscope.model.errors import UsageError
from oscope.model.interruption import Interruption
from oscope.model.units import parse_duration
from oscope.planning.plan import MOST_SEED
from oscope.report.terminal import console, print_columns
from oscope.runner.injection import causes as known_causes
from oscope.runner.injection.injector import SCHEMA, Injector, Phase
from oscope.storage import record

if TYPE_CHECKING:
    from oscope.runner.injection.injector import Begun, Phase

MOST_CPU = 8191
MOST_TID = 2**22
"""What Linux has at most (NR_CPUS, PID_MAX_LIMIT)."""


# With more parameters than other functions: it is the table of the command's options.
def inject(
    causes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CAUSE",
            help="hog, sibling, memory, evict, interrupts or migrate; none: what each of them does.",
        ),
    ] = None,
    cpu: Annotated[
        int | None,
        whole_number("--cpu", most=MOST_CPU, help="The CPU to measure on. [default: the highest allowed]"),
    ] = None,
    length: Annotated[
        str | None, typer.Option("--for", metavar="T", help="Time to go on. [default: until Ctrl-C]")
    ] = None,
    seed: Annotated[
        int, whole_number("--seed", most=MOST_SEED, help="Decides the lengths of all phases.")
    ] = 0,
    on: Annotated[
        str, typer.Option("--on", metavar="T", help="Mean length of a phase with the disturbance.")
    ] = "200ms",
    off: Annotated[str, typer.Option("--off", metavar="T", help="Mean length of a phase without.")] = "300ms",
    steady: Annotated[bool, typer.Option("--steady", help="Disturb all the time.")] = False,
    paths: Annotated[
        list[Path] | None,
        typer.Option("--path", metavar="FILE", help="For evict: a file to drop; repeatable."),
    ] = None,
    thread: Annotated[
        int | None,
        whole_number("--thread", most=MOST_TID, metavar="TID", help="For migrate: the thread to move."),
    ] = None,
    target: Annotated[
        Output | None,
        output_file("--json", help="Write the truth: from when to when each was at work."),
    ] = None,
) -> int:
    """Disturb this machine on purpose, in phases of random length.

    Each phase is reported by a line on standard error. Ctrl-C ends it; nothing is left behind, also after
    a kill. What is measured meanwhile is no clean measurement: see oscope run --inject, which marks it.
    """
    known = known_causes.load()
    if not causes:
        _list(known)
        return DONE
    words = [*known_causes.parse(causes, known, of_machine=True), "--seed", str(_whole("--seed", seed))]
    if cpu is not None:
        words += ["--cpu", str(_whole("--cpu", cpu))]
    if length is not None:
        words += ["--for", _seconds("--for", length)]
    words += ["--steady"] if steady else ["--on", _seconds("--on", on), "--off", _seconds("--off", off)]
    words += [f"--path={path}" for path in paths or ()]
    if thread is not None:
        words += ["--thread", str(_whole("--thread", thread))]
    _inject(words, target)
    return DONE


def _list(known: dict[str, Any]) -> None:
    """Print what each cause does."""
    columns = [
        ["cause", *known],
        ["raises", *(cause.raises[0] for cause in known.values())],
        ["what it does", *(_purpose(cause) for cause in known.values())],
    ]
    print_columns(columns, console(), wrap_last=True)


def _purpose(cause: known_causes.Cause) -> str:
    return cause.purpose if cause.amount is None else f"{cause.purpose} (only with oscope run --inject)"


def _whole(option: str, number: int) -> int:
    if number < 0:
        raise UsageError(f"{option} {number} is below zero", remedy="give a whole number, zero or more")
    return number


def _seconds(option: str, text: str) -> str:
    seconds = parse_option(option, parse_duration, text)
    if seconds < 0.001:
        raise UsageError(f"{option} {text} is less than 1 ms", remedy="give a duration like 200ms")
    return f"{seconds:.6f}"


def _inject(words: list[str], target: Output | None) -> None:
    """Have it done until the time is over or Ctrl-C comes, tell each phase, and write the truth."""
    phases: list[Phase] = []
    with Injector(words) as injector, Interruption(injector.terminate):
        for place in injector.begun.places:
            note(f"{place['cause']}: {place['place']}")
        try:
            for event in injector.events():
                if isinstance(event, Phase):
                    phases.append(event)
                    note(_line(event))
            injector.finish()
        finally:
            if target is not None:
                truth = _truth(injector.begun, phases)
                target.write(record.dump({"schema": SCHEMA, **truth}))


def _line(phase: Phase) -> str:
    began = time.strftime("%H:%M:%S", time.localtime(phase.from_ns // 10**9))
    length_ms = (phase.to_ns - phase.from_ns) / 1e6
    return f"{phase.cause}: on at {began}.{phase.from_ns // 10**6 % 1000:03}, for {length_ms:.0f} ms"


def _truth(begun: Begun, phases: list[Phase]) -> dict[str, Any]:
    return {**asdict(begun), "phases": [asdict(phase) for phase in phases]}
