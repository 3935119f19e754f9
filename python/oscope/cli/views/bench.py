"""A bench on a terminal: what was found in a sentence, one table, and what else one has to know."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from oscope.cli.views.columns import measurement_columns
from oscope.cli.views.spread import lines_for
from oscope.figures.answer_text import counted
from oscope.model import formatting
from oscope.programs.bisection import Bisection
from oscope.programs.export import cell
from oscope.programs.findings import Findings
from oscope.report.terminal import aligned, print_columns, print_prose, table_room, table_width, without

MOST_SENTENCES = 12
LONGEST_NAME = 40
HEADINGS = {
    "time_ns": "time",
    "cpu_ns": "CPU time",
    "user_ns": "user",
    "system_ns": "system",
    "max_rss_bytes": "max RSS",
}


def print_findings(findings: Findings, out: Console) -> None:
    """Print the sentences, the table and the notes."""
    sentences = findings.sentences
    for sentence in sentences[:MOST_SENTENCES]:
        print_prose(sentence, out, style="bold")
    if len(sentences) > MOST_SENTENCES:
        print_prose(f"{len(sentences) - MOST_SENTENCES} more comparisons: --export has them all", out)
    out.print()
    shown, hidden = bench_columns(findings, table_room(out))
    print_columns(shown, out)
    if hidden:
        print_prose(without(hidden), out, style="dim")
    if out.is_terminal:
        # What reads a pipe finds the table, and no drawing in it.
        for line in ("", *lines_for(findings, out.width, out.encoding), ""):
            out.print(Text(line), soft_wrap=True)
    for row in findings.rows:
        if row.point.skipped is not None:
            runs = len(row.point)
            what = f"stopped after {counted(runs, 'run')}" if runs else "not measured"
            print_prose(f"{what}: {row.name}: {row.point.skipped}", out)
    for note in findings.notes:
        print_prose(f"note: {note}", out)


def print_bisection(bisection: Bisection, sentences: Sequence[str], out: Console) -> None:
    """Print what a bisection found, a row for each commit that was measured or skipped, and what they are."""
    for sentence in sentences[:1]:
        print_prose(sentence, out, style="bold")
    for sentence in sentences[1:]:
        print_prose(sentence, out)
    out.print()
    verdicts = {at: bisection.verdict(at) for at in {each.position for each in bisection.readings}}
    verdicts |= {0: "first end", bisection.commits: "last end"} | dict.fromkeys(bisection.skipped, "skipped")
    rows = [(bisection.line[at], verdict) for at, verdict in sorted(verdicts.items())]
    columns = [
        ["commit", *(each.short for each, _ in rows)],
        ["measured", *(verdict for _, verdict in rows)],
        ["subject", *(each.subject for each, _ in rows)],
    ]
    print_columns(columns, out, wrap_last=True)


def bench_columns(findings: Findings, width: int) -> tuple[list[list[str]], list[str]]:
    """Return the columns of the table, and the headings of those that found no room in `width`.

    Command, parameters, the figure and its interval are there even where they are wider. Of the others the
    number of runs gets room first, then each that still fits; their order in the table stays.
    """
    kept, further = _columns(findings)
    *others, count = further
    chosen: list[list[str]] = []
    for column in (count, *others):
        if table_width([*kept, *chosen, column]) <= width:
            chosen.append(column)
    shown = [column for column in further if column in chosen]
    return [*kept, *shown], [column[0].strip() for column in further if column not in chosen]


def _columns(findings: Findings) -> tuple[list[list[str]], list[list[str]]]:
    """Return the columns that always stay, and the others, the number of runs last."""
    rows = [row for row in findings.rows if row.summary is not None]
    summaries = [row.summary for row in rows if row.summary is not None]
    experiment = findings.experiment
    parameters = dict.fromkeys(name for row in rows for name in row.parameters)
    columns = [[findings.subject, *(_cut(row.command) for row in rows)]]
    columns += [
        [name, *(str(row.parameters.get(name, formatting.MISSING)) for row in rows)] for name in parameters
    ]
    columns += measurement_columns(findings.metric, summaries, experiment.metrics[findings.metric].shown_unit)
    further = []
    for name in findings.table:
        if name != findings.metric and any(row.medians[name] is not None for row in rows):
            unit = experiment.metrics[name].shown_unit
            further.append(aligned([HEADINGS[name], *(cell(name, row.medians[name], unit) for row in rows)]))
    further.append(aligned(["n", *(formatting.format_count(summary.n) for summary in summaries)]))
    return columns, further


def _cut(name: str) -> str:
    """Return a command's name in the room that a table has for it: its end differs more often."""
    return name if len(name) <= LONGEST_NAME else f"{name[:15]}…{name[len(name) - LONGEST_NAME + 16 :]}"
