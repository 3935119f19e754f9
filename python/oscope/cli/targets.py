"""Files that a command shall write: looked at before anything is measured, so that a typo costs no run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from oscope.errors import UsageError

STANDARD_OUTPUT = "-"


@dataclass(frozen=True)
class Targets:
    """Where the results of a run go, beside the store and the terminal."""

    json: str | None = None
    """A file, or `-` for standard output."""
    report: Path | None = None
    figures: Path | None = None

    def check(self) -> None:
        """Raise UsageError where one of them cannot be written."""
        if self.json is not None:
            check_data(self.json, "--json")
        if self.report is not None:
            check_file(self.report, "--report")
        if self.figures is not None:
            check_folder(self.figures, "--figures")


def check_data(target: str, option: str) -> None:
    """Raise UsageError unless `target` is `-` or a file that can be written."""
    if target != STANDARD_OUTPUT:
        check_file(Path(target), option)


def check_file(path: Path, option: str) -> None:
    """Raise UsageError unless a file can be written at `path`; nothing is created or changed."""
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder", remedy="name a file in it")
    if path.exists() and not path.is_file():
        # Files appear by renaming a finished one, which would take the place of a device such as /dev/null.
        raise UsageError(f"{option} {path} is not an ordinary file", remedy="name another file")
    _check_parent(path, option)


def check_folder(path: Path, option: str) -> None:
    """Raise UsageError unless `path` is a folder that can be written into, or can be made."""
    if path.is_dir():
        _check_access(path, option, path)
    elif path.exists():
        raise UsageError(f"{option} {path} is not a folder", remedy="name a folder")
    else:
        _check_parent(path, option)


def _check_parent(path: Path, option: str) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(
            f"{option} {path}: the folder {folder} does not exist", remedy=f"make it: mkdir -p {folder}"
        )
    _check_access(path, option, folder)


def _check_access(path: Path, option: str, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{option} {path}: the folder {folder} is not writable",
            remedy=f"name another place with {option}",
        )
