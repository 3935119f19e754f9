"""Beside the local file system, without delay: what the way over user space and the network costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.tables import shared_scale
from oscope.figures.words import listed, median
from oscope.labs.curve import ratio_text
from oscope.labs.fs import LOCAL, OSCOPE, SSHFS
from oscope.labs.fs.points import NAMES, Shown, cautioned, delay_of
from oscope.labs.fs.times import mounted
from oscope.labs.transfer.points import missing, verdict
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING
from oscope.model.samples import ExperimentResults
from oscope.statistics import ComparedMetric

EXPERIMENTS = ("fs.here", "fs.compare")
BASES = (LOCAL, SSHFS)
"""What oscope-fs is held against here."""


def sections(results: Analysed) -> list[Section]:
    """Return the comparison on this machine and that in the guest, as far as they were measured."""
    made = [_section(results, found) for name in EXPERIMENTS if (found := results.get(name)) is not None]
    return [section for section in made if section is not None]


def title(experiment: ExperimentResults) -> str:
    """Name the place: each has a kernel of its own."""
    where = "in a guest" if "guest" in experiment.environment else "on this machine"
    return f"Beside the local file system, {where} ({experiment.experiment})"


def _section(results: Analysed, experiment: ExperimentResults) -> Section | None:
    shown = Shown.of(experiment)
    rows = {base: _without_delay(shown.against(base, OSCOPE)) for base in BASES}
    own = experiment.experiment == EXPERIMENTS[0]
    if not rows[LOCAL]:
        gaps = missing(experiment)
        return Section(title(experiment), "", missing=gaps) if gaps and own else None
    return Section(
        title=title(experiment),
        answer=cautioned(" ".join([*_beside(rows[LOCAL]), *_over_sshfs(rows[SSHFS])]), experiment),
        text=[
            (
                "Without delay, over a virtual Ethernet between two namespaces: client, server and ssh at "
                "both ends share this machine's processors, which separate machines would not. Where the "
                "kernel has FUSE passthrough (Linux 6.9), reads and writes of an open file go past "
                "oscope-fs; the notes tell whether it had."
            ),
            *shown.told,
        ],
        tables=[_table(results, shown, rows), *(mounted(shown) if own else [])],
        figures=[_figure(results, shown)],
        missing=missing(experiment) if own else "",
    )


def _without_delay(rows: Sequence[ComparedMetric]) -> list[ComparedMetric]:
    return [row for row in rows if delay_of(row.factors) == 0]


def _beside(rows: Sequence[ComparedMetric]) -> list[str]:
    """Name where oscope-fs comes nearest to the local file system, and where it is furthest from it."""
    kept = [row for row in rows if np.isfinite(row.ratio)]
    alike = [str(row.factors["operation"]) for row in kept if row.different != "yes"]
    slower = sorted((row for row in kept if row.different == "yes"), key=lambda row: row.ratio)
    said = [f"Not found different from the local file system: {listed(alike)}."] if alike else []
    if not slower:
        return said
    least, most = slower[0], slower[-1]
    text = f"oscope-fs takes {ratio_text(least)} times as long at {least.factors['operation']}"
    if most is not least:
        text += f", and most, {ratio_text(most)} times, at {most.factors['operation']}"
    return [*said, f"Held against the local file system, {text}."]


def _over_sshfs(rows: Sequence[ComparedMetric]) -> list[str]:
    """Say where oscope-fs is found faster than sshfs, and where it is not."""
    faster = [str(row.factors["operation"]) for row in rows if row.different == "yes" and row.ratio < 1]
    slower = [str(row.factors["operation"]) for row in rows if row.different == "yes" and row.ratio > 1]
    said = [f"faster at {listed(faster)}"] if faster else []
    said += [f"slower at {listed(slower)}"] if slower else []
    return [f"Against sshfs oscope-fs is found {' and '.join(said)}."] if said else []


def _table(results: Analysed, shown: Shown, rows: Mapping[str, Sequence[ComparedMetric]]) -> Table:
    lines = []
    for operation in shown.operations:
        found = [shown.summary(results, system, operation, 0.0) for system in shown.systems]
        cells = [MISSING if one is None else median(one, shown.unit) for one in found]
        held = [
            cell
            for base in BASES
            for cell in verdict(
                next((row for row in rows[base] if row.factors["operation"] == operation), None)
            )[:2]
        ]
        lines.append([operation, *cells, *held])
    heads = [head for base in BASES for head in (f"oscope-fs / {NAMES[base]} (95 %)", "different")]
    columns = ["operation", *(f"{NAMES[system]} (95 %)" for system in shown.systems), *heads]
    note = "Medians with their 95 % intervals. Ratios paired by block, p corrected (Holm)."
    return Table(f"Time without delay ({shown.experiment.experiment})", columns, lines, frozenset(), note)


def _figure(results: Analysed, shown: Shown) -> Figure:
    found = {
        (system, operation): one
        for system in shown.systems
        for operation in shown.operations
        if (one := shown.summary(results, system, operation, 0.0)) is not None
    }
    scale = shared_scale(list(found.values()), shown.unit)
    series: dict[str, list[plots.Dot]] = {}
    for (system, operation), one in found.items():
        ends = one.ci95 and (one.ci95[0] / scale.factor, one.ci95[1] / scale.factor)
        dot = plots.Dot(operation, one.median / scale.factor, ends, np.zeros(0))
        series.setdefault(NAMES[system], []).append(dot)
    return plots.dots(
        f"Time without delay ({shown.experiment.experiment})",
        f"time [{scale.unit}]",
        series,
        "Medians with their 95 % intervals.",
    )
