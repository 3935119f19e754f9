"""OS Project 2, step by step: files through two kernel devices, by read and write and by mmap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oscope.assignments.model import Answer, Document, Step
from oscope.labs import transfer
from oscope.model.experiment import Design
from oscope.model.factors import Level
from oscope.model.units import MEBIBYTE
from oscope.originals.sizes import SMALL, TARGET

METHODS = ("readwrite", "mmap")
ADDRESS = "127.0.0.1:7025"
BUILD = "`oscope kernel build --patch my_precious --patch reclaim-policy`"
NO_DEVICES = (
    "The devices need a guest under a kernel that is built first: `oscope kernel build` builds it in "
    "minutes; then `oscope assignment transfer` measures them in that guest. What goes through user space "
    "on this machine stands in the tables without them."
)


NOT_QUICK = "--quick leaves it out: 111 MiB through an emulated guest take minutes each time"


def _two_methods(factors: Mapping[str, Level]) -> bool:
    """Leave out pairs of methods that the document has not."""
    return factors["sender"] != factors["receiver"]


def _files(factors: Mapping[str, Level]) -> bool:
    """Leave out all but one file of each size, and 5 and 10 files of the document's own sizes."""
    return _two_methods(factors) or (factors["files"] == 1) != (factors["sizes"] == "equal")


def _device_files(factors: Mapping[str, Level]) -> bool:
    return (factors["files"] == 1) != (factors["sizes"] == "equal")


_SIZES: dict[str, tuple[Level, ...]] = {
    "sizes": ("equal", "document"),
    "files": transfer.EXECUTIONS,
    "size": (*SMALL, TARGET),
    "content": ("random",),
}
_LARGE: dict[str, tuple[Level, ...]] = {
    "sizes": ("large",),
    "files": (len(transfer.SIZES),),
    "content": transfer.CONTENTS,
}
_PAIRS: dict[str, tuple[Level, ...]] = {"sender": METHODS, "receiver": METHODS}
_DEVICES: dict[str, tuple[Level, ...]] = {"method": ("fcntl", "mmap")}
_DIGEST: dict[str, tuple[Level, ...]] = {
    **_PAIRS,
    "size": (10 * MEBIBYTE,),
    "digest": ("sha512",),
    "content": ("random", "zeros"),
    "files": (1,),
}


def _small(reps: int) -> Design:
    return Design({**_PAIRS, **_SIZES}, reps=reps, blocks=reps, omit=_files)


def _inputs(reps: int) -> Design:
    return Design({**_PAIRS, **_LARGE}, reps=reps, blocks=reps, omit=_two_methods)


def _digests(reps: int) -> Design:
    return Design(_DIGEST, reps=reps, blocks=reps, omit=_two_methods)


def _device(reps: int) -> Design:
    return Design({**_DEVICES, **_SIZES}, reps=reps, blocks=reps, omit=_device_files)


def _device_inputs(reps: int) -> Design:
    return Design({**_DEVICES, **_LARGE}, reps=reps, blocks=reps)


EXPERIMENTS = (
    replace(transfer.FEW, full=_small(20), quick=_small(10)),
    replace(transfer.INPUTS, full=_inputs(10), quick=_inputs(5)),
    replace(transfer.COPY, full=_digests(10), quick=_digests(5)),
    replace(transfer.DEVICE, full=_device(10), quick=_device(3)),
    replace(transfer.DEVICE_INPUTS, full=_device_inputs(10), quick=None, quick_share=NOT_QUICK),
)

_RUN_SMALL = "run transfer.small --set sender=readwrite,mmap --set receiver=readwrite,mmap"
_RUN_LARGE = "run transfer.inputs --set sender=readwrite,mmap --set receiver=readwrite,mmap"
_SMALL = Answer("transfer", "Small files: 1, 5 and 10 an execution")
_LARGE_ANSWER = Answer("transfer", "Five large inputs in one execution")
_DEVICE_ANSWER = Answer("transfer", "Through devices in the kernel: fcntl against mmap")
_NAMES = {"fcntl": "File I/O", "mmap": "Memory-mapped I/O"}


def _small_steps(method: str) -> tuple[Step, ...]:
    counts = {1: "1 file", 5: "5 files", 10: "10 files"}
    return tuple(
        Step(
            f"{method}-{files}",
            "table",
            f"Sample output, {_NAMES[method]} (slave)",
            f"{word} in one execution: transmission time and bytes",
            commands=(_RUN_SMALL, "run transfer.device"),
            measured=("transfer.device", "transfer.small"),
            answers=(_SMALL, _DEVICE_ANSWER),
        )
        for files, word in counts.items()
    )


def _large_steps(method: str) -> tuple[Step, ...]:
    return tuple(
        Step(
            f"{method}-{side}-{content}",
            "table",
            f"Self-designed input, {_NAMES[method]} ({side})",
            f"Five files of {content} from 1K to 100M, ten runs",
            commands=(_RUN_LARGE, "run transfer.device-inputs"),
            measured=("transfer.device-inputs", "transfer.inputs"),
            answers=(_LARGE_ANSWER, _DEVICE_ANSWER),
            note=(
                "Both sides are started by Oscope and meet before the clock starts: no first run is left out."
                if side == "master"
                else ""
            ),
        )
        for side in ("master", "slave")
        for content in transfer.CONTENTS
    )


STEPS = (
    Step(
        "devices",
        "step",
        "Design, master and slave device",
        "Two kernel modules whose devices hold a TCP connection: mmap, page fault, ioctl",
        commands=("kernel build", "kernel boot base -- ls /run/oscope/modules"),
        note="The sources are kernel/modules; they are built with each kernel and loaded in guests only.",
    ),
    Step(
        "master",
        "step",
        "Master user program",
        "`master N METHOD FILE…`: send files by fcntl or mmap",
        commands=(
            f"transfer send --device mmap test.txt {ADDRESS}",
            f"transfer send --trusted-network test.txt {ADDRESS}",
        ),
        note="`--device fcntl|mmap` goes through the modules, which a guest has; without it, user space.",
    ),
    Step(
        "slave",
        "step",
        "Slave user program",
        "`slave N METHOD IP FILE…`: receive files by fcntl or mmap",
        commands=(
            f"transfer receive --device fcntl --into received --listen {ADDRESS} --once",
            f"transfer receive --trusted-network --into received --listen {ADDRESS} --once",
        ),
    ),
    Step(
        "descriptors",
        "step",
        "Page descriptor",
        "Print the page descriptors of the mapped pages on both sides",
        commands=(f"transfer send --device mmap --descriptors test.txt {ADDRESS}",),
    ),
    *_small_steps("fcntl"),
    *_small_steps("mmap"),
    Step(
        "integrity",
        "step",
        "Self-designed input",
        "Make zero and random files, and check each received one by sha512sum",
        commands=("run transfer.copy --set digest=sha512",),
        measured=("transfer.copy",),
        answers=(Answer("transfer", "Every file is equal to its source"),),
        note="Every transfer checks its files; one that differs is a failed sample.",
    ),
    *_large_steps("fcntl"),
    *_large_steps("mmap"),
    Step(
        "comparison",
        "question",
        "Comparison",
        "Is memory-mapped I/O faster than file I/O, for small and for large files, and why",
        commands=(_RUN_SMALL, _RUN_LARGE, "run transfer.large"),
        measured=("transfer.small", "transfer.inputs"),
        answers=(_SMALL, _LARGE_ANSWER, _DEVICE_ANSWER),
    ),
    Step(
        "content",
        "question",
        "Comparison, zeros and random bytes",
        "Are zeros sent faster than random bytes",
        commands=(_RUN_LARGE, "run transfer.large"),
        measured=("transfer.inputs",),
        answers=(Answer("transfer", "Zeros against random bytes"),),
    ),
)

DOCUMENT = Document(
    key="transfer",
    name="OS Project 2",
    title="OS Project 2 (ntu.edu.tw)",
    about=(
        "A student project report, partly in Chinese. A master device and a slave device in the kernel hold "
        "a TCP connection; two user programs send files through them, by read and write (it says fcntl) or "
        "by mmap. It compares the two for small and for large files."
    ),
    machine="Linux 4.15, an i5-3210M at 2.50 GHz and 8 GB of memory, both sides on one machine",
    steps=STEPS,
    experiments=EXPERIMENTS,
    quick_sizes=(
        "--quick sends the same files, 5 to 10 times instead of 10 to 20, takes three boots of the guest, "
        "and leaves out the large inputs through the devices."
    ),
)
