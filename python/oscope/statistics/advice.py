"""What would show a smaller difference than was found: more blocks, or something else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oscope.model.samples import ExperimentResults
from oscope.statistics.compared import ComparedMetric
from oscope.statistics.comparison_text import interleaved_command
from oscope.statistics.estimating import FEWEST_CLUSTERS


def is_thin(row: ComparedMetric) -> bool:
    """Return whether a side has so few blocks that how they vary was hardly seen."""
    return min(row.clusters_a, row.clusters_b) < FEWEST_CLUSTERS


def beyond_blocks(rows: Sequence[ComparedMetric], first: ExperimentResults) -> str | None:
    """Return what it would take where more blocks of two separate runs do not help; None where they do.

    Separate runs differ by more than their blocks do. With few blocks even that is hardly known.
    """
    if any(map(is_thin, rows)) or not any(row.method.startswith("unpaired") for row in rows):
        return None
    instead = instead_of_blocks(rows, first)
    return f"how much runs differ does not shrink with their blocks: it would take {instead}"


def instead_of_blocks(rows: Sequence[ComparedMetric], first: ExperimentResults) -> str:
    """Return what lowers the minimum detectable effect where blocks do not; `first` is the first side."""
    if not any(row.method.startswith("unpaired") for row in rows):
        return "or a quieter machine"
    return f"a quieter machine, or interleaved sides: {interleaved_command(first)}"


def of_imports(sides: Iterable[ExperimentResults]) -> str | None:
    """Return what lowers the minimum detectable effect of results of other tools; None if one is Oscope's."""
    found = list(sides)
    tools = {(each.environment.get("imported") or {}).get("tool") for each in found}
    if None in tools:
        return None
    named = " and ".join(sorted(map(str, tools)))
    interleaved = interleaved_command(found[0])
    return f"take more with {named} and import them, or measure both sides interleaved: {interleaved}"
