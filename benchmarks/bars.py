"""How a benchmark module declares its bars, and what it hands back of each.

A module of benchmarks has `PARTS`. A part declares its bars as data and measures them together, in one
function, as thoroughly as it is asked to. What a part cannot measure does not stop the others: see
`module_run` (one module, in a process of its own) and `runner` (all of them).
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

T = TypeVar("T")

ALONE = 5
"""From so many values on, a median has an interval."""
PLACE = Path("/var/tmp")  # noqa: S108 - a disk is needed, and the names below it are random.
PACKAGES = {
    "bpftrace": "bpftrace",
    "dd": "coreutils",
    "fio": "fio",
    "iperf3": "iperf3",
    "mkfs.ext4": "e2fsprogs",
    "nc.openbsd": "netcat-openbsd",
    "nsenter": "util-linux",
    "perf": "linux-perf",
    "qemu-system-x86_64": "qemu-system-x86",
    "scp": "openssh-client",
    "socat": "socat",
    "sshd": "openssh-server",
    "sshfs": "sshfs",
    "strace": "strace",
    "tar": "tar",
    "tcpdump": "tcpdump",
    "valgrind": "valgrind",
}
"""The Debian package of each program that a bar needs."""
BUILT = ("hyperfine",)
"""Programs that `tools/setup.sh bench` builds, since Debian has them older or not at all."""


class Effort(Enum):
    """How thoroughly a part measures: only that it works, for `make bench`, for `make bench-full`."""

    SMOKE = 0
    SHORT = 1
    FULL = 2

    def pick(self, smoke: T, short: T, full: T) -> T:
        """Return the value of this effort."""
        return (smoke, short, full)[self.value]


class NotMeasured(Exception):  # noqa: N818 - it is no error: the machine lacks something, and says what.
    """A part, or one bar of it, that this machine cannot measure; the message says why and how to fix it."""


@dataclass(frozen=True)
class Bar:
    """One line of the table. Without `least` and `most` a figure is shown and not judged."""

    name: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    needs: tuple[str, ...] = ()
    """Programs without which it is not measured."""
    by_interval: bool = False
    """Whether it is missed only where its whole interval is: a share of few trials says little by itself."""

    @property
    def bound(self) -> str:
        """Return what is wanted, such as `at least 0.97`; `-` where nothing is."""
        unit = f" {self.unit}" if self.unit else ""
        match self.least, self.most:
            case None, None:
                return "–"
            case least, None:
                return f"at least {least:,g}{unit}"
            case None, most:
                return f"at most {most:,g}{unit}"
            case least, most:
                return f"{least:,g}{unit}" if least == most else f"{least:,g} to {most:,g}{unit}"

    @property
    def lacks(self) -> str:
        """Return what to install before it can be measured; empty where nothing is missing."""
        return lacking(self.needs)

    def judge(self, figure: Figure) -> Literal["met", "missed", "shown"]:
        """Say whether `figure` is as wanted."""
        if self.least is None and self.most is None:
            return "shown"
        low, high = (figure.value, figure.value)
        if self.by_interval and figure.interval is not None:
            low, high = figure.interval
        below = self.least is not None and high < self.least
        above = self.most is not None and low > self.most
        return "missed" if below or above else "met"


def lacking(programs: Sequence[str]) -> str:
    """Return what to install so that all `programs` are there; empty where they are."""
    path = f"{searching()['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if built := [name for name in missing if name in BUILT]:
        return f"install {' '.join(built)}: tools/setup.sh bench"
    packages = " ".join(PACKAGES.get(name, name) for name in missing)
    return f"install {packages}: apt-get install {packages}" if missing else ""


def searching() -> dict[str, str]:
    """Return the environment in which programs are also found where `tools/setup.sh bench` builds them."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"}


@dataclass(frozen=True)
class Figure:
    """What was measured of a bar, in its unit."""

    bar: Bar
    value: float
    interval: tuple[float, float] | None = None
    """95 % confidence interval."""
    detail: str = ""
    """What else belongs to it: the base of a ratio, the number of rounds."""

    def __post_init__(self) -> None:
        """Refuse what is no number."""
        if not all(map(math.isfinite, (self.value, *(self.interval or ())))):
            raise ValueError(f"{self.bar.name}: {self.value} {self.interval} is no figure")

    @property
    def text(self) -> str:
        """Return the value, its interval and unit, and the detail."""
        unit = f" {self.bar.unit}" if self.bar.unit else ""
        decimals = _decimals(self.value, self.interval)
        text = f"{self.value:,.{decimals}f}"
        if self.interval is not None:
            low, high = self.interval
            text += f" [{low:,.{decimals}f}, {high:,.{decimals}f}]"
        return f"{text}{unit}{'; ' if self.detail else ''}{self.detail}"


def _decimals(value: float, interval: tuple[float, float] | None) -> int:
    """Return how many decimals show two digits of the interval's half width, or four of the value."""
    if value == round(value) and (interval is None or interval[0] == interval[1]):
        return 0
    width = (interval[1] - interval[0]) / 2 if interval else 0.0
    size, digits = (width, 2) if width > 0 else (abs(value), 4)
    return 0 if size == 0 else max(0, min(9, digits - 1 - math.floor(math.log10(size))))


class Bench:
    """What a part gets: the effort, a folder on a disk, and what parts of a module share."""

    def __init__(self, effort: Effort, stack: ExitStack) -> None:
        """`stack` ends what is shared."""
        self.effort = effort
        self._stack = stack
        self._made: dict[object, Any] = {}
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """Return a folder on a disk, which is removed at the module's end."""
        if self._folder is None:
            made = tempfile.TemporaryDirectory(prefix="oscope-bench-", dir=PLACE, ignore_cleanup_errors=True)
            self._folder = Path(self._stack.enter_context(made))
        return self._folder

    def pick(self, smoke: T, short: T, full: T) -> T:
        """Return the value for the effort."""
        return self.effort.pick(smoke, short, full)

    def shared(self, make: Callable[[Bench], AbstractContextManager[T]]) -> T:
        """Return what `make` gives; it is made for the first part that asks, and ends with the module."""
        if make not in self._made:
            self._made[make] = self._stack.enter_context(make(self))
        found: T = self._made[make]
        return found


@dataclass(frozen=True)
class Part:
    """Bars that are measured together."""

    what: str
    """What is measured and how, in a sentence or two."""
    bars: tuple[Bar, ...]
    measure: Callable[[Bench], Iterator[Figure]]
    short_s: float | None
    """Seconds that it takes in `make bench` on an idle machine of two cores; None: only in the full run."""
    full_s: float
    needs: tuple[str, ...] = ()
    root: bool = False
    smoke: bool = True
    """Whether there is a round so short that the tests can have it."""

    def seconds(self, effort: Effort) -> float | None:
        """Return about how long it takes; None where it is not part of such a run."""
        return effort.pick(10.0 if self.smoke else None, self.short_s, self.full_s)

    def figures(self, bench: Bench) -> Iterator[Figure]:
        """Measure; NotMeasured where this machine lacks what it takes."""
        if self.root and os.geteuid() != 0:
            raise NotMeasured("needs root: run it as root")
        if missing := lacking(self.needs):
            raise NotMeasured(missing)
        return self.measure(bench)


def interval_of(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median (BCa bootstrap); None of fewer than ALONE values."""
    if len(values) < ALONE:
        return None
    if min(values) == max(values):
        return float(values[0]), float(values[0])
    # It takes a second to load, of which most processes here need none.
    import scipy

    with warnings.catch_warnings():
        # That it has no answer shows in what it returns.
        warnings.simplefilter("ignore")
        found = scipy.stats.bootstrap((np.asarray(values),), np.median, rng=np.random.default_rng(1))
    low, high = map(float, found.confidence_interval)
    # BCa has no answer where leaving any one value out changes nothing.
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (min(values), max(values))


def median(bar: Bar, values: Sequence[float], detail: str = "") -> Figure:
    """Return the median, with how many values it is of."""
    count = f"n = {len(values)}"
    return Figure(
        bar, float(np.median(values)), interval_of(values), f"{detail}, {count}" if detail else count
    )


def ratio(bar: Bar, a: Sequence[float], b: Sequence[float], detail: str = "") -> Figure:
    """Return the median of the paired ratios a/b."""
    return median(bar, [one / other for one, other in zip(a, b, strict=True)], detail)


def faster(bar: Bar, peer: Sequence[float], ours: Sequence[float]) -> Figure:
    """Compare seconds: how many times as fast ours is."""
    return ratio(bar, peer, ours, f"{np.median(ours):.3f} s beside {np.median(peer):.3f} s")


def share(bar: Bar, hits: int, of: int, detail: str = "") -> Figure:
    """Return a share in %, with its 95 % binomial interval (Wilson)."""
    from oscope.statistics.rate import Rate

    low, high = Rate(hits, of).interval
    count = f"{hits} of {of}"
    return Figure(bar, 100 * hits / of, (100 * low, 100 * high), f"{count}; {detail}" if detail else count)
