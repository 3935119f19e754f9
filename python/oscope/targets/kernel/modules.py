"""Oscope's own kernel modules: built for each kernel and kept beside it, whole or not at all.

They are no part of what identifies a kernel: where their sources change, only they are built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.targets.kernel import kernel_dirs
from oscope.targets.kernel.make import Make

LINK = "modules"
"""In a built kernel's folder: the modules that were built last, `NAME.ko`."""
LOG = "modules.log"
_MEANING = b"oscope.modules/1"
"""Changes where the same sources come to be built otherwise."""
_DIGEST_DIGITS = 12
_FILES = ("Kbuild", "Makefile")
_SUFFIXES = (".c", ".h", ".S")
_KEPT_S = 24 * 3600.0


@dataclass(frozen=True)
class Sources:
    """What the modules are made of, read once: content by file name."""

    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Return 12 hex digits that differ where a file does; "" where there is no file."""
        if not self.files:
            return ""
        digest = hashlib.sha256(_MEANING)
        for name, content in sorted(self.files.items()):
            digest.update(f"\0{name}\0{len(content)}\0".encode(errors="surrogateescape"))
            digest.update(content)
        return digest.hexdigest()[:_DIGEST_DIGITS]


NONE = Sources({})
"""For a kernel that is built for its own sake."""


def sources(folder: Path | None = None) -> Sources:
    """Return the sources of the modules in `folder` (default: those that come with Oscope).

    What a build left beside them is none.
    """
    found = [
        file
        for file in (folder or kernel_dirs.MODULES).glob("*")
        if file.name in _FILES or (file.suffix in _SUFFIXES and not file.name.endswith(".mod.c"))
    ]
    return Sources({file.name: file.read_bytes() for file in found if file.is_file()})


def folder_of(kernel: Path, digest: str) -> Path:
    """Return where, in the folder of a built kernel, modules of sources with this digest are kept."""
    return kernel / f"{LINK}-{digest}"


def present(kernel: Path, module_sources: Sources) -> str:
    """Return the digest of the sources where the kernel in this folder has modules of just these, else ""."""
    digest = module_sources.digest
    return digest if digest and (kernel / LINK).resolve() == folder_of(kernel, digest).resolve() else ""


def build(module_sources: Sources, make: Make, kernel: Path, *, name: str, jobs: int) -> None:
    """Build the modules against what `make` built last, and keep them in that kernel's folder.

    Is to be called within `kernel_dirs.alone`. Raises OscopeError with the first error that make reports, and
    KeyboardInterrupt after a SIGINT or SIGTERM; the modules that were there are then still there.
    """
    folder = folder_of(kernel, module_sources.digest)
    if folder.is_dir():
        # The sources are again what they once were. A guest may have these modules in use from now on.
        with _kept_in(folder):
            os.utime(folder)
            _link(folder)
        return
    workshop = make.output / LINK
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir()
    for file, content in module_sources.files.items():
        (workshop / file).write_bytes(content)
    make.log.unlink(missing_ok=True)
    make.run(f"building modules of {name}", f"--jobs={jobs}", f"M={workshop}", "modules")
    made = sorted(workshop.glob("*.ko"))
    if not made:
        raise OscopeError(
            f"building modules of {name} made none", remedy="name one in the Kbuild file: obj-m += NAME.o"
        )
    _keep([*made, make.log], folder)


def _keep(files: list[Path], folder: Path) -> None:
    unfinished = folder.with_name(folder.name + kernel_dirs.UNFINISHED)
    with _kept_in(folder):
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            for file in files:
                shutil.copyfile(file, unfinished / file.name)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        _link(folder)
    _forget_old(folder)


@contextlib.contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Say of an OSError that the modules cannot be kept there."""
    try:
        yield
    except OSError as error:
        raise OscopeError(
            f"the modules cannot be kept in {folder} ({error.strerror})", remedy="make room, then build again"
        ) from error


def _link(folder: Path) -> None:
    link = folder.with_name(LINK)
    new = link.with_name(LINK + kernel_dirs.UNFINISHED)
    new.unlink(missing_ok=True)
    new.symlink_to(folder.name)
    new.replace(link)


def _forget_old(kept: Path) -> None:
    """Remove what was built from other sources a day ago or more: until then a guest may have it in use."""
    for other in kept.parent.glob(f"{LINK}-*"):
        with contextlib.suppress(FileNotFoundError):
            if other != kept and time.time() - other.stat().st_mtime > _KEPT_S:
                shutil.rmtree(other)
