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

from oscope.model.clocks import Clock
from oscope.targets.guest.boot import RunningGuest
from oscope.targets.guest.console import Console
from oscope.targets.guest.initramfs import cache_folder
from oscope.targets.guest.machine import Accelerator, MachineSpec, for_probe

TRIAL_LIMIT_S = 10.0
"""With KVM that works, a guest greets within 2 s."""
DEVICE = Path("/dev/kvm")
_MEMORY_BYTES = 512 << 20
_REMEMBERED = "accelerator.json"


@dataclass(frozen=True)
class Choice:
    """How guests are run here, and why."""

    accelerator: Accelerator
    why: str


def choose(clock: Clock, image: Path, initramfs: Path, *, trial: bool = True) -> Choice:
    """Return how to run guests; a trial boot of `image` is made once in each boot of this machine.

    Without `trial` none is made: KVM is assumed where there was no earlier one.
    """
    if clock == "instructions":
        return Choice("tcg", "only an emulated CPU counts its instructions")
    if not DEVICE.exists():
        return Choice("tcg", f"there is no {DEVICE}")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return Choice("tcg", f"{DEVICE} is not open to this user")
    remembered = recall()
    if remembered is not None:
        return remembered
    if not trial:
        return Choice("kvm", f"{DEVICE} is assumed to work: no trial boot was made yet")
    found, of_kvm = _try(image, initramfs)
    if of_kvm:
        _remember(found)
    return found


def _try(image: Path, initramfs: Path) -> tuple[Choice, bool]:
    """Boot a guest by KVM; return how to run this one, and whether the result is about KVM itself."""
    with Console() as console:
        spec = MachineSpec(image, "kvm", "wall", 1, _MEMORY_BYTES, console.path)
        with RunningGuest(for_probe(spec, initramfs).command, console) as guest:
            try:
                greeting, words = guest.process.communicate(timeout=TRIAL_LIMIT_S)
            except subprocess.TimeoutExpired as late:
                greeting, words = late.output, None
            # A kernel that speaks was run, even if it panics or hangs.
            if greeting or console.lines():
                return Choice("kvm", "a trial boot by KVM went well"), True
            if words is None:
                return Choice("tcg", f"a trial boot by KVM said nothing within {TRIAL_LIMIT_S:g} s"), False
            lines = words.decode(errors="replace").strip().splitlines()
            reports = [line for line in lines if "kvm" in line.lower()]
            if reports:
                return Choice("tcg", f"a trial boot by KVM failed: {reports[-1].strip()}"), True
    return Choice("tcg", "the trial boot by KVM ended without a word on KVM"), False


def recall() -> Choice | None:
    """Return what a trial boot reported since this machine was booted; None where there was none."""
    try:
        found = orjson.loads((cache_folder() / _REMEMBERED).read_bytes())
        if found["boot"] == _boot():
            return Choice(found["accelerator"], found["why"])
    except (OSError, ValueError, KeyError, TypeError):
        # None or half of one: the trial is made anew.
        pass
    return None


def _remember(found: Choice) -> None:
    file = cache_folder() / _REMEMBERED
    whole = file.with_suffix(f".{os.getpid()}")
    whole.write_bytes(orjson.dumps({"boot": _boot(), **asdict(found)}))
    whole.replace(file)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
