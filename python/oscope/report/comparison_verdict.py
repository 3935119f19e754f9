"""What all rows of a comparison say together, in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from oscope.model import formatting
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_share
from oscope.statistics import ComparedMetric, Comparison
from oscope.statistics.advice import beyond_blocks, of_imports
from oscope.statistics.compared import LARGEST_RATIO
from oscope.statistics.comparison_text import LARGE, factor_text

SMALLEST_SHARE = 0.0001
"""Below it the share that would have been found is not written out."""
SMALL = 0.1
"""Below it a share is not written as a factor, which would be 1.0."""
MORE_SAMPLES = "take more: --reps, or a longer --budget"


def verdict(comparison: Comparison, first: ExperimentResults | None = None, more: str = MORE_SAMPLES) -> str:
    """Say in one sentence what all rows together say: how many differ, do not differ, or cannot be judged.

    `more` says how more samples are taken, unless the `first` side comes from another tool.
    """
    imported = None if first is None else of_imports([first])
    more = imported or more
    rows, threshold = comparison.rows, format_share(comparison.threshold)
    differ, alike, inconclusive = (
        [row for row in rows if row.different == answer] for answer in ("yes", "no", "cannot tell")
    )
    parts = []

    def would_be_found(some: Sequence[ComparedMetric]) -> str:
        beyond = None if first is None or imported else beyond_blocks(some, first)
        return _would_be_found(some, more, beyond)

    if differ:
        matter = sum(row.matters == "yes" for row in differ)
        parts.append(f"{len(differ)} of {len(rows)} differ, {matter} by more than {threshold}")
    if open_rows := sum(row.matters == "cannot tell" for row in differ):
        parts.append(f"cannot tell of {open_rows} of them whether by more than {threshold}")
    if alike:
        parts.append(f"no difference found in {len(alike)} of {len(rows)}{would_be_found(alike)}")
    if inconclusive:
        found = would_be_found(inconclusive)
        if all(row.is_of_single_blocks for row in inconclusive):
            one = "reading" if all(row.n_a == row.n_b == 1 for row in inconclusive) else "process"
            found = f" (one {one} a side shows none; {more})"
        parts.append(f"undecided in {len(inconclusive)} of {len(rows)}{found}")
    return "; ".join(parts)


def _would_be_found(rows: Sequence[ComparedMetric], more: str, beyond: str | None) -> str:
    """Say how large a difference would have been found, or that the samples are too few; empty if unknown.

    `more` is how more samples are taken, `beyond` what it takes where these do not help.
    """
    # Of rows that are identical in every sample, 0 says nothing of how much would have been found.
    sizes = [row.detectable for row in rows if isfinite(row.detectable) and row.detectable > 0]
    if not sizes:
        return ""
    ends = min(sizes), max(sizes)
    lacking = sum(not isfinite(row.detectable) for row in rows)
    where = f" in {len(rows) - lacking} of them" if lacking else ""
    if ends[1] < LARGE:
        return f" (a difference of {_span(map(detectable_text, ends))} would have been found{where})"
    if ends[0] < SMALL:
        span = f"{detectable_text(ends[0])} to a factor of {factor_text(ends[1])}"
        return f" (a difference of {span} would have been found{where}; {beyond or more})"
    span = _span(map(factor_text, ends))
    if beyond:
        return f" (none below a factor of {span} would have been found{where}; {beyond})"
    return f" (too few samples to see one below a factor of {span}{where}; {more})"


def _span(ends: Iterable[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


def detectable_text(share: float, *, plain: bool = False) -> str:
    """Write a minimum detectable effect as per cent within bounds, or `plain` as a share."""
    if plain:
        # Where almost nothing is known it is too large to be written out.
        return f"{share:.3g}" if share > LARGEST_RATIO else formatting.format_value(share, share, "")
    if 0 < share < SMALLEST_SHARE:
        return f"less than {format_share(SMALLEST_SHARE)}"
    return f">{LARGEST_RATIO * 100} %" if share > LARGEST_RATIO else formatting.format_share(share)
