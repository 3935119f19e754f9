"""A guest as a place to measure at: each probe there is a boot of its own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from oscope.model.errors import OscopeError
from oscope.model.guest import Guest
from oscope.probe import catalogue, instructions
from oscope.probe.process import Probe
from oscope.probe.wire import Sample
from oscope.targets import kernel
from oscope.targets.affinity import Affinity
from oscope.targets.guest import initramfs
from oscope.targets.guest.accelerator import choose
from oscope.targets.guest.boot import guarded
from oscope.targets.guest.console import Console
from oscope.targets.guest.machine import EXACT_DATE_NS, Machine, MachineSpec, for_probe

HELLO_LIMIT_S = {"kvm": 30.0, "tcg": 60.0}
"""An emulated guest greets within 6 s on an idle machine; it may not be idle."""
_SLOWNESS = {"kvm": 2.0, "tcg": 20.0}
"""An emulated CPU takes about twenty real instructions for one of the guest's."""


class GuestProbe(Probe):
    """The probe in a guest. Every error contains the guest's console."""

    subject = "the guest"
    busy_patience = 1
    """A guest that hangs computes as well."""

    def __init__(
        self,
        command: Sequence[str | Path],
        console: Console,
        *,
        hello_limit_s: float,
        begun: Callable[[Probe], None] | None = None,
    ) -> None:
        """Boot the guest, and wait for the probe's greeting; ProbeError where none comes."""
        self._console = console
        super().__init__(command, hello_limit_s=hello_limit_s, begun=begun)

    def kill(self) -> None:
        """End the guest at once, and release everything."""
        super().kill()
        self._console.close()

    def doing(self) -> str:
        """QEMU's threads tell nothing of the guest's."""
        return ""

    def last_words(self) -> str:
        """Return the probe's, and what the console says of the guest."""
        if self.terminated:
            # It ends because it was asked to: nobody is shown the error, and the console need not be kept.
            return super().last_words()
        return f"{super().last_words()}; {self._console.explain()}"


class GuestTarget:
    """Guests of one kind, a fresh boot for each probe."""

    traceable = False

    def __init__(
        self, guest: Guest, programs: Collection[str], probe: Path, affinity: Affinity, machine: object
    ) -> None:
        """Find the kernel, pack the probe at `probe` and decide how the guests are run.

        They have `programs` in /bin. `machine` is what names this machine in its own environment. Raises
        OscopeError where there can be no such guest.
        """
        self.name = f"guest:{guest.kernel}"
        self.guest = guest
        self._affinity = affinity
        self._host = machine
        self.kernel = kernel.find(guest.kernel)
        self._workloads = catalogue.load(probe).workloads
        self._initramfs = initramfs.pack(probe, programs, self.kernel.modules_folder)
        with affinity.starting():
            self.choice = choose(guest.clock, self.kernel.image, self._initramfs)
        self.slowness = _SLOWNESS[self.choice.accelerator]
        self._machine: Machine | None = None
        self._ahead_ns = 0
        """By how much this machine's clock is ahead of that of a guest under way that counts instructions."""

    def start(self, begun: Callable[[Probe], None] | None = None) -> GuestProbe:
        """Boot a guest and wait for its probe's greeting; `begun` is given it before. Raises ProbeError."""
        console = Console()
        try:
            spec = MachineSpec(
                image=self.kernel.image,
                accelerator=self.choice.accelerator,
                clock=self.guest.clock,
                cpus=self.guest.cpus,
                memory_bytes=self.guest.memory_bytes,
                console=console.path,
            )
            self._machine = for_probe(spec, self._initramfs)
            with self._affinity.starting():
                probe = GuestProbe(
                    guarded(self._machine.command),
                    console,
                    hello_limit_s=HELLO_LIMIT_S[self.choice.accelerator],
                    begun=begun,
                )
        except BaseException:
            console.close()
            raise
        # Exact to a second: the guest reads its date in seconds when it boots.
        self._ahead_ns = time.time_ns() - EXACT_DATE_NS - round(1e9 * probe.hello.environment["uptime_s"])
        return probe

    def environment(self, probe: Probe) -> Mapping[str, Any]:
        """Return what the probe says of the guest, and of what the guest is made."""
        if self._machine is None:
            raise OscopeError("no guest was booted yet")
        return {
            **probe.hello.environment,
            # With the instructions clock, chance itself repeats, and each boot would have the same name.
            "boot_id": str(uuid.uuid4()),
            "machine": self._host,
            "guest": {
                "kernel": self.kernel.describe(),
                "accelerator": self.choice.accelerator,
                "why": self.choice.why,
                "cpus": self.guest.cpus,
                "memory_bytes": self.guest.memory_bytes,
                "clock": self.guest.clock,
                "cpu_model": self._machine.cpu_model,
                "kernel_options": list(self._machine.kernel_options),
                "qemu": self._machine.qemu,
                "virtme": self._machine.virtme,
            },
        }

    def translate(self, sample: Sample, workload: str) -> Sample:
        """Return `sample` with the metrics that a plan has for it: by the instructions clock, counts.

        Its date, there the same in every boot, becomes this machine's.
        """
        if self.guest.clock == "wall":
            return sample
        # The guest's clock jumps over its idle time: no sample began later than it came.
        started_ns = min(sample.started_ns + self._ahead_ns, time.time_ns())
        dated = msgspec.structs.replace(sample, started_ns=started_ns)
        return instructions.translate_sample(dated, self._workloads[workload])
