"""What several answers of this lab judge: the calls and fork, as the original report does."""

from __future__ import annotations

from oscope.figures.analysed import Analysed, measured
from oscope.labs.engine.run import Point, Run


def judged_points(results: Analysed) -> list[tuple[str, Point]]:
    """Return the points whose variation is asked for, by name."""
    found: list[tuple[str, Point]] = []
    cost, create = Run.of(results, "syscall.cost"), Run.of(results, "process.create")
    if cost is not None:
        found += [(point.label(("call", "style")), point) for point in cost.points("time_ns")]
    if create is not None:
        names = create.experiment.varied() or ("how",)
        sides = {who: create.points(f"{who}_ns", how="fork") for who in ("child", "parent")}
        for each in create.experiment.points:
            for who, points in sides.items():
                here = [point for point in points if point.samples is each]
                found += [(f"{point.label(names)}, {who}", point) for point in here]
    return [(name, point) for name, point in found if len(measured(point.samples, point.metric)[0])]
