"""Builds kernels, each once: one in the cache is not built again, and another only as far as it differs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from oscope.errors import OscopeError
from oscope.kernel import built, config, places, source, tools, tree
from oscope.kernel.kernel import Kernel
from oscope.kernel.listener import Listener
from oscope.kernel.make import Make, Work
from oscope.kernel.recipe import Recipe

_FIRST_STEPS = 2050
"""Files that are made for the guest's configuration, until a build has counted them."""
_COUNT = ".oscope-steps"
_SHARE_OF_AGAIN = 8
"""Of the room for a build from nothing, what one that goes on from another is asked for."""


def build(recipe: Recipe, listener: Listener, jobs: int | None = None) -> Kernel:
    """Return the kernel of this recipe, building what of it is not built.

    `jobs` are the programs that make runs at a time (default: as many as there are CPUs to use). Only one
    build goes on at a time: a second one waits.

    Raises OscopeError that names what is missing, does not apply, did not stick or does not compile, and
    KeyboardInterrupt after a SIGINT or SIGTERM; the next build then goes on from there.
    """
    if (kernel := built.load(recipe.id)) is not None:
        return kernel
    tools.require(tools.BUILDING)
    with places.alone(listener):
        # Whom this build waited for may have built it.
        if (kernel := built.load(recipe.id)) is not None:
            return kernel
        return _build(recipe, listener, jobs or len(os.sched_getaffinity(0)))


def _build(recipe: Recipe, listener: Listener, jobs: int) -> Kernel:
    if source.find(None if recipe.source.packed else recipe.source.origin).identity != recipe.source.identity:
        raise OscopeError(
            f"{recipe.source.origin} is not what it was: {recipe.source.label} was wanted",
            remedy="build again with what is there now",
        )
    options = config.merge(recipe.fragments)
    output = places.output(recipe.workshop, config.digest(options))
    debug = "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT" in options
    first = not output.exists()
    room = places.ROOM_WITH_DEBUG if debug else places.ROOM
    # Where it was built before, most of what make writes is there.
    needed = room if first else room // _SHARE_OF_AGAIN
    places.check_room(output, needed, f"building {recipe.name}")
    folder = tree.prepare(recipe, listener)
    output.mkdir(parents=True, exist_ok=True)
    make = Make(folder, output, listener)
    make.log.unlink(missing_ok=True)
    _configure(recipe, make)
    work = _compile(recipe, make, jobs)
    if first:
        (output / _COUNT).write_text(str(work.steps))
    return built.keep(recipe, output, work)


def _configure(recipe: Recipe, make: Make) -> None:
    wanted = make.output / "wanted.config"
    wanted.write_text(config.render(config.merge(recipe.fragments)))
    # It leaves .config as it is where nothing changed, and so does all that depends on it.
    make.run(f"configuring {recipe.name}", f"KCONFIG_ALLCONFIG={wanted}", "allnoconfig")
    note = config.check(recipe.fragments, (make.output / ".config").read_text(), make.tree)
    if note is not None:
        make.listener.note(note)


def _compile(recipe: Recipe, make: Make, jobs: int) -> Work:
    # Where a build goes on from an earlier one, nobody knows how much is left.
    expected = None if (make.output / "vmlinux.o").exists() else _expected(make.output)
    work = make.run(f"building {recipe.name}", f"--jobs={jobs}", "bzImage", "modules", expected=expected)
    modules = make.output / built.MODULES
    shutil.rmtree(modules, ignore_errors=True)
    if (make.output / "modules.order").stat().st_size:
        make.run(f"installing modules of {recipe.name}", f"INSTALL_MOD_PATH={modules}", "modules_install")
    return work


def _expected(output: Path) -> int:
    """Return the files that were made for the configuration that was built last from nothing."""
    counts = sorted(output.parent.glob(f"*/{_COUNT}"), key=lambda file: file.stat().st_mtime)
    return int(counts[-1].read_text()) if counts else _FIRST_STEPS
