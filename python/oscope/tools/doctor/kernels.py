"""What building kernels for guests needs: programs, a source, room on disk; and what boots them."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import shutil
from collections.abc import Callable
from dataclasses import replace

from oscope.model.errors import OscopeError
from oscope.model.finding import Finding
from oscope.model.units import GIBIBYTE
from oscope.targets.guest import accelerator, initramfs
from oscope.targets.kernel import kernel_dirs, source, tools
from oscope.tools.doctor.host import try_open

_BUILDING = "oscope kernel build, ab and check-patch"
_GUESTS = "guests under other kernels"


def _tools() -> Finding:
    """Look for every program that a build calls, and have the compiler look for the header that it needs."""
    lacking = tools.missing(tools.BUILDING | tools.UNPACKING | tools.CHECKING)
    name = "kernel build tools"
    if lacking:
        found = f"not installed: {', '.join(lacking)}"
        return Finding(name, "missing", found, _BUILDING, tools.install(lacking.values()))
    return Finding(name, "ok", tools.compiler(), _BUILDING)


def _source() -> Finding:
    name = "kernel source"
    try:
        found = source.find()
    except OscopeError as error:
        return Finding(name, "missing", error.message, _BUILDING, error.remedy)
    state = "unpacked" if found.root.is_dir() else "not unpacked yet"
    return Finding(name, "ok", f"{found.label}, {state}", _BUILDING)


def _room() -> Finding:
    """Compare the free room with what is needed from nothing, or with what the next build needs."""
    name = "room for kernels"
    needed = kernel_dirs.ROOM
    try:
        if not source.find().root.is_dir():
            needed += kernel_dirs.ROOM_FOR_SOURCE
    except OscopeError:
        needed += kernel_dirs.ROOM_FOR_SOURCE
    free = kernel_dirs.free(kernel_dirs.cache())
    gibibytes = f"{free / GIBIBYTE:.1f} GiB free in {kernel_dirs.cache()}"
    if free < needed:
        remedy = f"make room: {needed / GIBIBYTE:.1f} GiB; or set XDG_CACHE_HOME to another disk"
        return Finding(name, "missing", gibibytes, _BUILDING, remedy)
    return Finding(name, "ok", gibibytes, _BUILDING)


def _virtme() -> Finding:
    """Import what composes the command that boots a guest."""
    name = "virtme-ng"
    try:
        version = importlib.metadata.version("virtme-ng")
        importlib.import_module("virtme.commands.run")
    except ImportError as error:
        return Finding(
            name, "missing", str(error), _GUESTS, "install Oscope with what it depends on: make setup"
        )
    return Finding(name, "ok", version, _GUESTS)


def _programs() -> Finding:
    """Look for the programs, beside QEMU, that a boot calls."""
    name = "guest programs"
    lacking = initramfs.missing()
    if shutil.which("setpriv") is None:
        lacking["setpriv"] = "util-linux"
    if lacking:
        found = f"not installed: {', '.join(lacking)}"
        return Finding(name, "missing", found, _GUESTS, tools.install(lacking.values()))
    return Finding(name, "ok", ", ".join(("setpriv", *initramfs.PACKAGES)), _GUESTS)


def _kvm() -> Finding:
    """Tell what an earlier trial boot found; none is made, since it needs a kernel."""
    finding = try_open("KVM", accelerator.DEVICE, os.O_RDWR, "guests at full speed")
    if finding.status != "ok":
        return finding
    choice = accelerator.recall()
    if choice is None:
        found = f"{finding.found}; no guest was booted since this machine was"
        return replace(finding, status="limited", found=found, remedy="boot one: oscope kernel boot")
    if choice.accelerator == "tcg":
        found = f"{choice.why.rstrip('.')}; guests are emulated"
        remedy = "a machine on which KVM works; counting instructions needs none"
        return replace(finding, status="limited", found=found, remedy=remedy)
    return replace(finding, found=choice.why)


KERNEL_CHECKS: tuple[Callable[[], Finding], ...] = (_tools, _source, _room, _virtme, _programs, _kvm)
