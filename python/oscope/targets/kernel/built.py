"""The kernels that are built: read from the cache, and put there whole."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError
from oscope.targets.kernel import config, kernel_dirs, modules
from oscope.targets.kernel.config import Fragment
from oscope.targets.kernel.kernel import Kernel
from oscope.targets.kernel.make import LOG, Work
from oscope.targets.kernel.patches import Patch
from oscope.targets.kernel.recipe import Recipe
from oscope.targets.kernel.source import Source

IMAGE = "bzImage"
INSTALLED = "installed"
"""Where the modules of the kernel's own source are, if the configuration has any, as below /."""
MANIFEST = "kernel.json"
_SCHEMA = "oscope.kernel/1"
_PRODUCTS = {
    "arch/x86/boot/bzImage": IMAGE,
    ".config": "config",
    "System.map": "System.map",
    "Module.symvers": "Module.symvers",
    "modules.builtin": "modules.builtin",
    LOG: LOG,
}
_DEBUG_PRODUCTS = {"vmlinux": "vmlinux"}


@dataclass(frozen=True)
class Entry:
    """A kernel in the cache, and how it came there."""

    kernel: Kernel
    made: datetime
    work: Work
    size_bytes: int


def load(kernel_id: str) -> Kernel | None:
    """Return the kernel with this id; None where it is not built."""
    folder = kernel_dirs.built(kernel_id)
    return _entry(folder, modules.sources()).kernel if (folder / MANIFEST).is_file() else None


def entries() -> list[Entry]:
    """Return all kernels in the cache, the newest first."""
    folders = [file.parent for file in kernel_dirs.built().glob(f"*/{MANIFEST}")]
    whole = [folder for folder in folders if not folder.name.endswith(kernel_dirs.UNFINISHED)]
    module_sources = modules.sources()
    found = [_entry(folder, module_sources) for folder in whole]
    return sorted(found, key=lambda entry: entry.made, reverse=True)


def keep(recipe: Recipe, output: Path, work: Work) -> None:
    """Copy what was built into the cache, whole or not at all."""
    folder = kernel_dirs.built(recipe.id)
    unfinished = folder.with_name(folder.name + kernel_dirs.UNFINISHED)
    unfinished.mkdir(parents=True)
    try:
        debug = config.DEBUG in recipe.variant.split(",")
        for product, name in (_PRODUCTS | (_DEBUG_PRODUCTS if debug else {})).items():
            shutil.copyfile(output / product, unfinished / name)
        if (installed := output / INSTALLED).is_dir():
            shutil.copytree(installed, unfinished / INSTALLED, symlinks=True)
        _write_recipe(recipe, unfinished)
        manifest = {
            "schema": _SCHEMA,
            "id": recipe.id,
            "name": recipe.name,
            "release": (output / "include/config/kernel.release").read_text().strip(),
            "source": recipe.source.label,
            "patches": recipe.patch_names,
            "variant": recipe.variant,
            "compiler": recipe.compiler,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "work": asdict(work),
            "origin": {
                "identity": recipe.source.identity,
                "key": recipe.source.key,
                "path": str(recipe.source.origin),
            },
        }
        (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        unfinished.rename(folder)
    except OSError as error:
        raise OscopeError(
            f"the kernel cannot be kept in {folder} ({error.strerror})", remedy="make room, then build again"
        ) from error
    finally:
        if unfinished.exists():
            shutil.rmtree(unfinished)


def recipe_of(kernel: Kernel) -> Recipe:
    """Return what a kernel in the cache was made of. Raises OscopeError where that is not known."""
    if kernel.folder is None:
        raise OscopeError(
            f"{kernel.image} was not built here: what it is made of is not known",
            remedy="build it with oscope kernel build, and name what that prints",
        )
    manifest = _manifest(kernel.folder)
    origin = manifest["origin"]
    return Recipe(
        Source(manifest["source"], origin["identity"], origin["key"], Path(origin["path"])),
        tuple(Patch(_name(file), file.read_bytes()) for file in _parts(kernel.folder, "patches")),
        tuple(
            Fragment(_name(file), file.read_text(), own=True) for file in _parts(kernel.folder, "fragments")
        ),
        manifest["compiler"],
    )


def _write_recipe(recipe: Recipe, folder: Path) -> None:
    for kind in ("patches", "fragments"):
        (folder / kind).mkdir()
    for number, patch in enumerate(recipe.patches):
        (folder / "patches" / f"{number:02}-{patch.name}").write_bytes(patch.text)
    for number, part in enumerate(recipe.fragments):
        (folder / "fragments" / f"{number:02}-{part.name}").write_text(part.text)


def _parts(folder: Path, kind: str) -> list[Path]:
    return sorted((folder / kind).iterdir())


def _name(file: Path) -> str:
    return file.name.partition("-")[2]


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise _unreadable(folder, str(error)) from error
    if not isinstance(manifest, dict) or manifest.get("schema") != _SCHEMA:
        raise _unreadable(folder, f"it is no {_SCHEMA}")
    return manifest


def _unreadable(folder: Path, why: str) -> OscopeError:
    return OscopeError(
        f"{folder / MANIFEST} cannot be read ({why})", remedy=f"remove {folder}, then build again"
    )


def _entry(folder: Path, module_sources: modules.Sources) -> Entry:
    manifest = _manifest(folder)
    kernel = Kernel(
        id=manifest["id"],
        release=manifest["release"],
        image=folder / IMAGE,
        source=manifest["source"],
        patches=tuple(manifest["patches"]),
        variant=manifest["variant"],
        folder=folder,
        modules=modules.present(folder, module_sources),
    )
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return Entry(kernel, datetime.fromisoformat(manifest["made"]), Work(**manifest["work"]), size)
