"""What several answers of this lab judge."""

from __future__ import annotations

from oscope.figures.analysed import Analysed, label, measured
from oscope.model.samples import ExperimentResults, PointSamples


def judged_points(results: Analysed) -> list[tuple[ExperimentResults, PointSamples, str, str]]:
    """Return what is asked for its variation, with metric and name: the calls and fork, as the document."""
    found = []
    cost, create = results.get("syscall.cost"), results.get("process.create")
    if cost is not None:
        found += [
            (cost, point, "time_ns", label(cost, point.factors, ("call", "style"))) for point in cost.points
        ]
    if create is not None:
        names = create.varied() or ("how",)
        for point in create.points:
            if point.factors.get("how") == "fork":
                where = label(create, point.factors, names)
                found += [(create, point, f"{who}_ns", f"{where}, {who}") for who in ("child", "parent")]
    return [each for each in found if len(measured(each[1], each[2])[0])]
