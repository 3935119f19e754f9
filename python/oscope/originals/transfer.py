"""Figures of the original report, cited as its own: for shape and order of magnitude, never targets.

Times of its receiver and its sender in ms, one an execution, on Linux 4.15 and an i5-3210M. A line that is
repeated where a page turns is one line: only so do its averages come out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from statistics import median as middle

from oscope.originals.sizes import SMALL, TARGET
from oscope.statistics.gaps import parted

METHODS = {"fcntl": "readwrite", "mmap": "mmap"}
"""The original report's names of its methods, and ours."""
WHERE = "The original report's figures are of its devices, another machine and Linux 4.15: for their shape."

SMALL_FILES: Mapping[str, Sequence[float]] = {
    "fcntl": (0.165, 0.0857, 0.1217, 0.0669, 0.0915, 0.084, 0.0551, 0.0566, 0.0443, 0.0587),
    "mmap": (0.5019, 0.0786, 0.0965, 0.1961, 0.0699, 0.08, 0.057, 0.0628, 0.048, 0.1695),
}
"""One of the ten small files an execution, in their order; receiver, each taken once."""
TARGET_FILE = {"fcntl": 8.6045, "mmap": 2.6937}
"""The larger file; receiver, each taken once."""
FILE = {
    **{
        (name, size): time for name, row in SMALL_FILES.items() for size, time in zip(SMALL, row, strict=True)
    },
    **{(name, TARGET): time for name, time in TARGET_FILE.items()},
}
"""The time of one file an execution by method and size."""

EXECUTION: Mapping[int, Mapping[str, Sequence[float]]] = {
    5: {
        "fcntl": (0.306, 0.3699, 0.2404, 0.2398, 0.3273, 0.4259, 0.3202, 0.3758, 0.27, 0.3525),
        "mmap": (
            *(0.2899, 0.2443, 0.3064, 0.2191, 0.2325, 0.2737, 0.3083),
            *(0.5224, 0.3462, 0.3352, 0.3838, 0.1838, 0.3664),
        ),
    },
    10: {
        "fcntl": (0.5059, 0.5287, 0.5628, 0.5569, 0.5728, 0.5279, 0.4868, 0.4933, 0.488, 0.3883),
        "mmap": (0.3585, 0.3072, 0.3954, 0.4846, 0.3327, 0.4316, 0.3795, 0.5001, 0.521, 0.4362),
    },
}
"""Five and ten small files an execution; receiver."""
MEDIAN = {files: {name: middle(row) for name, row in rows.items()} for files, rows in EXECUTION.items()}
AVERAGE: Mapping[int, Mapping[str, float]] = {
    5: {"fcntl": 0.320008, "mmap": 0.298169231},
    10: {"fcntl": 0.51107, "mmap": 0.41468},
}
"""Averages as printed; that of five is not the one of the values listed."""

Inputs = Mapping[tuple[str, str], Sequence[float]]
"""Times by method and content."""
_LARGE = """
    66.6403   970.6869  920.1746  935.2579  6993.9874  1957.6946  1939.5967  8944.1425
    72.1542   972.0741  919.9434  938.1343  1073.9881  2010.3711  1059.2527  1991.522
    970.9382  969.7755  20.3253   38.2906   2912.2439  2031.6007  1043.389   1064.6171
    65.9212   966.9341  20.3667   938.0444  1976.9759  1984.3315  1048.8432  1998.3348
    65.8288   970.1286  19.7118   20.6685   1074.9658  1086.1197  1041.1049  1043.2462
    974.6809  967.2372  59.1146   937.0983  2012.0503  2008.6447  1076.6149  1955.157
    66.4419   970.2826  19.6091   20.4245   1079.1926  1978.3624  1014.9622  1045.3011
    970.4192  971.1512  19.8341   938.3567  1987.3991  2924.7662  1044.9449  1950.5229
    974.9208  970.2386  28.7002   41.6466   1994.6568  2012.7083  1044.0456  1052.6168
    967.156   965.9293  20.8734   36.6994   1981.9341  2960.611   1028.8669  1054.3627
"""
_KEYS = tuple(product(METHODS, ("zeros", "random")))
_COLUMNS = zip(*(map(float, row.split()) for row in _LARGE.strip().splitlines()), strict=True)
RECEIVER: Inputs = {key: next(_COLUMNS) for key in _KEYS}
"""The five large inputs in one execution, by method and content."""
SENDER: Inputs = {key: next(_COLUMNS) for key in _KEYS}
"""The same at the sender, started by hand."""
WITHOUT_FIRST = frozenset({("fcntl", "zeros"), ("mmap", "random")})
"""Those of the sender of which the original report leaves out the first run, which waited for a person."""
WAITED = "Of its sender's times, those of two first runs that waited for a person are left out, as it does."


def averaged(side: Inputs, key: tuple[str, str]) -> Sequence[float]:
    """Return the times that the original report's average is of, for a method and a content, if any."""
    values = side.get(key, ())
    return values[1:] if side is SENDER and key in WITHOUT_FIRST else values


PRINTED_BYTES = 14_549_760
"""The bytes it prints for its five large inputs."""

GAP_MS = 400.0
"""Values further apart than this are of two groups: those of one group lie within a fifth of it."""


groups = partial(parted, gap=GAP_MS)


def groups_text(values: Sequence[float]) -> str:
    """Return the median in ms of each group, and how many values it has."""
    return ", ".join(f"{middle(part):.1f} ({len(part)})" for part in groups(values))


def own_name(way: str) -> str | None:
    """Return the original report's name of a method; None for one that it does not have."""
    return next((theirs for theirs, ours in METHODS.items() if way in (theirs, ours)), None)
