"""Two runs side by side: the comparison that `oscope compare` prints, with a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite

import numpy as np

from oscope.analysis.earlier_runs import earlier_runs_in
from oscope.analysis.run_history import environment_changes
from oscope.analysis.side_warnings import side_warnings
from oscope.analysis.waiting import waiting_note
from oscope.figures import plots
from oscope.figures.analysed import label
from oscope.model.document import Figure, Table
from oscope.model.errors import UsageError
from oscope.model.factors import Level
from oscope.model.samples import ExperimentResults
from oscope.model.units import parse_share
from oscope.report import theme
from oscope.report.comparison import (
    common_levels,
    comparison_table,
    differences,
    each_quantity_once,
    intervals,
    remarks,
)
from oscope.report.comparison_verdict import verdict
from oscope.statistics import Comparison, compare_results
from oscope.statistics.machines import KERNEL, MACHINE
from oscope.storage.store import Store

THRESHOLD = "1%"
"""As of `oscope compare`."""
MOST_ROWS = 40
MORE_SAMPLES = "take more samples"
NOTHING = np.zeros(0)
EQUAL_LINE = {"color": theme.SURFACES["light"]["reference"], "width": 1.5, "dash": "dot"}
"""Its colour can be seen on either background."""


@dataclass(frozen=True)
class Request:
    """What a page is asked to compare."""

    a: str = ""
    b: str = ""
    threshold: str = THRESHOLD
    allow: tuple[str, ...] = ()

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Request:
        """Return what a query asks for."""
        return cls(
            query.get("a", "").strip(),
            query.get("b", "").strip(),
            query.get("threshold", "").strip() or THRESHOLD,
            tuple(name for name in (MACHINE, KERNEL) if query.get(name)),
        )


@dataclass(frozen=True)
class Compared:
    """One experiment of both runs, or why it cannot be compared."""

    name: str
    refused: str = ""
    title: str = ""
    same: str = ""
    """What all rows have in common, `command=prog, …`."""
    verdict: str = ""
    sentences: Sequence[str] = ()
    table: Table | None = None
    figure: Figure | None = None
    caveats: Sequence[str] = ()
    environment: Table | None = None
    """What is recorded of both environments and differs."""


def compare_runs(store: Store, request: Request) -> list[Compared]:
    """Return each experiment that both runs have, compared. Raises UsageError where they have none."""
    if request.a == request.b:
        raise UsageError("A and B are the same run", remedy="choose another one for A or B")
    a, b = (store.results(run, columns="metrics") for run in (request.a, request.b))
    threshold = parse_share(request.threshold)
    pairs = [(each, other) for each in a.experiments if (other := b.get(each.experiment)) is not None]
    if not pairs:
        names = [", ".join(sorted(side.names)) for side in (a, b)]
        raise UsageError(
            f"A has {names[0]}, B has {names[1]}: nothing in common",
            remedy="choose runs of the same experiment",
        )
    return [_compare(store, each, other, request, threshold) for each, other in pairs]


def _compare(
    store: Store,
    a: ExperimentResults,
    b: ExperimentResults,
    request: Request,
    threshold: float,
) -> Compared:
    try:
        found = compare_results(
            a, b, threshold=threshold, allow=request.allow, earlier=earlier_runs_in(store, a, b)
        )
    except UsageError as error:
        if "--allow" not in (error.remedy or ""):
            return Compared(a.experiment, str(error))
        return Compared(a.experiment, f"{error.message}: tick the box above, if that is the question")
    csv = f"with oscope compare {a.run_id} {b.run_id} --format csv"
    found, others = each_quantity_once(a, found, csv)
    known = intervals(a, b, found)
    warned = side_warnings([[a], [b]], partial(waiting_note, instead="the metric cpu_ns has"))
    changed = environment_changes(a, b)
    rows = [[name, *pair] for name, pair in changed.items()]
    return Compared(
        name=a.experiment,
        title=f"B ({found.label_b}) against A ({found.label_a})",
        same=common_levels(a, found),
        verdict=verdict(found, a, MORE_SAMPLES),
        sentences=list(differences(a, found, known)),
        table=replace(comparison_table(a, found, known), title="", note=""),
        figure=_figure(a, found),
        caveats=(*warned, *remarks(found), *found.caveats, *others),
        environment=Table("What differs between the environments", ["", "A", "B"], rows) if rows else None,
    )


def _varied(found: Comparison) -> list[str]:
    rows = found.rows
    return [name for name in rows[0].factors if len({row.factors.get(name) for row in rows}) > 1]


def _name(experiment: ExperimentResults, found: Comparison, factors: Mapping[str, Level], metric: str) -> str:
    return label(experiment, factors, _varied(found)) or metric


def _figure(experiment: ExperimentResults, found: Comparison) -> Figure | None:
    """Return B over A of the headline at each point, with its interval, coloured by the verdict."""
    rows = [row for row in found.rows if row.metric == experiment.headline and isfinite(row.ratio)][
        :MOST_ROWS
    ]
    if not rows:
        return None
    series: dict[str, list[plots.Dot]] = {}
    for row in rows:
        name = _name(experiment, found, row.factors, row.metric)
        dot = plots.Dot(name, row.ratio, row.ci95, NOTHING)
        series.setdefault(_answer(row.different, row.matters), []).append(dot)
    drawn = plots.dots(f"{experiment.headline}: B over A", "B/A, with its 95 % interval", series)
    equal = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": EQUAL_LINE}
    return replace(drawn, layout={**drawn.layout, "shapes": [equal]}, note="Dotted: equal.")


def _answer(different: str, matters: str) -> str:
    if different != "yes":
        return "no difference" if different == "no" else "cannot tell whether they differ"
    return {"yes": "different, and it matters", "no": "different, too little to matter"}.get(
        matters, "different; whether it matters is open"
    )
