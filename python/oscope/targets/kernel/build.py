"""Builds kernels, each once: one in the cache is not built again, and another only as far as it differs."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.targets.kernel import built, config, kernel_dirs, modules, source, tools, tree
from oscope.targets.kernel.kernel import Kernel
from oscope.targets.kernel.listener import Listener
from oscope.targets.kernel.make import Make, Work
from oscope.targets.kernel.recipe import Recipe

_FIRST_STEPS = 2050
"""Files that are made for the guest's configuration, until a build has counted them."""
_COUNT = ".oscope-steps"
_MARK = ".oscope-at"
"""Says, in an output and beside a work tree, what these are at; none while they are being changed."""
_SHARE_OF_AGAIN = 8
"""Of the room for a build from nothing, what one that goes on from another is asked for."""


def build(
    recipe: Recipe,
    listener: Listener,
    jobs: int | None = None,
    *,
    module_sources: modules.Sources | None = None,
) -> Kernel:
    """Return the kernel of this recipe with modules for it, building what of them is not built.

    `jobs` are the programs that make runs at a time (default: as many as there are CPUs to use);
    `module_sources` are those of the modules (default: Oscope's own). Only one build goes on at a time: a
    second one waits.

    Raises OscopeError that names what is missing, does not apply, did not stick or does not compile, and
    KeyboardInterrupt after a SIGINT or SIGTERM; the next build then goes on from there. A kernel whose
    modules do not compile is kept without them.
    """
    if module_sources is None:
        module_sources = modules.sources()
    if (kernel := _whole(recipe, module_sources)) is not None:
        return kernel
    tools.require(tools.BUILDING)
    with kernel_dirs.alone(listener):
        # The build that this one waited for may have made it.
        if (kernel := _whole(recipe, module_sources)) is not None:
            return kernel
        _build(recipe, module_sources, listener, jobs or len(os.sched_getaffinity(0)))
    kernel = built.load(recipe.id)
    if kernel is None:
        raise OscopeError(f"{recipe.name} was removed while it was built", remedy="build it again")
    return kernel


def _whole(recipe: Recipe, module_sources: modules.Sources) -> Kernel | None:
    """Return the kernel if it is built, and its modules are built from `module_sources`."""
    kernel = built.load(recipe.id)
    whole = kernel is not None and (not module_sources.files or kernel.modules == module_sources.digest)
    return kernel if whole else None


def _build(recipe: Recipe, module_sources: modules.Sources, listener: Listener, jobs: int) -> None:
    if source.find(None if recipe.source.packed else recipe.source.origin).identity != recipe.source.identity:
        raise OscopeError(
            f"{recipe.source.origin} is not what it was: {recipe.source.label} was wanted",
            remedy="build again with what is there now",
        )
    options = config.merge(recipe.fragments)
    make = Make(
        kernel_dirs.tree(recipe.workshop),
        kernel_dirs.output(recipe.workshop, config.digest(options)),
        listener,
    )
    kept = built.load(recipe.id) is not None
    if not kept or not _is_at(recipe, make):
        work = _bring(recipe, make, jobs)
        if not kept:
            built.keep(recipe, make.output, work)
    if module_sources.files:
        own = replace(make, log_name=modules.LOG)
        modules.build(module_sources, own, kernel_dirs.built(recipe.id), name=recipe.name, jobs=jobs)


def _is_at(recipe: Recipe, make: Make) -> bool:
    """Return whether source and output are those of this kernel: both are used for others, too."""
    try:
        return _tree_mark(make).read_text() == recipe.patched and _mark(make).read_text() == recipe.id
    except FileNotFoundError:
        return False


def _mark(make: Make) -> Path:
    return make.output / _MARK


def _tree_mark(make: Make) -> Path:
    return make.tree.with_name(make.tree.name + _MARK)


def _bring(recipe: Recipe, make: Make, jobs: int) -> Work:
    """Make source and output those of this kernel, and return what that took."""
    debug = "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT" in config.merge(recipe.fragments)
    first = not make.output.exists()
    room = kernel_dirs.ROOM_WITH_DEBUG if debug else kernel_dirs.ROOM
    # Where it was built before, most of what make writes is there.
    needed = room if first else room // _SHARE_OF_AGAIN
    kernel_dirs.check_room(make.output, needed, f"building {recipe.name}")
    for mark in (_tree_mark(make), _mark(make)):
        mark.unlink(missing_ok=True)
    tree.prepare(recipe, make.listener)
    _tree_mark(make).write_text(recipe.patched)
    make.output.mkdir(parents=True, exist_ok=True)
    make.log.unlink(missing_ok=True)
    _configure(recipe, make)
    work = _compile(recipe, make, jobs)
    _mark(make).write_text(recipe.id)
    if first:
        (make.output / _COUNT).write_text(str(work.steps))
    return work


def _configure(recipe: Recipe, make: Make) -> None:
    requested = make.output / "requested.config"
    requested.write_text(config.render(config.merge(recipe.fragments)))
    # It leaves .config as it is where nothing changed, and so does all that depends on it.
    make.run(f"configuring {recipe.name}", f"KCONFIG_ALLCONFIG={requested}", "allnoconfig")
    note = config.check(recipe.fragments, (make.output / ".config").read_text(), make.tree)
    if note is not None:
        make.listener.note(note)


def _compile(recipe: Recipe, make: Make, jobs: int) -> Work:
    # Where a build goes on from an earlier one, nobody knows how much is left.
    expected = None if (make.output / "vmlinux.o").exists() else _expected(make.output)
    work = make.run(f"building {recipe.name}", f"--jobs={jobs}", "bzImage", "modules", expected=expected)
    installed = make.output / built.INSTALLED
    shutil.rmtree(installed, ignore_errors=True)
    if (make.output / "modules.order").stat().st_size:
        make.run(f"installing modules of {recipe.name}", f"INSTALL_MOD_PATH={installed}", "modules_install")
    return work


def _expected(output: Path) -> int:
    """Return the files that were made for the configuration that was built last from nothing."""
    counts = sorted(output.parent.glob(f"*/{_COUNT}"), key=lambda file: file.stat().st_mtime)
    return int(counts[-1].read_text()) if counts else _FIRST_STEPS
