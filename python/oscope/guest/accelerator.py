"""Decides how a guest is run: by KVM where a trial boot shows that it can, else by emulation.

A /dev/kvm that exists may still be unable to run a guest, such as in a virtual machine whose host does not
pass the processor's extensions on as it should.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from oscope.clocks import Clock
from oscope.guest.boot import RunningGuest
from oscope.guest.console import Console
from oscope.guest.initramfs import cache_folder
from oscope.guest.machine import Accelerator, Wanted, for_probe

TRIAL_LIMIT_S = 10.0
"""With KVM that works, a guest greets within 2 s."""
_DEVICE = Path("/dev/kvm")
_MEMORY_BYTES = 512 << 20
_REMEMBERED = "accelerator.json"


@dataclass(frozen=True)
class Choice:
    """How guests are run here, and why."""

    accelerator: Accelerator
    why: str


def choose(clock: Clock, image: Path, initramfs: Path) -> Choice:
    """Return how to run guests; a trial boot of `image` is made once in each boot of this machine."""
    if clock == "instructions":
        return Choice("tcg", "only an emulated CPU counts its instructions")
    if not _DEVICE.exists():
        return Choice("tcg", f"there is no {_DEVICE}")
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return Choice("tcg", f"{_DEVICE} is not open to this user")
    file, boot = cache_folder() / _REMEMBERED, Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    remembered = _recall(file, boot)
    if remembered is not None:
        return remembered
    found = _try(image, initramfs)
    if found is None:
        return Choice("tcg", "the trial boot by KVM ended without a word on KVM")
    _remember(file, boot, found)
    return found


def _try(image: Path, initramfs: Path) -> Choice | None:
    """Boot a guest by KVM, and say how it went; None where that tells nothing of KVM."""
    with Console() as console:
        wanted = Wanted(image, "kvm", "wall", 1, _MEMORY_BYTES, console.path)
        with RunningGuest(for_probe(wanted, initramfs).command, console) as guest:
            try:
                greeting, words = guest.process.communicate(timeout=TRIAL_LIMIT_S)
            except subprocess.TimeoutExpired:
                return Choice("tcg", f"a trial boot by KVM hung for {TRIAL_LIMIT_S:g} s")
            # A kernel that speaks was run, even if it panics.
            if greeting or console.lines():
                return Choice("kvm", "a trial boot by KVM went well")
            said = words.decode(errors="replace").strip().splitlines()
            told = [line for line in said if "kvm" in line.lower()]
            if told:
                return Choice("tcg", f"a trial boot by KVM failed: {told[-1].strip()}")
    return None


def _recall(file: Path, boot: str) -> Choice | None:
    try:
        found = orjson.loads(file.read_bytes())
        if found["boot"] == boot:
            return Choice(found["accelerator"], found["why"])
    except (OSError, ValueError, KeyError, TypeError):
        # None or half of one: the trial is made anew.
        pass
    return None


def _remember(file: Path, boot: str, found: Choice) -> None:
    whole = file.with_suffix(f".{os.getpid()}")
    whole.write_bytes(orjson.dumps({"boot": boot, **asdict(found)}))
    whole.replace(file)
