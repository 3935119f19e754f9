"""Several tests at once: which belong together, and what their p become.

The metric that an experiment is about, its headline, is one family over all points: Holm's correction keeps
the chance of any false "yes" among them at 5 %. The other metrics are looked through: of those that are
reported to differ, 5 % do not (Benjamini and Hochberg). What is one quantity in several units is one test.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import scipy

from oscope.model.samples import Floats

_TIME = "time"
_QUANTITIES: Mapping[str, str] = {
    **dict.fromkeys(("time_ns", "time_s", "cycles"), _TIME),
    # Each is a fixed amount of work over the time.
    **dict.fromkeys(("throughput", "bytes_per_s", "calls_per_s", "faults_per_s"), _TIME),
    **{f"{whose}_{unit}": whose for whose in ("child", "parent", "total") for unit in ("ns", "cycles")},
}


def quantity(metric: str) -> str:
    """Return the quantity of a metric; the same for a time, its cycles, and the speed it comes to."""
    return _QUANTITIES.get(metric, metric)


def one_of_each_quantity(metrics: Iterable[str], headline: str) -> dict[str, str]:
    """Return the metric that stands for each quantity: the headline for its own, else the first of it."""
    found: dict[str, str] = {}
    for name in metrics:
        if name == headline:
            found[quantity(name)] = name
        else:
            found.setdefault(quantity(name), name)
    return found


def holm(p: Floats) -> Floats:
    """Correct p values for having made all these tests (Holm, Scandinavian Journal of Statistics 6, 1979).

    NaN is of no test: it stays, and does not count.
    """
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]
    raised = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
    corrected = np.full(len(p), np.nan)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def false_discoveries(p: Sequence[float] | Floats) -> Floats:
    """Correct p values so that of those below a level at most that share are false.

    Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995. NaN is of no test: it stays,
    and does not count.
    """
    corrected = np.array(p, dtype=float)
    tested = ~np.isnan(corrected)
    if tested.any():
        corrected[tested] = scipy.stats.false_discovery_control(corrected[tested], method="bh")
    return corrected


def bonferroni(p: float, tests: int) -> float:
    """Correct the p of the most striking of several tests for their number (Bonferroni); NaN stays NaN."""
    return float(np.minimum(1.0, tests * p))


def correct(p: Sequence[float], tests: Sequence[Hashable], headline: Sequence[bool], beside: int) -> Floats:
    """Return the corrected p of each row; rows with equal `tests` are one test, whose p is the first row's.

    `headline` says which rows tell the headline; `beside` is how many such tests are made elsewhere, which
    count as if nothing were found there.
    """
    corrected = np.empty(len(p))
    for first in (True, False):
        rows = [row for row, own in enumerate(headline) if own == first]
        number = {test: i for i, test in enumerate(dict.fromkeys(tests[row] for row in rows))}
        if not number:
            continue
        of_test = np.ones(len(number) + (beside if first else 0))
        for row in reversed(rows):
            of_test[number[tests[row]]] = p[row]
        raised = holm(of_test) if first else false_discoveries(of_test)
        for row in rows:
            # Another unit's own p may be larger, by the steps of its clock.
            corrected[row] = np.maximum(p[row], raised[number[tests[row]]])
    return corrected
