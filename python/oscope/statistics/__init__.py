"""Pure statistics: arrays in, frozen dataclasses out, the same for equal input."""

from oscope.statistics.attribution import Attribution, Cause, attribute
from oscope.statistics.compare import (
    Comparison,
    compare_pairs,
    compare_points,
    compare_results,
    compare_within,
)
from oscope.statistics.compared import ComparedMetric
from oscope.statistics.shape import Drift, Mode
from oscope.statistics.summary import Summary, summarise, summarise_point
from oscope.statistics.tail_samples import SlowSample

__all__ = [
    "Attribution",
    "Cause",
    "ComparedMetric",
    "Comparison",
    "Drift",
    "Mode",
    "SlowSample",
    "Summary",
    "attribute",
    "compare_pairs",
    "compare_points",
    "compare_results",
    "compare_within",
    "summarise",
    "summarise_point",
]
