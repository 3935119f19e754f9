"""Figures of the document, cited as its: for shape and order of magnitude, never targets.

They are means of 5 runs of 2^20 sets in 1 GiB with the footprint `first64th`, on a virtual machine with 2 GiB
of memory and Linux 4.19.
"""

from __future__ import annotations

from collections.abc import Mapping

SETS = 1 << 20
WHERE = "The document's figures are of another machine, with 1 048 576 sets, and with first64th."

PATTERN: Mapping[str, Mapping[str, float]] = {
    "seq": {
        "utime_s": 3.317,
        "stime_s": 0.006,
        "minflt": 4113.6,
        "majflt": 0.0,
        "maxrss_kib": 16637.6,
        "l1d_read_access": 7521439271.6,
        "l1d_write_access": 1077936131.0,
        "l1d_read_miss": 289466866.8,
        "dtlb_read_miss": 99193.4,
        "dtlb_write_miss": 32087.4,
    },
    "random": {
        "utime_s": 4.827,
        "stime_s": 0.008,
        "minflt": 7336.6,
        "majflt": 0.0,
        "maxrss_kib": 16744.0,
        "l1d_read_access": 7521442554.2,
        "l1d_write_access": 1077936131.0,
        "l1d_read_miss": 826536782.8,
        "dtlb_read_miss": 1551880.8,
        "dtlb_write_miss": 737437.8,
    },
}
"""Figure 2 by pattern, anonymous memory."""

MAPPING: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("private", "seq"): {"init_maxrss_kib": 17540.8, "maxrss_kib": 16658.4, "inblock": 0.0, "oublock": 0.0},
    ("private", "random"): {
        "init_maxrss_kib": 17545.6,
        "maxrss_kib": 16816.0,
        "inblock": 0.0,
        "oublock": 0.0,
    },
    ("shared", "seq"): {"init_maxrss_kib": 17550.4, "maxrss_kib": 16630.4, "inblock": 0.0, "oublock": 6566.4},
    ("shared", "random"): {
        "init_maxrss_kib": 17516.8,
        "maxrss_kib": 16839.2,
        "inblock": 0.0,
        "oublock": 6566.4,
    },
}
"""Figure 3 by mapping and pattern; where the document says init, `init_` stands before the name."""

SYNCED_OUBLOCK = 2064320.0
"""Figure 4: blocks written while a shared mapping of 1 GiB is set and synchronised."""
FUNCTION_OUBLOCK = 32832.0
"""Figure 6: blocks that its function writes in a shared mapping. Figure 3 has a fifth of it, from 5 runs."""
POPULATED_MAXRSS_KIB = 1066060.0
"""Figure 4: high-water mark after populating 1 GiB."""

PRESSURE: Mapping[str, Mapping[str, float]] = {
    "none": {"stime_s": 0.0, "minflt": 10.2, "majflt": 0.0, "inblock": 0.0, "oublock": 0.0},
    "compete": {"stime_s": 0.101, "minflt": 19.8, "majflt": 16.2, "inblock": 1737.6, "oublock": 0.0},
}
"""Figure 5 by pressure, anonymous memory at random."""
