"""An explained trace on a terminal: each program's start in full, the processes, findings, summaries."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console
from rich.text import Text
from rich.tree import Tree as Branch

from oscope.model.formatting import MISSING, format_count, format_value
from oscope.report.terminal import LEAST_PROSE, MOST_ROWS, aligned, print_columns, print_indented, print_prose
from oscope.tools.explain import findings, summary
from oscope.tools.explain.explanation import UNDER_STRACE, Explanation
from oscope.tools.explain.phases import TITLES
from oscope.tools.explain.reading import Call
from oscope.tools.explain.tasks import Image, Task

PROGRAM_CALLS = 20
"""Of the program itself, how many calls are shown one by one, unless all are asked for."""
TASKS = 40
"""Processes and threads that are shown in the tree, unless all are asked for."""
_NAMES = 6
_INDENT = " " * 28
_WORDS = 100
_STRING = 40
"""Columns of a text with escapes that a terminal shows; strace shows 32 characters of any text."""
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?')
_CHARACTER = re.compile(r"\\(?:[0-7]{1,3}|.)|.", re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """How much is shown."""

    everything: bool = False

    def rows(self, count: int) -> int:
        """Return how many of `count` rows of a table are shown."""
        return count if self.everything else min(count, MOST_ROWS)


def print_report(found: Explanation, shown: Shown, out: Console) -> None:
    """Print all of it, the programs of the first process first."""
    print_prose(_headline(found), out, style="bold")
    roots = found.tree.roots
    tasks = found.tree.tasks if shown.everything else roots[:1]
    for task in tasks:
        for image in task.images:
            _program(image, shown, out)
    if len(found.tree.tasks) > 1:
        _tree(found, shown, out)
    _findings(found, shown, out)
    _by_phase(found, out)
    _by_call(found, shown, out)
    _by_file(found, shown, out)
    out.print()
    for note in found.notes():
        print_prose(f"note: {plain(note)}", out)
    if any(call.took_ns is not None for call in found.trace.calls):
        print_prose(f"note: {UNDER_STRACE}", out)


def plain(text: str) -> str:
    """Return `text` with all that would not be seen, or would move the cursor, written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _headline(found: Explanation) -> str:
    calls = sum(1 for _ in found.trace.calls)
    tasks = found.tree.tasks
    threads = sum(task.kind == "thread" for task in tasks)
    parts = [f"{format_count(calls)} system calls", f"processes: {len(tasks) - threads}"]
    if threads:
        parts.append(f"further threads: {threads}")
    run = found.run
    if run is None:
        return f"{plain(found.source)}: {', '.join(parts)}"
    text = f"{plain(shlex.join(run.command))} {run.ended} after {format_value(run.ended.time_s, None, 's')}"
    if run.beside_s is not None:
        text += f" under strace, after {format_value(run.beside_s, None, 's')} in a run without"
    return f"{text}; {', '.join(parts)}"


def _program(image: Image, shown: Shown, out: Console) -> None:
    out.print()
    print_prose(_title(image), out, style="bold")
    timed = image.calls[0].at_ns is not None
    if timed:
        out.file.write(f"{'call':>5}{'at [ms]':>11}{'took [ms]':>11}\n")
    sums = {each.name: each for each in summary.by_phase(image)}
    rows = zip(image.calls, image.phases, image.purposes, strict=True)
    left = None if shown.everything else PROGRAM_CALLS
    seen: set[str] = set()
    for phase, group in groupby(rows, key=lambda row: row[1]):
        if phase == "exit" and "program" not in seen:
            _no_calls(out)
            seen.add("program")
        again = " (again)" if phase in seen else f": {_phase_words(sums[phase])}"
        seen.add(phase)
        out.print(Text(f"  {TITLES[phase]}{again}", style="cyan"), soft_wrap=True)
        calls = [(call, explanation) for call, _, explanation in group]
        many = len(calls) if left is None or phase != "program" else min(left, len(calls))
        for call, explanation in calls[:many]:
            _call(call, explanation, timed, out)
        if phase == "program" and left is not None:
            left -= many
            if many < len(calls):
                _rest([call for call, _ in calls[many:]], out)
    if "program" not in seen:
        _no_calls(out)
    _end(image, out)


def _no_calls(out: Console) -> None:
    """Print that the program itself made no call."""
    out.print(Text(f"  {TITLES['program']}: no call of its own", style="cyan"))


def _title(image: Image) -> str:
    task = image.task
    who = "" if task.pid is None else f"{task.pid}  "
    if image.started_by is not None:
        words = shlex.join(image.command) or image.path or ""
        return f"{who}{plain(_shortened(words))}"
    if task.kind == "first":
        return f"{who}a program whose start is not in the trace"
    kind = "a thread" if task.kind == "thread" else "a copy"
    return f"{who}{kind} of {plain(task.program or 'its maker')}"


def _shortened(text: str) -> str:
    return text if len(text) <= _WORDS else f"{text[:_WORDS]}…"


def _call(call: Call, explanation: str, timed: bool, out: Console) -> None:
    """Print a call and what it is for, past the console, which takes long to look at many lines.

    On a terminal neither is wider than it, unless a word is.
    """
    when = "  "
    if timed:
        at = MISSING if call.at_ns is None else f"{call.at_ns / 1e6:.3f}"
        took = MISSING if call.took_ns is None else f"{call.took_ns / 1e6:.3f}"
        when = f"{at:>11}{took:>11} "
    head, indent = f"{call.number:>5}{when}", _INDENT if timed else " " * 9
    texts = [plain(call.text), plain(explanation)]
    if out.is_terminal:
        texts[0] = cut(texts[0])
        further = f"\n{indent}  "
        room = out.width - len(indent) - 2
        texts = [
            further.join(broken(text, room, keep_blanks=keep))
            for text, keep in zip(texts, (True, False), strict=True)
        ]
    out.file.write(f"{head}{texts[0]}\n{indent}{texts[1]}\n")


def cut(text: str) -> str:
    """Return a call with long texts that hold escapes, such as a file's bytes, cut as strace does."""
    return _QUOTED.sub(_cut_string, text)


def _cut_string(found: re.Match[str]) -> str:
    if "\\" not in found[1] or found[1].startswith("/"):
        return found[0]
    if len(found[1]) <= _STRING:
        return found[0]
    kept = ""
    for character in _CHARACTER.findall(found[1]):
        if len(kept) + len(character) > _STRING:
            break
        kept += character
    return f'"{kept}"...'


def broken(text: str, width: int, *, keep_blanks: bool) -> list[str]:
    """Return `text` broken between words; blanks may be data: with all, the joined lines are `text` again."""
    lines = textwrap.wrap(
        text,
        max(width, LEAST_PROSE),
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=not keep_blanks,
    )
    return lines or [""]


def _rest(calls: Sequence[Call], out: Console) -> None:
    counts = Counter(call.name for call in calls)
    names = ", ".join(f"{name} {format_count(count)}" for name, count in counts.most_common(_NAMES))
    more = f" and {len(counts) - _NAMES} other names" if len(counts) > _NAMES else ""
    print_prose(f"… {format_count(len(calls))} more: {names}{more}; --all shows each", out, indent=_INDENT)


def _end(image: Image, out: Console) -> None:
    task = image.task
    if task.images[-1] is not image:
        return
    blank = " " * 16
    for signal in task.signals[: None if len(task.signals) <= _NAMES else _NAMES]:
        at = "" if signal.at_ns is None else f"{signal.at_ns / 1e6:.3f}"
        print_indented(f"signal: {plain(signal.text)}", out, first=f"{at:>16}  ", indent=f"{blank}    ")
    if len(task.signals) > _NAMES:
        out.file.write(f"{blank}  … {len(task.signals) - _NAMES} more signals\n")
    out.file.write(f"{blank}  {plain(_how_ended(task))}\n")


def _how_ended(task: Task) -> str:
    return task.ended or "its end is not in the trace"


def _phase_words(each: summary.PhaseSum) -> str:
    text = f"{format_count(each.count)} call{'' if each.count == 1 else 's'}"
    return text if each.span_ns is None else f"{text}, {format_value(each.span_ns, None, 'ns')}"


def _tree(found: Explanation, shown: Shown, out: Console) -> None:
    out.print()
    out.print(Text("processes and threads", style="bold"))
    room = len(found.tree.tasks) if shown.everything else TASKS
    left = [room]
    for root in found.tree.roots:
        if left[0] > 0:
            out.print(_branch(root, left), soft_wrap=not out.is_terminal)
    hidden = len(found.tree.tasks) - room
    if hidden > 0:
        print_prose(f"… {hidden} more; --all shows each", out, style="dim")


def _branch(task: Task, left: list[int]) -> Branch:
    """Return a task with those below it, as far as there is room left; not recursive: chains are long."""
    top = Branch(Text(_task_words(task)))
    left[0] -= 1
    waiting = [(top, child) for child in reversed(task.children)]
    while waiting and left[0] > 0:
        above, each = waiting.pop()
        branch = above.add(Text(_task_words(each)))
        left[0] -= 1
        waiting += [(branch, child) for child in reversed(each.children)]
    return top


def _task_words(task: Task) -> str:
    kind = {"first": "", "process": "process ", "thread": "thread "}[task.kind]
    programs = [
        plain(_shortened(shlex.join(image.command) or image.path or ""))
        for image in task.images
        if image.path
    ]
    runs = f": {' → '.join(programs)}" if programs else ""
    count = sum(len(image.calls) for image in task.images)
    return f"{kind}{task.pid or ''}{runs}; calls: {format_count(count)}; {plain(_how_ended(task))}"


def _findings(found: Explanation, shown: Shown, out: Console) -> None:
    """Print what was found; of other programs than the first only what was not found before."""
    printed: set[str] = set()
    first = True
    for image, finding in findings.all_findings(found.tree):
        if not shown.everything and finding.name in printed:
            continue
        printed.add(finding.name)
        if first:
            out.print()
            out.print(Text("findings", style="bold"))
            first = False
        where = ", ".join(map(str, finding.calls))
        plural = "s" if len(finding.calls) > 1 else ""
        name = plain(_shortened(image.path or ""))
        print_prose(
            f"{finding.name} ({name}, call{plural} {where}): {plain(finding.text)}",
            out,
        )


def _by_phase(found: Explanation, out: Console) -> None:
    sums = summary.of_all_phases(found.tree)
    columns = [
        ["phase", *(TITLES[each.name] for each in sums)],
        aligned(["calls", *(format_count(each.count) for each in sums)]),
        _times("in calls", [each.time_ns or None for each in sums]),
        _times("took", [each.span_ns for each in sums]),
    ]
    # A parent's wait for its child holds the child's phases, which are counted there as well.
    overlap = (
        "took: times of programs that run at once overlap; a wait for a child has the child's time in it"
    )
    several = len(found.tree.tasks) > 1
    _table("by phase, all programs together", columns, overlap if several else "", out)


def _by_call(found: Explanation, shown: Shown, out: Console) -> None:
    sums = summary.by_call(found.trace.calls)
    rows = sums[: shown.rows(len(sums))]
    columns = [
        ["call", *(plain(each.name) for each in rows)],
        aligned(["count", *(format_count(each.count) for each in rows)]),
        aligned(["errors", *(format_count(sum(each.errors.values())) for each in rows)]),
        _times("time", [each.time_ns if each.timed else None for each in rows]),
        ["what it is for", *(each.purpose for each in rows)],
    ]
    _table("by call", columns, _hidden(len(sums) - len(rows), "calls"), out)


def _by_file(found: Explanation, shown: Shown, out: Console) -> None:
    sums = summary.by_file(found.trace.calls)
    if not sums:
        return
    sums.sort(key=lambda each: -(each.read_bytes + each.written_bytes + each.mapped_bytes))
    rows = sums[: shown.rows(len(sums))]
    # The paths stand last and unbroken, to be copied.
    columns = [
        aligned(["calls", *(format_count(each.calls) for each in rows)]),
        aligned(["opened", *(format_count(each.opened) for each in rows)]),
        ["read", *(_bytes(each.read_bytes) for each in rows)],
        ["written", *(_bytes(each.written_bytes) for each in rows)],
        ["mapped", *(_bytes(each.mapped_bytes) for each in rows)],
        ["errors", *(_errors(each.errors) for each in rows)],
    ]
    shown_columns = [column for column in columns if any(cell != MISSING for cell in column[1:])]
    widths = [max(map(len, column)) for column in shown_columns]
    out.print()
    out.print(Text("by file", style="bold"))
    for path, *cells in zip(["file", *(plain(each.path) for each in rows)], *shown_columns, strict=True):
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        out.file.write(f"{'  '.join(padded)}  {path}\n")
    if hidden := _hidden(len(sums) - len(rows), "files"):
        print_prose(hidden, out, style="dim")


def _table(title: str, columns: Sequence[Sequence[str]], hidden: str, out: Console) -> None:
    out.print()
    out.print(Text(title, style="bold"))
    shown = [column for column in columns if any(cell != MISSING for cell in column[1:])]
    print_columns(shown, out, wrap_last=True)
    if hidden:
        print_prose(hidden, out, style="dim")


def _hidden(count: int, what: str) -> str:
    return f"… {format_count(count)} more {what}; --all shows each" if count > 0 else ""


def _times(heading: str, values: Sequence[int | None]) -> list[str]:
    return [heading, *(MISSING if value is None else format_value(value, None, "ns") for value in values)]


def _bytes(count: int) -> str:
    return MISSING if count == 0 else format_value(count, None, "B")


def _errors(errors: Counter[str]) -> str:
    return ", ".join(f"{name} {format_count(count)}" for name, count in sorted(errors.items())) or MISSING
