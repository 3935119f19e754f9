"""The transfer lab: files between two hosts, through user space and through the kernel's own connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.figures.lazy_answers import Lazy
from oscope.model.experiment import Design, Experiment, GuestSpec, Lab
from oscope.model.factors import Level
from oscope.model.units import KIBIBYTE, MEBIBYTE
from oscope.originals.sizes import SMALL, TARGET

SENDERS = ("readwrite", "mmap", "sendfile", "splice", "zerocopy", "uring")
RECEIVERS = ("readwrite", "mmap", "splice", "uring")
PLAIN = ("sendfile", "readwrite")
"""Sender and receiver against which the others are held; what is sent by default."""
SAME = (("readwrite", "readwrite"), ("mmap", "mmap"), PLAIN, ("splice", "splice"))
"""The original report's two, each on both sides, and what copies less."""
DIGESTS = ("blake3", "sha512", "none")
CONTENTS = ("zeros", "random")
SIZES = (KIBIBYTE, 5 * KIBIBYTE, MEBIBYTE, 10 * MEBIBYTE, 100 * MEBIBYTE)
"""The original report's large inputs."""
EXECUTIONS = (1, 5, 10)
"""Files in one execution."""

RETRY_S = 1.0
"""What a side that was refused sleeps before it tries again."""
MEETINGS = ("ready", "retry", "receiver-retry")
"""Both are there; the receiver is late and the sender tries again; the sender is late, the receiver does."""
LATE_S = 0.1
"""How late the other side comes where one lateness is enough.

With it a sender that retries makes the receiver wait 900 ms, and a receiver that retries waits a second. It
was chosen for the former, and says nothing of the original report's programs.
"""
MEGABIT_S = 125_000
"""1 Mbit/s, in bytes a second."""
ALL_KINDS = "syscalls+sched+faults"


def pair(factors: Mapping[str, Level]) -> tuple[str, str]:
    """Return the methods of sender and receiver."""
    return str(factors.get("sender", PLAIN[0])), str(factors.get("receiver", PLAIN[1]))


def _crossed(factors: Mapping[str, Level]) -> bool:
    """Leave out all pairs of methods but those of `SAME`."""
    return pair(factors) not in SAME


def _digested(factors: Mapping[str, Level]) -> bool:
    """Leave out other digests than the default one, but for the plain pair of methods."""
    return factors.get("digest", DIGESTS[0]) != DIGESTS[0] and pair(factors) != PLAIN


def _few_pairs(factors: Mapping[str, Level]) -> bool:
    """Leave out pairs neither of whose methods is the plain one."""
    sender, receiver = pair(factors)
    return _digested(factors) or (sender != PLAIN[0] and receiver != PLAIN[1])


def _executions(factors: Mapping[str, Level]) -> bool:
    """Leave out all but one file of each size, and 5 and 10 of the original's, which have their own sizes."""
    return (factors["files"] == 1) != (factors["sizes"] == "equal") or _crossed(factors)


def _device_executions(factors: Mapping[str, Level]) -> bool:
    """Leave out what `_executions` leaves out, and zeros of the sizes that the original had no zeros of."""
    if factors["sizes"] == "document":
        return factors["files"] == 1 or factors["content"] == "zeros"
    return factors["files"] != 1 or (factors["content"] == "zeros" and factors["size"] not in SIZES)


_TOLD = (
    *("time_ns", "receiver_time_ns", "bytes_per_s", "calls", "receiver_calls", "switches"),
    *("receiver_switches", "cpu_s_per_gib", "receiver_cpu_s_per_gib"),
)
_SIDES: dict[str, Any] = {"sender": SENDERS[:4], "receiver": RECEIVERS[:3]}

COPY = Experiment.of(
    "transfer.copy",
    "Ways to send and to receive",
    "Which pair of methods moves a file fastest, and what does its digest cost?",
    Design.of(
        20,
        10,
        sender=SENDERS,
        receiver=RECEIVERS,
        size=(64 * KIBIBYTE, MEBIBYTE, 16 * MEBIBYTE, 256 * MEBIBYTE),
        digest=DIGESTS,
        content="random",
        files=1,
        omit=_digested,
    ),
    quick=lambda full: full.replace(
        5, 5, omit=_few_pairs, **_SIDES, size=10 * MEBIBYTE, digest=("blake3", "none")
    ),
    quick_share="about 2 s: 7 points, 10 MiB 5 times each",
    metrics=("bytes_per_s", *(each for each in _TOLD if each != "bytes_per_s")),
)

FEW = Experiment.of(
    "transfer.small",
    "Small files, 1, 5 and 10 at a time",
    "How long do the original's small files take, one, five and ten an execution?",
    Design.of(
        20,
        10,
        sender=SENDERS[:3],
        receiver=RECEIVERS[:2],
        sizes=("equal", "document"),
        files=EXECUTIONS,
        size=(*SMALL, TARGET),
        content="random",
        omit=_executions,
    ),
    workload="transfer.copy",
    quick=lambda full: full.replace(10, 5, sender=SENDERS[:2], size=(SMALL[0], SMALL[-1], TARGET)),
    quick_share="about 1 s: 10 points, 10 times each",
    metrics=_TOLD,
)

LARGE = Experiment.of(
    "transfer.large",
    "From 1 KiB to 100 MiB, zeros and random",
    "From which size on is mmap faster, does the content matter, and where does the time go?",
    Design.of(20, 10, **_SIDES, size=SIZES, content=CONTENTS, files=1, omit=_crossed),
    workload="transfer.copy",
    quick=lambda full: full.replace(
        10, 5, sender=SENDERS[:3], receiver=RECEIVERS[:2], size=(KIBIBYTE, MEBIBYTE, 10 * MEBIBYTE)
    ),
    quick_share="about 5 s: 18 points, up to 10 MiB 10 times each",
    metrics=_TOLD,
)

INPUTS = Experiment.of(
    "transfer.inputs",
    "Five large inputs in one execution",
    "How long do the original's five large inputs take in one execution, zeros and random bytes?",
    Design.of(10, 10, **_SIDES, sizes="large", files=len(SIZES), content=CONTENTS, omit=_crossed),
    workload="transfer.copy",
    quick_share="not in it: an execution moves 111 MiB, and transfer.large has the sizes one by one",
    metrics=_TOLD,
)

_NETWORK = Design.of(
    5,
    5,
    where="namespaces",
    rate=(0, 100 * MEGABIT_S, 1000 * MEGABIT_S),
    delay=(0, 0.001, 0.01, 0.05),
    loss=(0, 1, 10),
    size=4 * MEBIBYTE,
    content="random",
)
NETWORK = Experiment.of(
    "transfer.network",
    "Over a line with rate, delay and loss",
    "How much of a line's rate does a transfer get, by its delay and its losses?",
    _NETWORK.replace(
        # Leave out losses but on a line with a rate and a delay: without a delay they cost next to nothing.
        omit=lambda factors: factors["loss"] != 0 and (factors["rate"] == 0 or factors["delay"] == 0)
    ),
    workload="transfer.copy",
    quick=lambda _: _NETWORK.replace(rate=(0, 100 * MEGABIT_S), delay=(0, 0.01), loss=0, size=MEBIBYTE),
    quick_share="about 3 s: 4 points, 1 MiB 5 times each",
    metrics=("bytes_per_s", "time_ns", "receiver_time_ns", "calls", "receiver_calls"),
)

MEETING = Experiment.of(
    "transfer.meeting",
    "How both ends meet, and small writes",
    "What makes a step of 900 ms, and is it gone where both ends meet by themselves?",
    Design.of(
        10,
        5,
        meeting=MEETINGS,
        late=(LATE_S, 0.3, 0.5, 0.9),
        writes=("whole", "small", "nodelay"),
        files=5,
        sizes="equal",
        size=KIBIBYTE,
        # Leave out an exchange of small writes with who is late.
        omit=lambda factors: factors["meeting"] != "ready" and factors["writes"] != "whole",
    ),
    workload="transfer.copy",
    quick=lambda full: full.replace(reps=5, late=LATE_S),
    quick_share="about 12 s: 5 points 5 times each, two of which wait a second",
    metrics=("receiver_time_ns", "time_ns", "wait_ns", "calls", "receiver_calls"),
)

TRACE = Experiment.of(
    "transfer.trace",
    "A transfer, traced",
    "In which system calls is the time of both sides, and how long is a wake-up?",
    Design.of(
        10, 5, **_SIDES, size=10 * MEBIBYTE, content="random", tracer=("none", ALL_KINDS), omit=_crossed
    ),
    workload="transfer.copy",
    quick_share="not in it: attaching a tracer takes seconds, and the IPC lab has the same calls traced",
    metrics=_TOLD,
)

DEVICE = Experiment.of(
    "transfer.device",
    "Through a device in the kernel",
    "Is mmap faster than read and write on a device that holds the connection?",
    Design.of(
        10,
        10,
        method=("fcntl", "mmap"),
        sizes=("equal", "document"),
        files=EXECUTIONS,
        size=(*SMALL, TARGET, *SIZES),
        content=CONTENTS,
        omit=_device_executions,
    ),
    quick_share=(
        "not in it: it needs a guest under a kernel that is built first, in minutes (`oscope kernel build`)"
    ),
    metrics=("time_ns", "sender_time_ns", "bytes_per_s", "calls", "sender_calls", "minflt"),
    guest=GuestSpec("base", "wall"),
)

DEVICE_INPUTS = Experiment.of(
    "transfer.device-inputs",
    "Five large inputs in one execution, through a device",
    "How long do the original's five large inputs take in one execution through the devices?",
    Design.of(10, 10, method=("fcntl", "mmap"), sizes="large", files=len(SIZES), content=CONTENTS),
    workload="transfer.device",
    quick_share=DEVICE.quick_share,
    metrics=DEVICE.metrics,
    guest=GuestSpec("base", "wall"),
)


LAB = Lab(
    name="transfer",
    title="Transfer",
    document="a student report on files sent through two kernel devices, by read and write and by mmap",
    experiments=(COPY, FEW, LARGE, INPUTS, NETWORK, MEETING, TRACE, DEVICE, DEVICE_INPUTS),
    sections=Lazy(
        __name__,
        *("large:LARGE", "large:FIVE", "small:SMALL_FILES", "large:ZEROS", "work:WORK", "work:TRACED"),
        *("rendezvous", "small:THROUGH_DEVICES", "pairs:PAIRS", "network", "pairs:INTEGRITY"),
    ),
    notebook="notebooks/transfer.ipynb",
)
