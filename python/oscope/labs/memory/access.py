"""Quantities of `memory.access`, for a working set, and the figures of the original report for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oscope import questions as q
from oscope.originals import memory as reference
from oscope.questions.original_figures import Known

NEAR = 0.02
"""Share within which a count is taken for what arithmetic gives."""
TICKS = "Most kernels separate user and system time by ticks of 1 to 10 ms, so that times of a few are rough."


def sets(point: q.PointSamples) -> int:
    """Return how many sets were walked."""
    return int(point.factors["sets"])


def each_set(name: str, key: str, unit: str = "", factor: float = 1.0) -> q.Quantity:
    """Return a metric over the number of sets, times `factor`."""
    return q.scaled(name, unit, key, lambda point: factor / sets(point))


TIME = q.plain("time of a set", "set_ns", "ns")
RESOURCES = (
    each_set("user time of a set", "utime_s", "ns", 1e9),
    each_set("system time of a set", "stime_s", "ns", 1e9),
    q.plain("minor faults (minflt)", "minflt"),
    q.plain("major faults (majflt)", "majflt"),
    q.plain("growth of resident memory (maxrss)", "maxrss_kib", "KiB"),
    q.plain("blocks read (inblock)", "inblock"),
    q.plain("blocks written (oublock)", "oublock"),
)
RESIDENT = q.plain("resident memory of the mapping", "resident_kib", "KiB")


FAULTS_EACH_PAGE = q.over_metric("minor faults for a page mapped", "minflt", "touched_pages")


def walked(points: Iterable[q.PointSamples | q.Point]) -> str:
    """Say how many sets were walked, in how much memory; the original report's beside them."""
    samples = [each.samples if isinstance(each, q.Point) else each for each in points]
    counts = {sets(point) for point in samples}
    sizes = {int(point.factors["size"]) for point in samples}
    within = q.listed([q.format_bytes(size) for size in sorted(sizes)])
    here = f"{q.listed([q.plain_number(count) for count in sorted(counts)])} sets are walked in {within}"
    if counts == {reference.SETS} and sizes == {reference.SIZE}:
        return f"Here, as in the original report, {here}."
    cited = f"{q.plain_number(reference.SETS)} in {q.format_bytes(reference.SIZE)}"
    return f"Here {here}, in the original report {cited}."


def cite(figures: Mapping[str, Mapping[str, Known]], quantity: q.Quantity, level: q.Level) -> str:
    """Return the original report's figure of a quantity at a level, its times and events for a set."""
    known = figures.get(str(level), {}).get(quantity.key)
    if known is None:
        return q.MISSING
    if quantity.key.endswith("_s"):
        return known.text("ns", 1e9 / reference.SETS)
    if quantity.key.startswith(("l1d_", "dtlb_")):
        return known.text("", 1 / reference.SETS)
    return known.text(quantity.unit)
