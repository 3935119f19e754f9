"""What `oscope trace` found, as tables for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from oscope.model.formatting import MISSING, format_count, format_share, format_value
from oscope.report.terminal import aligned, print_columns, print_prose
from oscope.trace.calls import MOST_MOVED
from oscope.trace.reading import Histogram, time_in_calls_ns, upper_bound

if TYPE_CHECKING:
    from oscope.cli.trace_session import Traced

MEDIAN, LATE = 0.5, 0.99


def print_report(traced: Traced, out: Console) -> None:
    """Print a table for each kind that was traced, what was lost, and what is to be thought of the times."""
    reading = traced.reading
    took = format_value(traced.ended.time_s, None, "s")
    print_prose(f"{shlex.join(traced.command)} {traced.ended} after {took}", out, style="bold")
    for kind, show in (("events", _events), ("switches", _switches)):
        if kind in reading:
            show(reading[kind], out)
    if "calls" in reading:
        _calls(reading, traced.ended.time_s, out)
    if "faults" in reading:
        _faults(reading["faults"], out)
    print_prose(_losses(traced), out)
    options = f"--trace {','.join(traced.kinds) or 'syscalls'}"
    if traced.ended.exit_code:
        options += " --ignore-failure"
    print_prose(
        "probe effect: tracing costs time; a single run does not show whether it made the command slower. "
        f"oscope bench {options} -- {shlex.join(traced.command)} measures it for this command",
        out,
    )


def _calls(reading: Mapping[str, Any], run_s: float, out: Console) -> None:
    calls: Mapping[str, Mapping[str, Any]] = reading["calls"]
    if not calls:
        out.print("no system calls")
        return
    names = sorted(calls, key=lambda name: (-calls[name].get("time_ns", 0), -calls[name]["count"], name))
    rows = [calls[name] for name in names]
    columns = [
        ["call", *names],
        aligned(["count", *(format_count(row["count"]) for row in rows)]),
        ["errors", *(_errors(row.get("errors", {})) for row in rows)],
    ]
    if any("time_ns" in row for row in rows):
        columns.append(_column("time", [row.get("time_ns") for row in rows], "ns"))
        columns.append(
            aligned(["of run", *(format_share(row.get("time_ns", 0) / (run_s * 1e9)) for row in rows)])
        )
    if any("times" in row for row in rows):
        columns.append(["median ≤", *(_of_row(row, MEDIAN) for row in rows)])
        columns.append(["99 % ≤", *(_of_row(row, LATE) for row in rows)])
    if not any(errors for errors in columns[2][1:]):
        del columns[2]
    out.print()
    print_columns(columns, out)
    _sizes({name: row for name, row in calls.items() if "returned" in row}, out)
    spent = time_in_calls_ns(reading)
    if spent is not None:
        text = f"{format_value(spent, None, 'ns')} in system calls, waiting included, summed over all threads"
        print_prose(f"{text}: {format_share(spent / (run_s * 1e9))} of the run", out)


def _sizes(calls: Mapping[str, Mapping[str, Any]], out: Console) -> None:
    """Print the bytes that calls asked for and got; one that got less than it asked for was short."""
    if calls:
        columns = [["bytes", *calls]]
        columns.append(["asked", *map(_asked, calls.values())])
        columns.append(_column("got", [row["returned"] for row in calls.values()], "B"))
        columns.append(aligned(["short", *(_count(row.get("short")) for row in calls.values())]))
        out.print()
        print_columns(columns, out)


def _asked(call: Mapping[str, Any]) -> str:
    """Return the bytes that calls asked for; cp(1) asks copy_file_range(2) for more than any file has."""
    total = call.get("asked")
    if total is None:
        return MISSING
    return "all" if total > MOST_MOVED * call["count"] else format_value(total, None, "B")


def _switches(switches: Mapping[str, Any], out: Console) -> None:
    parts = [
        f"{format_count(switches[name])} {name}" for name in ("voluntary", "involuntary") if name in switches
    ]
    out.print()
    moved = format_count(switches.get("migrations", 0))
    print_prose(f"context switches: {', '.join(parts)}; moves to another CPU: {moved}", out)
    times = switches.get("wakeup_ns", ())
    text = f"wake-ups: {format_count(switches.get('wakeups', 0))}"
    if times:
        late = _bin(times, LATE)
        text += f"; from waking to running: median at most {_bin(times, MEDIAN)}, 99 % at most {late}"
    print_prose(text, out)


def _faults(faults: Sequence[Mapping[str, Any]], out: Console) -> None:
    out.print()
    if not faults:
        out.print("no page faults")
        return
    columns = [
        ["fault", *(row["kind"] for row in faults)],
        ["class", *(row["class"] for row in faults)],
        ["access", *(row["access"] for row in faults)],
        ["page", *("present" if row["present"] else "absent" for row in faults)],
        ["by", *(row["by"] for row in faults)],
        aligned(["count", *(format_count(row["count"]) for row in faults)]),
        _column("time", [row.get("time_ns") for row in faults], "ns"),
        ["median ≤", *(_of_row(row, MEDIAN) for row in faults)],
    ]
    print_columns(columns, out)


def _events(events: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Print a line for each call, as it stood in time: the time since the first, in s, and who made it."""
    tasks = {event["tid"] for event in events}
    for event in events:
        who = f"{event['tid']} " if len(tasks) > 1 else ""
        result = "?" if event["returned"] is None else _result(event)
        took = "" if event["time_ns"] is None else f"  {format_value(event['time_ns'], None, 'ns')}"
        call = f"{event['call']}({', '.join(event['arguments'])})"
        # Past the console: it takes longer to look at a million lines than the command took.
        out.file.write(f"{who}{event['at_ns'] / 1e9:.6f}  {call} = {result}{took}\n")


def _result(event: Mapping[str, Any]) -> str:
    if event["error"]:
        return str(event["error"])
    returned = int(event["returned"])
    # What is larger than any count of bytes of one call is an address.
    return hex(returned) if returned > 0x7FFF_FFFF else str(returned)


def _losses(traced: Traced) -> str:
    if not traced.losses.any:
        return "losses: none"
    return f"losses: {traced.losses.describe()}; all counts are lower bounds"


def _errors(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {format_count(count)}" for name, count in errors.items())


def _count(count: int | None) -> str:
    return MISSING if count is None else format_count(count)


def _column(name: str, values: Sequence[float | None], unit: str) -> list[str]:
    """Return a column in which each value has its own unit: they span decades."""
    return [name, *(MISSING if value is None else format_value(value, None, unit) for value in values)]


def _of_row(row: Mapping[str, Any], share: float) -> str:
    return _bin(row.get("times", ()), share, row.get("time_ns"))


def _bin(times: Histogram, share: float, total_ns: float | None = None) -> str:
    """Return what the time that `share` of the times do not exceed is at most."""
    found = upper_bound(times, share, total_ns)
    return MISSING if found is None else format_value(found, None, "ns")
