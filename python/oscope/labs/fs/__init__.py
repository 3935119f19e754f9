"""The lab of networked file systems: oscope-fs beside sshfs, NFS and the local file system, over a delay."""

from __future__ import annotations

from collections.abc import Mapping

from oscope.figures.lazy_answers import Lazy
from oscope.model.experiment import Design, Experiment, GuestSpec, Lab
from oscope.model.factors import Level
from oscope.model.units import MEBIBYTE

LOCAL, OSCOPE, SSHFS, NFS = "local", "oscope", "sshfs", "nfs"
SYSTEMS = (LOCAL, OSCOPE, SSHFS, NFS)
HERE = (LOCAL, OSCOPE, SSHFS)
"""Those that are measured without a guest: no NFS server of this machine is touched."""
OPERATIONS = (
    *("read-first", "read-again", "read-random", "change-block", "append", "create", "read-small"),
    *("list", "git-status", "unpack"),
)
FEW_OPERATIONS = ("read-first", "read-again", "change-block", "create", "git-status")
DELAYS = (0.0, 0.001, 0.01, 0.05)
"""Seconds that each packet is late, in each direction."""
SIZE, FILES = 8 * MEBIBYTE, 100
"""In the guest, whose emulated CPU takes some ten seconds for each repetition with them."""
OWN_SIZE, OWN_FILES = 64 * MEBIBYTE, 200
FEW_SIZE, FEW_FILES = 8 * MEBIBYTE, 50
GUEST_DISK = "/tmp"  # noqa: S108
"""Of the guest: ext4 on a RAM disk, which NFS can serve."""

METRICS = (
    *("time_ns", "bytes_per_s", "open_ns", "close_ns", "received_bytes", "sent_bytes"),
    *("received_packets", "sent_packets"),
)


def _no_line(factors: Mapping[str, Level]) -> bool:
    """Leave out delays of the local file system: there is no line that could be slow."""
    return factors["system"] == LOCAL and float(factors["delay"]) > 0


COMPARE = Experiment.of(
    "fs.compare",
    "oscope-fs beside sshfs, NFS and the local one",
    "Which file system is fastest for which work, by the delay of the line, and why?",
    Design.of(
        5, 5, system=SYSTEMS, operation=OPERATIONS, delay=DELAYS, size=SIZE, files=FILES, directory=GUEST_DISK
    ),
    quick_share="not in the survey: takes a kernel (`oscope kernel build`) and hours of emulation",
    metrics=METRICS,
    exclude=_no_line,
    guest=GuestSpec("base", "instructions"),
)

ON_THIS_MACHINE = Experiment.of(
    "fs.here",
    "The same on this machine, without NFS",
    "How near to the local file system does oscope-fs come under this machine's own kernel?",
    Design.of(5, 5, system=HERE, operation=OPERATIONS, delay=0.0, size=OWN_SIZE, files=OWN_FILES),
    workload="fs.compare",
    quick=lambda full: full.replace(operation=FEW_OPERATIONS, size=FEW_SIZE, files=FEW_FILES),
    quick_share="15 points 5 times each, 8 MiB or 50 files",
    metrics=METRICS,
    exclude=_no_line,
)


LAB = Lab(
    name="fs",
    title="Networked file systems",
    document="a student report's section that has only a heading: a networked file system in user space",
    experiments=(COMPARE, ON_THIS_MACHINE),
    sections=Lazy(
        __name__,
        *("compare:WINS", "trips", "compare:CHOICE", "compare:TIMES", "compare:HERE", "compare:COMPARE"),
        "fuse",
    ),
    notebook="notebooks/fs.ipynb",
    clocks=("wall", "instructions"),
)
