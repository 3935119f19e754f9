"""The work tree: a source with patches, made by hard links, in which only what differs is written anew.

make compares times: a file that gets other content must get a later time than what was built from it, and a
file that keeps its content must keep its time.
"""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from oscope.targets.kernel import kernel_dirs, source
from oscope.targets.kernel.listener import Listener
from oscope.targets.kernel.patches import Staged, stage
from oscope.targets.kernel.recipe import Recipe

_LINKED = ".linked"
"""Marks, beside a work tree, that it was whole once: something may have been built from it."""
_STEP = 1000


def prepare(recipe: Recipe, listener: Listener) -> Path:
    """Make the recipe's work tree what its patches make of the source, and return its folder.

    Is to be called within `kernel_dirs.alone`. Raises OscopeError where a patch does not apply; the tree
    is then as it was.
    """
    origin = recipe.source
    root = source.make_ready(origin, listener)
    folder = kernel_dirs.tree(recipe.workshop)
    with tempfile.TemporaryDirectory(prefix="staging-", dir=kernel_dirs.cache()) as staging:
        staged = stage(recipe.patches, root, Path(staging), listener.note)
        names = source.names(origin)
        marker = folder.with_name(folder.name + _LINKED)
        listener.begin(f"linking {origin.label}", len(names))
        _synchronise(root, names, folder, staged, fresh=not marker.exists(), listener=listener)
        marker.touch()
    return folder


def _synchronise(
    root: Path, names: Sequence[str], folder: Path, staged: Staged, *, fresh: bool, listener: Listener
) -> None:
    there = source.inodes(folder) if folder.is_dir() else {}
    pristine = {name for name in names if name not in staged.touched}
    patched = {name: content for name in staged.touched if (content := staged.content(name)) is not None}
    # First, since a file may have the name of a former folder, or a folder that of a former file.
    for name in there.keys() - pristine - patched.keys():
        (folder / name).unlink()
    for name in (pristine | patched.keys()) - there.keys():
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
    for done, name in enumerate(sorted(pristine)):
        if done % _STEP == 0:
            listener.progress(done)
        origin = root / name
        if name not in there:
            _add(origin, folder / name, fresh=fresh)
        elif there[name] != origin.lstat().st_ino:
            _replace(origin, folder / name)
    for name, content in patched.items():
        _replace(content, folder / name)


def _add(origin: Path, file: Path, *, fresh: bool) -> None:
    """Make `file` a link to its origin; where something may have been built from an older one, a new copy."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if origin.is_symlink() or not fresh:
        _replace(origin, file)
        return
    try:
        file.hardlink_to(origin)
    except OSError:
        # Another file system, or a file of another user's: see link(2) and fs.protected_hardlinks.
        shutil.copy2(origin, file)


def _replace(origin: Path, file: Path) -> None:
    """Give `file` the content of `origin`, as a new file: its inode may be that of a pristine one."""
    if _same(origin, file):
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}{kernel_dirs.UNFINISHED}")
    new.unlink(missing_ok=True)
    if origin.is_symlink():
        new.symlink_to(origin.readlink())
    else:
        shutil.copyfile(origin, new)
        shutil.copymode(origin, new)
    new.replace(file)


def _same(origin: Path, file: Path) -> bool:
    if origin.is_symlink() or file.is_symlink():
        return origin.is_symlink() and file.is_symlink() and origin.readlink() == file.readlink()
    if not file.is_file() or (origin.stat().st_mode ^ file.stat().st_mode) & 0o111:
        return False
    return filecmp.cmp(origin, file, shallow=False)
