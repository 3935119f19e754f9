"""Separates a change's effect from that of the code's mere layout, by a build with other padding as control.

Where the linker puts a function decides which cache lines and branch-predictor entries it shares. A change
that moves code can so make other code faster or slower by tens of per cent without one instruction more or
less (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009). One
other layout is one draw: it shows that layout can do so much, not that it cannot do more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Literal

from oscope.model import formatting
from oscope.statistics.compared import ComparedMetric

Cause = Literal["none found", "the change", "layout may be all", "cannot tell"]


@dataclass(frozen=True)
class LayoutVerdict:
    """What a difference is put down to."""

    cause: Cause
    layout: float
    """Largest relative change that the interval of the other layout allows; NaN without a ratio."""
    sentence: str


def judge_layout(changed: ComparedMetric, padded: ComparedMetric) -> LayoutVerdict:
    """Judge a change by what another layout of the unchanged code does; both are compared with the same side.

    The change is the cause where its whole interval lies beyond all that the other layout's interval allows:
    it is more than this other layout did, one draw of what layouts do. Layout may be all where the change's
    estimate lies within that. Between these, the answer is "cannot tell".
    """
    largest = max(abs(side - 1) for side in padded.ci95)
    found, most = formatting.format_share(abs(padded.ratio - 1)), formatting.format_share(largest)
    mere = f"other padding alone: {found} (up to {most})"
    if changed.different != "yes":
        return LayoutVerdict("none found", largest, f"no difference to explain; {mere}")
    low, high = changed.ci95
    if isnan(largest) or isnan(low) or isnan(high):
        return LayoutVerdict(
            "cannot tell", largest, "a side is not clearly above 0, so there is no ratio to judge by"
        )
    least = min(abs(low - 1), abs(high - 1)) if (low > 1) == (high > 1) else 0.0
    if least > largest:
        return LayoutVerdict("the change", largest, f"more than this other layout did; {mere}")
    if abs(changed.ratio - 1) <= largest:
        return LayoutVerdict("layout may be all", largest, f"layout alone may do as much; {mere}")
    return LayoutVerdict("cannot tell", largest, f"it may be more than this other layout did, or not; {mere}")
