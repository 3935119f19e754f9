"""Whether two results are of machines that may be compared: this one, another, guests with their kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oscope.model.errors import UsageError
from oscope.model.samples import ExperimentResults

BOOTS_FOR_A_VERDICT = 5
MACHINE = "machine"
"""What `allow` holds where another machine is the question."""
KERNEL = "kernel"
"""What `allow` holds where another kernel is the question."""

_KERNEL: Mapping[str, str] = {
    "kernel release": "release",
    "kernel build": "version",
    "kernel command line": "cmdline",
}
_LONG = 60
"""Letters from which on only the words of a text are reported that differ."""
_DIGITS_SHOWN = 12
"""Hexadecimal digits of a digest, enough to tell it from others."""
_SAME_GUEST: Mapping[str, str] = {
    "accelerator": "accelerator of the guests",
    "cpu_model": "CPU model of the guests",
    "cpus": "CPU count of the guests",
}
_TOLD_OF_GUEST: Mapping[str, str] = {
    "memory_bytes": "memory",
    "qemu": "QEMU",
    "kernel_options": "kernel options",
}


def refuse(what: str, a: object, b: object, remedy: str) -> None:
    """Raise UsageError where `a` and `b` differ."""
    if a != b:
        raise UsageError(f"cannot compare: {what} differs ({a} and {b})", remedy=remedy)


def refuse_other_machine(a: ExperimentResults, b: ExperimentResults, allow: frozenset[str]) -> list[str]:
    """Raise UsageError where `a` and `b` are of different machines or kernels, unless that is allowed.

    Guests are alike if host, accelerator, CPU model and CPU count are. Returns caveats.
    """
    return [*imported(a, b), *_machines(a, b, allow), *_kernels(a, b, allow), *_boots(a, b)]


def label(results: ExperimentResults) -> str:
    """Return what distinguishes a side of a comparison: the run, a guest's kernel, the program or build."""
    kernel = kernel_name(results)
    return ", ".join(filter(None, [results.run_id, kernel and f"kernel {kernel}", build_name(results)]))


def labels(a: ExperimentResults, b: ExperimentResults) -> tuple[str, str]:
    """Return the labels of both sides; builds of one name have the beginnings of their digests."""
    if build_name(a) != build_name(b) or build_digest(a) == build_digest(b):
        return label(a), label(b)
    texts = [f"{label(each)} {build_digest(each)}".rstrip() for each in (a, b)]
    return texts[0], texts[1]


def build_name(results: ExperimentResults) -> str | None:
    """Return the user's own program or the build of the probe that measured; None: the usual probe."""
    name = (results.environment.get("program") or {}).get("name") or results.settings.get("build")
    return None if name is None else str(name)


def build_digest(results: ExperimentResults) -> str:
    """Return the beginning of the SHA-256 of what `build_name` names; empty where there is none."""
    if build_name(results) is None:
        return ""
    program, laboratory = (results.environment.get(name) or {} for name in ("program", "laboratory"))
    return str(program.get("sha256") or laboratory.get("probe_sha256") or "")[:_DIGITS_SHOWN]


def kernel_name(results: ExperimentResults) -> str | None:
    """Return the name of the guest's kernel, such as `base` or `my_precious`; None outside of guests."""
    guest = results.environment.get("guest")
    if not guest:
        return None
    kernel = guest.get("kernel") or {}
    return str(kernel.get("name") or kernel.get("release") or "unknown")


def kernel_parts(results: ExperimentResults) -> dict[str, str]:
    """Return what distinguishes the measured kernel from others, by name; nothing where the record has none.

    Of a guest's kernel it is the id, which stands for its sources, patches, configuration and compiler; of a
    machine's own its release, build and command line.
    """
    guest = results.environment.get("guest")
    if guest:
        return {"kernel": f"{kernel_name(results)} ({(guest.get('kernel') or {}).get('id')})"}
    kernel = results.environment.get("kernel") or {}
    return {what: str(kernel[key]) for what, key in _KERNEL.items() if kernel.get(key)}


def told_apart(a: str | None, b: str | None) -> tuple[str, str]:
    """Return two texts as far as they differ: of long ones the words that the other has not."""
    texts = str(a), str(b)
    if a == b or max(map(len, texts)) <= _LONG:
        return texts
    words = [text.split() for text in texts]
    one, other = (
        " ".join(word for word in own if word not in others) for own, others in (words, reversed(words))
    )
    # The same words in another order.
    return (one or "without that", other or "without that") if one != other else texts


def imported(a: ExperimentResults, b: ExperimentResults) -> list[str]:
    """Return what the sides lack that were measured by another tool (see `oscope.tools.importing`)."""
    lacks: dict[str, list[str]] = {}
    for side in (a, b):
        found = side.environment.get("imported")
        if found:
            lacks.setdefault(str(found["tool"]), [str(each) for each in found["lacks"]])
    return [
        f"imported from {tool}, which lacks {', '.join(lack)}: the verdict is no better than that"
        for tool, lack in lacks.items()
    ]


def _machines(a: ExperimentResults, b: ExperimentResults, allow: frozenset[str]) -> list[str]:
    remedy = "--allow machine compares them if that is the question"
    guests = a.environment.get("guest"), b.environment.get("guest")
    if (guests[0] is None) != (guests[1] is None):
        if MACHINE not in allow:
            places = ["the machine itself" if guest is None else "a guest" for guest in guests]
            refuse("machine", places[0], places[1], f"a guest is another machine; {remedy}")
        return ["one side ran in a guest: a difference may be the guest's"]
    machines = a.environment.get("machine"), b.environment.get("machine")
    caveats = []
    if None in machines:
        caveats.append("a record does not say on which machine it was made")
    elif machines[0] != machines[1]:
        if MACHINE not in allow:
            refuse("machine", machines[0], machines[1], remedy)
        caveats.append("the sides ran on different machines: a difference may be the machines'")
    if guests[0] is not None and guests[1] is not None:
        caveats += _guests(guests[0], guests[1], allow)
    return caveats


def _kernels(a: ExperimentResults, b: ExperimentResults, allow: frozenset[str]) -> list[str]:
    """Refuse other kernels, unless allowed; another machine's is part of what differs there."""
    kernels = kernel_parts(a), kernel_parts(b)
    if not all(kernels):
        return ["a record does not say which kernel it ran under"]
    unlike = {name: told_apart(*(kernel.get(name) for kernel in kernels)) for name in kernels[0] | kernels[1]}
    unlike = {name: pair for name, pair in unlike.items() if pair[0] != pair[1]}
    if not allow & {KERNEL, MACHINE}:
        for name, (one, other) in unlike.items():
            refuse(name, one, other, "--allow kernel compares them if that is the question")
    if not unlike:
        return []
    sides = (f"A ran {one}, B {other} ({name})" for name, (one, other) in unlike.items())
    return [f"the kernels differ: {'; '.join(sides)}"]


def _guests(a: Mapping[str, Any], b: Mapping[str, Any], allow: frozenset[str]) -> list[str]:
    """Refuse guests of different make; say what else differs between them."""
    differences = []
    for key, what in _SAME_GUEST.items():
        if a.get(key) == b.get(key):
            continue
        if MACHINE not in allow:
            refuse(what, a.get(key), b.get(key), "--allow machine compares them if that is the question")
        differences.append(f"the {what} differs ({a.get(key)} and {b.get(key)})")
    differences += [
        f"the guests differ in {what} ({a.get(key)} and {b.get(key)})"
        for key, what in _TOLD_OF_GUEST.items()
        if a.get(key) != b.get(key)
    ]
    return differences


def _boots(a: ExperimentResults, b: ExperimentResults) -> list[str]:
    names = a.environment.get("boot_id"), b.environment.get("boot_id")
    if None in names or names[0] == names[1] or min(_boot_count(a), _boot_count(b)) >= BOOTS_FOR_A_VERDICT:
        return []
    return ["the sides ran in different boots; a verdict on kernels needs 5 boots a side"]


def _boot_count(results: ExperimentResults) -> int:
    return max((len(np.unique(point.boot)) for point in results.points), default=0)
