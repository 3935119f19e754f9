"""A bench on a terminal: what was found in a sentence, one table, and what else one has to know."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from oscope.cli.views.columns import measurement_columns
from oscope.cli.views.spread import lines_for
from oscope.model import formatting
from oscope.programs.bisection import Bisection
from oscope.programs.export import about
from oscope.programs.findings import Findings
from oscope.report.terminal import aligned, grid, print_columns, print_prose, table_width

MOST_SENTENCES = 12
LONGEST_NAME = 40
HEADINGS = {"cpu_ns": "CPU time", "user_ns": "user", "system_ns": "system", "max_rss_bytes": "max RSS"}


def print_findings(findings: Findings, out: Console) -> None:
    """Print the sentences, the table and the notes."""
    sentences = findings.sentences
    for sentence in sentences[:MOST_SENTENCES]:
        print_prose(sentence, out, style="bold")
    if len(sentences) > MOST_SENTENCES:
        print_prose(f"{len(sentences) - MOST_SENTENCES} more comparisons: --export has them all", out)
    out.print()
    shown = _columns(findings)
    while table_width(shown) > out.width and len(shown) > 3:
        # The last ones first; the command, its figure and the interval stay.
        shown = shown[:-1]
    out.print(grid(shown))
    if out.is_terminal:
        # What reads a pipe finds the table, and no drawing in it.
        for line in ("", *lines_for(findings, out.width, out.encoding), ""):
            out.print(Text(line), soft_wrap=True)
    for row in findings.rows:
        if row.point.skipped is not None:
            print_prose(f"not measured: {row.name}: {row.point.skipped}", out)
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


def _columns(findings: Findings) -> list[list[str]]:
    rows = [row for row in findings.rows if row.summary is not None]
    summaries = [row.summary for row in rows if row.summary is not None]
    experiment = findings.experiment
    parameters = dict.fromkeys(name for row in rows for name in row.parameters)
    columns = [[findings.subject, *(_cut(row.command) for row in rows)]]
    columns += [
        [name, *(str(row.parameters.get(name, formatting.MISSING)) for row in rows)] for name in parameters
    ]
    columns += measurement_columns(findings.metric, summaries, experiment.metrics[findings.metric].shown_unit)
    for name in findings.table:
        if name != findings.metric and any(row.medians[name] is not None for row in rows):
            unit = experiment.metrics[name].shown_unit
            columns.append(aligned([HEADINGS[name], *(about(row.medians[name], unit) for row in rows)]))
    columns.append(aligned(["n", *(formatting.format_count(summary.n) for summary in summaries)]))
    return columns


def _cut(name: str) -> str:
    """Return a command's name in the room that a table has for it: its end differs more often."""
    return name if len(name) <= LONGEST_NAME else f"{name[:15]}…{name[len(name) - LONGEST_NAME + 16 :]}"
