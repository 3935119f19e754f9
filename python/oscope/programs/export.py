"""The table of a bench as a file: Markdown, CSV, JSON, and the layout of hyperfine's --export-json."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from oscope.figures.analysed import measured
from oscope.model.factors import Level
from oscope.model.formatting import format_interval, format_value
from oscope.model.samples import Floats
from oscope.programs.command import RESERVED, fill
from oscope.programs.findings import SAMPLED, TABLE, Findings, ProgramRow, revisions

Format = Literal["md", "json", "csv"]


def export(findings: Findings, kind: Format) -> bytes:
    """Return the table in this format, with the sentences where the format has room for them."""
    return {"md": _markdown, "json": _json, "csv": _csv}[kind](findings).encode()


def rows(findings: Findings) -> list[dict[str, Any]]:
    """Return a row for each command, in the units of the metrics; None for what was not measured."""
    return [_row(findings, row) for row in findings.rows]


def _row(findings: Findings, row: ProgramRow) -> dict[str, Any]:
    summary = row.summary
    low, high = summary.ci95 if summary and summary.ci95 else (None, None)
    columns = {
        **_revision(findings, row),
        "metric": findings.metric,
        "median": summary.median if summary else None,
        "low95": low,
        "high95": high,
        **{name: row.medians[name] for name in dict.fromkeys((*findings.table, *TABLE))},
        "n": summary.n if summary else 0,
        "skipped": row.point.skipped,
    }
    return {row.subject: row.command, **_parameters(findings, row, columns), **columns}


def _parameters(findings: Findings, row: ProgramRow, columns: Mapping[str, Any]) -> dict[str, Level]:
    """Return the levels of a row by the names of their columns.

    A parameter whose name another column has carries its kind in its name (`factor_n`), as in a frame.
    """
    given = {name for each in findings.rows for name in each.parameters}
    found: dict[str, Level] = {}
    for name, level in row.parameters.items():
        key = name
        while key in columns or (key != name and key in given):
            key = f"factor_{key}"
        found[key] = level
    return found


def _revision(findings: Findings, row: ProgramRow) -> dict[str, Any]:
    """Return what is known of the row's commit; nothing where no revisions were measured."""
    known = revisions(findings.experiment)
    if known is None or row.revision is None:
        return {}
    side = row.revision
    return {"commit": side.commit, "subject": side.subject, "named": side.name, "build": known.build}


def _markdown(findings: Findings) -> str:
    metrics = findings.experiment.metrics
    heading = [
        findings.subject,
        f"median {findings.metric} [95 % interval]",
        *(name.rpartition("_")[0] for name in findings.table),
        "n",
    ]
    lines = [*(f"{sentence}.  " for sentence in findings.sentences), ""]
    lines += [_line(heading), _line(["---", *("---:" for _ in heading[1:])])]
    for row in findings.rows:
        summary = row.summary
        low, high = summary.ci95 if summary and summary.ci95 else (None, None)
        size = (
            format_interval(summary.median, low, high, metrics[findings.metric].shown_unit)
            if summary
            else row.point.skipped
        )
        cells = [
            f"`{row.name}`",
            str(size),
            *(cell(name, row.medians[name], metrics[name].shown_unit) for name in findings.table),
            str(summary.n if summary else 0),
        ]
        lines.append(_line(cells))
    return "\n".join([*lines, "", *(f"{note}.  " for note in findings.notes), ""])


def about(value: float | None, unit: str) -> str:
    """Write a median with three digits or so; nothing where it was not measured."""
    return "not measured" if value is None else format_value(value, 0.01 * abs(value), unit)


def cell(metric: str, value: float | None, unit: str) -> str:
    """Write a median of `metric` for a table; a mode that no tick met may have taken time."""
    return "0 ticks" if value == 0 and metric in SAMPLED else about(value, unit)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _csv(findings: Findings) -> str:
    found = rows(findings)
    names = list(dict.fromkeys(name for row in found for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return out.getvalue()


def _json(findings: Findings) -> str:
    content = {
        "run": findings.experiment.run_id,
        "found": list(findings.sentences),
        "notes": list(findings.notes),
        "commands": rows(findings),
        "units": {
            name: findings.experiment.metrics[name].unit for name in (findings.metric, *findings.table)
        },
        "start_ns": findings.start_ns,
        "shell_ns": findings.shell_ns,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def hyperfine_json(findings: Findings) -> bytes:
    """Return what hyperfine 1.19 writes with --export-json: seconds, one object a command.

    Like there, the times are without the start of a shell where one was used, and there is no memory usage
    where it is not known of every run. Runs of failed samples are not in it.
    """
    metric = "net_ns" if findings.shell_ns is not None else "time_ns"
    results = [_hyperfine(row, metric) for row in findings.rows if len(measured(row.point, metric)[0])]
    return (json.dumps({"results": results}, indent=2, ensure_ascii=False) + "\n").encode()


def _mean_s(values: Floats) -> float | None:
    """Return the mean of nanoseconds, in seconds; None where a run was too short to split its CPU time."""
    return float(np.mean(values)) / 1e9 if np.isfinite(values).all() else None


def _hyperfine(row: ProgramRow, metric: str) -> dict[str, Any]:
    values, keep = measured(row.point, metric)
    times = values / 1e9
    held = {name: str(level) for name, level in row.parameters.items() if name not in RESERVED}
    found: dict[str, Any] = {
        "command": fill(row.command, held),
        "mean": float(np.mean(times)),
        "stddev": float(np.std(times, ddof=1)) if len(times) > 1 else None,
        "median": float(np.median(times)),
        **{name: _mean_s(row.point.metrics[f"{name}_ns"][keep]) for name in ("user", "system")},
        "min": float(np.min(times)),
        "max": float(np.max(times)),
        "times": [float(time) for time in times],
        "exit_codes": [int(code) for code in row.point.metrics["exit_code"][keep]],
    }
    sizes = row.point.metrics["max_rss_bytes"][keep]
    if np.isfinite(sizes).all():
        found["memory_usage_byte"] = [int(size) for size in sizes]
    if row.parameters:
        found["parameters"] = {name: str(level) for name, level in row.parameters.items()}
    return found


def bisection_export(found: Mapping[str, Any], kind: Format) -> bytes:
    """Return what a bisection found (see `Bisection.to_object`), in this format: a row for each commit."""
    if kind == "json":
        return (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode()
    names = ("commit", "subject", "probability", "skipped")
    if kind == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found["commits"])
        return out.getvalue().encode()
    lines = [*(f"{sentence}.  " for sentence in found["sentences"]), ""]
    lines += [_line(list(names)), _line(["---"] * len(names))]
    lines += [
        _line([str("" if row[name] is None else row[name]) for name in names]) for row in found["commits"]
    ]
    return ("\n".join(lines) + "\n").encode()
