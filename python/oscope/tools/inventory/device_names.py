"""What a device is, from its numbers.

After Documentation/admin-guide/devices.txt of the kernel for numbers that are fixed, /proc/devices and sysfs
for the others.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Kind = Literal["char", "block"]

_ONE: dict[tuple[str, int, int], tuple[str, str]] = {
    ("char", 1, 1): ("mem", "physical memory"),
    ("char", 1, 3): ("null", "takes all and holds nothing"),
    ("char", 1, 4): ("port", "I/O ports"),
    ("char", 1, 5): ("zero", "gives zero bytes without end"),
    ("char", 1, 7): ("full", "is always full"),
    ("char", 1, 8): ("random", "random numbers, once there are good ones"),
    ("char", 1, 9): ("urandom", "random numbers"),
    ("char", 1, 11): ("kmsg", "the kernel's messages"),
    ("char", 5, 0): ("tty", "the process's own controlling terminal"),
    ("char", 5, 1): ("console", "the system's console"),
    ("char", 5, 2): ("ptmx", "makes pseudo-terminals: the master's side of one"),
    ("char", 10, 130): ("watchdog", "watchdog timer"),
    ("char", 10, 144): ("nvram", "non-volatile memory of the machine's settings"),
    ("char", 10, 183): ("hwrng", "the machine's own random number generator"),
    ("char", 10, 196): ("vfio/vfio", "devices driven by programs"),
    ("char", 10, 200): ("net/tun", "network interfaces made by programs (TUN and TAP)"),
    ("char", 10, 203): ("cuse", "character devices made by programs"),
    ("char", 10, 223): ("uinput", "input devices made by programs"),
    ("char", 10, 228): ("hpet", "high-precision event timer"),
    ("char", 10, 229): ("fuse", "file systems made by programs"),
    ("char", 10, 231): ("snapshot", "image of memory for hibernation"),
    ("char", 10, 232): ("kvm", "virtual machines"),
    ("char", 10, 234): ("btrfs-control", "control of btrfs"),
    ("char", 10, 235): ("autofs", "control of automatic mounts"),
    ("char", 10, 236): ("mapper/control", "control of mapped block devices"),
    ("char", 10, 237): ("loop-control", "makes and removes loop devices"),
    ("char", 10, 238): ("vhost-net", "network of virtual machines, in the kernel"),
    ("char", 10, 239): ("uhid", "human interface devices made by programs"),
    ("char", 10, 241): ("vhost-vsock", "sockets between virtual machines and their host"),
    ("char", 10, 242): ("rfkill", "switches radios off"),
    ("char", 13, 63): ("input/mice", "all mice as one"),
}
"""By kind, major and minor number: its usual name below /dev, and what it is."""

_MANY: dict[tuple[str, int], tuple[str, str]] = {
    ("char", 7): ("vcs", "contents of a virtual console"),
    ("char", 13): ("input", "input device"),
    ("char", 21): ("sg", "SCSI device, by raw commands"),
    ("char", 29): ("fb", "frame buffer"),
    ("char", 81): ("video", "video device"),
    ("char", 89): ("i2c", "I²C bus"),
    ("char", 108): ("ppp", "point-to-point protocol"),
    ("char", 116): ("snd", "sound device"),
    ("char", 166): ("ttyACM", "modem on USB"),
    ("char", 180): ("usb", "USB device"),
    ("char", 188): ("ttyUSB", "serial line on USB"),
    ("char", 189): ("bus/usb", "USB device, by raw requests"),
    ("char", 195): ("nvidia", "NVIDIA graphics"),
    ("char", 202): ("cpu/msr", "model-specific registers of a CPU"),
    ("char", 203): ("cpu/cpuid", "what a CPU reports about itself"),
    ("char", 226): ("dri", "graphics card"),
    ("block", 1): ("ram", "RAM disk"),
    ("block", 7): ("loop", "file as a block device"),
    ("block", 9): ("md", "several disks as one (RAID)"),
    ("block", 11): ("sr", "optical disc"),
    ("block", 43): ("nbd", "block device over the network"),
    ("block", 179): ("mmcblk", "memory card"),
    ("block", 259): ("blkext", "partition, or NVMe disk"),
}
"""By kind and major number: whose minor numbers count devices of one sort."""
_DISKS = (8, *range(65, 72), *range(128, 136))
_TERMINALS = range(136, 144)
_SERIAL = 64
"""First minor number of major 4 that is a serial line."""


@dataclass(frozen=True)
class Identity:
    """What a device is."""

    name: str
    """Its usual name below /dev, or the name of its driver."""
    purpose: str


def identify(kind: Kind, major: int, minor: int) -> Identity:
    """Return what the device with these numbers is: a fixed one, else what this kernel says of it."""
    found = _ONE.get((kind, major, minor))
    if found is not None:
        return Identity(*found)
    if kind == "char" and major == 4:
        if minor < _SERIAL:
            return Identity(
                f"tty{minor}", "the virtual console in front" if minor == 0 else "virtual console"
            )
        return Identity(f"ttyS{minor - _SERIAL}", "serial line")
    if kind == "char" and major in _TERMINALS:
        return Identity(f"pts/{(major - _TERMINALS.start) * 256 + minor}", "pseudo-terminal")
    named = _sysfs_name(kind, major, minor)
    if kind == "block" and major in _DISKS:
        return Identity(named or "sd", "disk or partition")
    sort = _MANY.get((kind, major))
    if sort is not None:
        return Identity(named or sort[0], sort[1])
    driver = _drivers().get((kind, major))
    if driver is None and named is None:
        return Identity("unknown", "not known to this kernel")
    what = "block device" if kind == "block" else "character device"
    return Identity(named or driver or "", f"{what} of the driver {driver}" if driver else what)


def _sysfs_name(kind: Kind, major: int, minor: int) -> str | None:
    """Return the name below /dev by which the kernel announced the device."""
    with contextlib.suppress(OSError):
        for line in Path(f"/sys/dev/{kind}/{major}:{minor}/uevent").read_text().splitlines():
            key, _, value = line.partition("=")
            if key == "DEVNAME":
                return os.path.normpath(value.removeprefix("/dev/"))
    return None


@cache
def _drivers() -> dict[tuple[str, int], str]:
    """Return the drivers by kind and major number, as /proc/devices lists them (proc(5))."""
    found: dict[tuple[str, int], str] = {}
    kind = "char"
    with contextlib.suppress(OSError):
        for line in Path("/proc/devices").read_text().splitlines():
            words = line.split()
            if line.startswith("Block"):
                kind = "block"
            elif len(words) == 2 and words[0].isdigit():
                found.setdefault((kind, int(words[0])), words[1])
    return found
