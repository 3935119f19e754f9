"""Figure 6 of CS380L lab 2: means and standard deviations of 5 runs, cited as its own."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.questions.original_figures import Known

WRITES = Known(1077936131.0)
NONE = Known(0.0)

POLICY: Mapping[tuple[str, str], Mapping[str, Known]] = {
    ("anonymous", "reclaim-active"): {
        "utime_s": Known(4.824, 0.007),
        "stime_s": Known(0.001, 0.001),
        "minflt": Known(24.2, 1.6),
        "majflt": Known(3.4, 1.744),
        "inblock": Known(500.8, 250.879),
        "oublock": NONE,
        "maxrss_kib": NONE,
        "l1d_read_access": Known(7521438898.8, 127.804),
        "l1d_write_access": WRITES,
        "l1d_read_miss": Known(825365597.8, 1754742.247),
        "rate": Known(0.110),
        "dtlb_read_miss": Known(1509795.6, 4720.234),
        "dtlb_write_miss": Known(723814.6, 2037.219),
    },
    ("anonymous", "own"): {
        "utime_s": Known(4.773, 0.009),
        "stime_s": Known(0.001, 0.001),
        "minflt": Known(22.6, 1.02),
        "majflt": Known(4.2, 0.4),
        "inblock": Known(624.0, 16.0),
        "oublock": NONE,
        "maxrss_kib": NONE,
        "l1d_read_access": Known(7521437634.0, 211.443),
        "l1d_write_access": WRITES,
        "l1d_read_miss": Known(819683681.6, 381926.508),
        "rate": Known(0.109),
        "dtlb_read_miss": Known(1482084.8, 822.343),
        "dtlb_write_miss": Known(712125.2, 1102.349),
    },
    ("private", "reclaim-active"): {
        "utime_s": Known(4.844, 0.005),
        "stime_s": Known(0.0, 0.001),
        "minflt": Known(18.2, 1.47),
        "majflt": Known(10.6, 0.8),
        "inblock": Known(2212.8, 250.93),
        "oublock": NONE,
        "maxrss_kib": Known(149.6, 299.2),
        "l1d_read_access": Known(7521438566.0, 368.873),
        "l1d_write_access": WRITES,
        "l1d_read_miss": Known(828836805.0, 987778.815),
        "rate": Known(0.110),
        "dtlb_read_miss": Known(1521589.6, 2499.976),
        "dtlb_write_miss": Known(729151.2, 1631.806),
    },
    ("private", "own"): {
        "utime_s": Known(4.784, 0.008),
        "stime_s": Known(0.001, 0.001),
        "minflt": Known(22.0, 1.549),
        "majflt": Known(4.2, 1.6),
        "inblock": Known(606.4, 291.2),
        "oublock": NONE,
        "maxrss_kib": Known(170.4, 340.8),
        "l1d_read_access": Known(7521437760.8, 346.232),
        "l1d_write_access": WRITES,
        "l1d_read_miss": Known(822928672.6, 1469473.16),
        "rate": Known(0.109),
        "dtlb_read_miss": Known(1493323.2, 2975.783),
        "dtlb_write_miss": Known(718707.4, 1034.893),
    },
    ("shared", "reclaim-active"): {
        "utime_s": Known(4.868, 0.032),
        "stime_s": Known(0.015, 0.015),
        "minflt": Known(4125.8, 1.166),
        "majflt": Known(3.8, 0.4),
        "inblock": Known(593.6, 44.8),
        "oublock": Known(32832.0),
        "maxrss_kib": Known(2843.2, 167.033),
        "l1d_read_access": Known(7521441059.2, 1197.569),
        "l1d_write_access": WRITES,
        "l1d_read_miss": Known(829703258.4, 2059767.61),
        "rate": Known(0.110),
        "dtlb_read_miss": Known(1545167.8, 7327.071),
        "dtlb_write_miss": Known(744986.6, 3014.31),
    },
    ("shared", "own"): {
        "utime_s": Known(4.792, 0.019),
        "stime_s": Known(0.014, 0.013),
        "minflt": Known(4126.0, 1.265),
        "majflt": Known(4.0),
        "inblock": Known(616.0),
        "oublock": Known(32832.0),
        "maxrss_kib": Known(2466.4, 726.388),
        "l1d_read_access": Known(7521440534.0, 760.447),
        "l1d_write_access": WRITES,
        "l1d_read_miss": Known(823238818.4, 691773.77),
        "rate": Known(0.109),
        "dtlb_read_miss": Known(1494720.4, 1412.02),
        "dtlb_write_miss": Known(718793.0, 1569.477),
    },
}
"""By mapping and policy: `reclaim-active` is the modified kernel."""
