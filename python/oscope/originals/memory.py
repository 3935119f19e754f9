"""Figures of the original report, cited as its own: for shape and order of magnitude, never targets.

They are means and standard deviations of 5 runs of 2^20 sets in 1 GiB with the footprint `first64th`, on a
virtual machine with 2 GiB of memory and Linux 4.19.
"""

from __future__ import annotations

from oscope.questions.original_figures import Known, read_table

SETS, SIZE = 1 << 20, 1 << 30
WHERE = (
    "The original report's figures are means of 5 runs with their standard deviations, of another machine, "
    "with 1 048 576 sets in 1 GiB, and with first64th."
)


PATTERN = read_table(
    ("seq", "random"),
    """
    utime_s           3.317±0.005             4.827±0.003
    stime_s           0.006±0.005             0.008±0.001
    minflt            4113.6±0.49             7336.6±0.49
    majflt            0                       0
    maxrss_kib        16637.6±42.828          16744±41.8
    inblock           0                       0
    oublock           0                       0
    l1d_read_access   7521439271.6±227.93     7521442554.2±142.106
    l1d_write_access  1077936131              1077936131
    l1d_read_miss     289466866.8±198047.028  826536782.8±393229.625
    dtlb_read_miss    99193.4±717.22          1551880.8±1346.083
    dtlb_write_miss   32087.4±433.014         737437.8±736.102
    """,
)
"""Figure 2 by pattern, anonymous memory."""

FIFTH = Known(6566.4, 13132.8)
"""Blocks written by the function in a shared mapping: charged in one run of five."""

MAPPING = read_table(
    (("private", "seq"), ("private", "random"), ("shared", "seq"), ("shared", "random")),
    """
    init_inblock     0               0               0               0
    init_oublock     0               0               0               0
    inblock          0               0               0               0
    init_maxrss_kib  17540.8±17.046  17545.6±18.693  17550.4±23.269  17516.8±15.052
    maxrss_kib       16658.4±45.789  16816±52.642    16630.4±45.438  16839.2±19.823
    oublock          0               0               6566.4±13132.8  6566.4±13132.8
    """,
)
"""Figure 3 by mapping and pattern; where the original report says init, `init_` stands before the name."""

PREPARED = read_table(
    (("private", True, "none"), ("shared", True, "none"), ("shared", False, "memset+msync")),
    """
    init_maxrss_kib  1066060±106.883      1064109.6±274.14  1066129.6±31.455
    init_inblock     509718.4±224734.764  80596.8±161193.6  0
    init_oublock     0                    0                 2064320
    inblock          99.2±198.4           0                 0
    maxrss_kib       -                    2334.4±259.2      320.8±34.26
    oublock          -                    6566.4±13132.8    -
    """,
)
"""Figure 4 by mapping, populate and initialise, sequential.

The scan has lost the headings of its columns, and some cells. Which column is which follows from the text and
the figures: only memset with msync writes at the initialisation, only a shared mapping is charged blocks.
"""

FUNCTION_OUBLOCK = 32832.0
"""Figure 6: blocks that its function writes in a shared mapping. Figure 3 has a fifth of it, from 5 runs."""

PRESSURE = read_table(
    ("none", "compete"),
    """
    stime_s           0±0.001                  0.101±0.13
    minflt            10.2±0.98                19.8±3.059
    majflt            0                        16.2±2.482
    inblock           0                        1737.6±734.998
    oublock           0                        0
    maxrss_kib        0                        674.4±121.342
    l1d_read_access   7521437569.6±343.389     7521457650.4±3348.175
    l1d_write_access  1077936131               1077936131
    l1d_read_miss     816180244.6±1026125.094  849878078±3046793.999
    dtlb_read_miss    1495066.6±3024.35        1660888.6±24995.351
    utime_s           -                        6.811±0.164
    dtlb_write_miss   -                        779031±11851.924
    """,
)
"""Figure 5 by pressure, anonymous memory at random. The scan has lost the user time without pressure."""
