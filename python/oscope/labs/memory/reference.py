"""Figures of the original report, cited as its own: for shape and order of magnitude, never targets.

They are means and standard deviations of 5 runs of 2^20 sets in 1 GiB with the footprint `first64th`, on a
virtual machine with 2 GiB of memory and Linux 4.19.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oscope.model.formatting import Scale

SETS, SIZE = 1 << 20, 1 << 30
WHERE = (
    "The original report's figures are means of 5 runs with their standard deviations, of another machine, "
    "with 1 048 576 sets in 1 GiB, and with first64th."
)


@dataclass(frozen=True)
class Known:
    """A figure of the original report."""

    mean: float
    deviation: float = 0.0
    """Standard deviation of its 5 runs; 0 where all had the same."""

    def text(self, unit: str = "", factor: float = 1.0) -> str:
        """Return `3.163 ± 0.005 µs`: mean and standard deviation times `factor`, which makes them `unit`."""
        mean, deviation = self.mean * factor, self.deviation * factor
        scale = Scale.choose([mean], [deviation], unit)
        if not deviation:
            return scale.with_unit(mean)
        return " ".join(filter(None, [f"{scale.text(mean)} ± {scale.text(deviation)}", scale.unit]))


PATTERN: Mapping[str, Mapping[str, Known]] = {
    "seq": {
        "utime_s": Known(3.317, 0.005),
        "stime_s": Known(0.006, 0.005),
        "minflt": Known(4113.6, 0.49),
        "majflt": Known(0.0),
        "maxrss_kib": Known(16637.6, 42.828),
        "inblock": Known(0.0),
        "oublock": Known(0.0),
        "l1d_read_access": Known(7521439271.6, 227.93),
        "l1d_write_access": Known(1077936131.0),
        "l1d_read_miss": Known(289466866.8, 198047.028),
        "dtlb_read_miss": Known(99193.4, 717.22),
        "dtlb_write_miss": Known(32087.4, 433.014),
    },
    "random": {
        "utime_s": Known(4.827, 0.003),
        "stime_s": Known(0.008, 0.001),
        "minflt": Known(7336.6, 0.49),
        "majflt": Known(0.0),
        "maxrss_kib": Known(16744.0, 41.8),
        "inblock": Known(0.0),
        "oublock": Known(0.0),
        "l1d_read_access": Known(7521442554.2, 142.106),
        "l1d_write_access": Known(1077936131.0),
        "l1d_read_miss": Known(826536782.8, 393229.625),
        "dtlb_read_miss": Known(1551880.8, 1346.083),
        "dtlb_write_miss": Known(737437.8, 736.102),
    },
}
"""Figure 2 by pattern, anonymous memory."""

_NOTHING = dict.fromkeys(("init_inblock", "init_oublock", "inblock"), Known(0.0))
FIFTH = Known(6566.4, 13132.8)
"""Blocks written by the function in a shared mapping: charged in one run of five."""

MAPPING: Mapping[tuple[str, str], Mapping[str, Known]] = {
    ("private", "seq"): {
        **_NOTHING,
        "init_maxrss_kib": Known(17540.8, 17.046),
        "maxrss_kib": Known(16658.4, 45.789),
        "oublock": Known(0.0),
    },
    ("private", "random"): {
        **_NOTHING,
        "init_maxrss_kib": Known(17545.6, 18.693),
        "maxrss_kib": Known(16816.0, 52.642),
        "oublock": Known(0.0),
    },
    ("shared", "seq"): {
        **_NOTHING,
        "init_maxrss_kib": Known(17550.4, 23.269),
        "maxrss_kib": Known(16630.4, 45.438),
        "oublock": FIFTH,
    },
    ("shared", "random"): {
        **_NOTHING,
        "init_maxrss_kib": Known(17516.8, 15.052),
        "maxrss_kib": Known(16839.2, 19.823),
        "oublock": FIFTH,
    },
}
"""Figure 3 by mapping and pattern; where the original report says init, `init_` stands before the name."""

PREPARED: Mapping[tuple[str, bool, str], Mapping[str, Known]] = {
    ("private", True, "none"): {
        "init_maxrss_kib": Known(1066060.0, 106.883),
        "init_inblock": Known(509718.4, 224734.764),
        "init_oublock": Known(0.0),
        "inblock": Known(99.2, 198.4),
    },
    ("shared", True, "none"): {
        "init_maxrss_kib": Known(1064109.6, 274.14),
        "init_inblock": Known(80596.8, 161193.6),
        "init_oublock": Known(0.0),
        "maxrss_kib": Known(2334.4, 259.2),
        "inblock": Known(0.0),
        "oublock": FIFTH,
    },
    ("shared", False, "memset+msync"): {
        "init_maxrss_kib": Known(1066129.6, 31.455),
        "init_inblock": Known(0.0),
        "init_oublock": Known(2064320.0),
        "maxrss_kib": Known(320.8, 34.26),
        "inblock": Known(0.0),
    },
}
"""Figure 4 by mapping, populate and initialise, sequential.

The scan has lost the headings of its columns, and some cells. Which column is which follows from the text and
the figures: only memset with msync writes at the initialisation, only a shared mapping is charged blocks.
"""

FUNCTION_OUBLOCK = 32832.0
"""Figure 6: blocks that its function writes in a shared mapping. Figure 3 has a fifth of it, from 5 runs."""

PRESSURE: Mapping[str, Mapping[str, Known]] = {
    "none": {
        "stime_s": Known(0.0, 0.001),
        "minflt": Known(10.2, 0.98),
        "majflt": Known(0.0),
        "inblock": Known(0.0),
        "oublock": Known(0.0),
        "maxrss_kib": Known(0.0),
        "l1d_read_access": Known(7521437569.6, 343.389),
        "l1d_write_access": Known(1077936131.0),
        "l1d_read_miss": Known(816180244.6, 1026125.094),
        "dtlb_read_miss": Known(1495066.6, 3024.35),
    },
    "compete": {
        "utime_s": Known(6.811, 0.164),
        "stime_s": Known(0.101, 0.13),
        "minflt": Known(19.8, 3.059),
        "majflt": Known(16.2, 2.482),
        "inblock": Known(1737.6, 734.998),
        "oublock": Known(0.0),
        "maxrss_kib": Known(674.4, 121.342),
        "l1d_read_access": Known(7521457650.4, 3348.175),
        "l1d_write_access": Known(1077936131.0),
        "l1d_read_miss": Known(849878078.0, 3046793.999),
        "dtlb_read_miss": Known(1660888.6, 24995.351),
        "dtlb_write_miss": Known(779031.0, 11851.924),
    },
}
"""Figure 5 by pressure, anonymous memory at random. The scan has lost the user time without pressure."""
