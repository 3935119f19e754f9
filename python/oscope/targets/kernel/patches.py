"""Patches: finds them, and applies them to copies of the files that they touch."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from oscope.model.errors import OscopeError, UsageError
from oscope.targets.kernel import kernel_dirs, tools

SUFFIX = ".patch"
_REMEDY = "make it with git format-patch from the folder of the kernel's source"
_HEADER = re.compile(
    rb"^--- ([^\t\r\n]+)[^\n]*\n\+\+\+ ([^\t\r\n]+)|^(?:rename|copy) (?:from|to) ([^\r\n]+)", re.MULTILINE
)
_CHANGE = re.compile(rb"^(?:@@ -\d|(?:rename|copy) from |(?:new|deleted) file mode |old mode )", re.MULTILINE)
"""A hunk, or what git writes of a change that has none."""
_FAILED = re.compile(r"^Hunk #(\d+) (?:FAILED|NOT MERGED) at (\d+)", re.MULTILINE)
_FUZZ = re.compile(r"^Hunk #(\d+) succeeded at \d+ with fuzz (\d+)", re.MULTILINE)
_FILE = re.compile(r"^(?:patching|checking) file '?([^'\n]+?)'?(?: \(.*\))?$", re.MULTILINE)


@dataclass(frozen=True)
class Patch:
    """A patch as `git format-patch` or `diff` write it, to be applied with `patch -p1`."""

    name: str
    text: bytes

    @property
    def digest(self) -> str:
        """Return the digest of its text."""
        return hashlib.sha256(self.text).hexdigest()

    def files(self) -> list[str]:
        """Return the relative paths that it may touch. Raises UsageError if it names none, or one outside."""
        found: dict[str, None] = {}
        for before, after, renamed in _HEADER.findall(self.text):
            stripped = [name.partition(b"/")[2] for name in (before, after) if name and name != b"/dev/null"]
            found.update(
                dict.fromkeys(name.decode(errors="surrogateescape") for name in (*stripped, renamed) if name)
            )
        for name in found:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise UsageError(f"the patch {self.name} names {name}, outside of the source", remedy=_REMEDY)
        if not found:
            raise UsageError(f"the patch {self.name} changes no file", remedy=_REMEDY)
        return list(found)

    def check(self) -> None:
        """Raise UsageError where it is no patch, or names a file outside of the source."""
        if not self.text.strip():
            raise UsageError(f"the patch {self.name} is empty", remedy=_REMEDY)
        self.files()
        if not _CHANGE.search(self.text):
            raise UsageError(f"the patch {self.name} has no hunk (@@ … @@)", remedy=_REMEDY)

    def shared_files(self) -> list[str]:
        """Return those of the files on which others depend: all but C files and the documentation."""
        return [
            name for name in self.files() if not name.startswith("Documentation/") and not name.endswith(".c")
        ]

    def lines(self) -> tuple[int, int]:
        """Return how many lines it adds and removes."""
        # "---" ends the changelog, and "-- " stands before the version of git.
        body = [line for line in self.text.splitlines() if not line.startswith((b"+++ ", b"--- "))]
        removed = [line for line in body if line.startswith(b"-") and line.rstrip() not in (b"---", b"--")]
        return sum(line.startswith(b"+") for line in body), len(removed)


def known() -> list[str]:
    """Return the names of the patches that come with Oscope."""
    return sorted(file.stem for file in kernel_dirs.PATCHES.glob(f"*{SUFFIX}"))


def find(text: str) -> Patch:
    """Return the patch that `text` means: the name of one of Oscope's, or a file.

    Raises UsageError where there is none, or what is there is no patch.
    """
    path = kernel_dirs.PATCHES / f"{text}{SUFFIX}" if text in known() else Path(text).expanduser()
    try:
        # To read a pipe could take forever.
        if path.exists() and not path.is_file():
            raise UsageError(f"the patch {text} is not a regular file", remedy=_REMEDY)
        found = Patch(path.name.removesuffix(SUFFIX), path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"there is no patch {text} ({error.strerror})",
            remedy=f"name a file, or one of {', '.join(known())}",
        ) from error
    found.check()
    return found


@dataclass(frozen=True)
class Staged:
    """What patches make of the files that they touch: a path in `folder` each, where it is still there."""

    folder: Path
    touched: frozenset[str]

    def content(self, name: str) -> Path | None:
        """Return the file that `name` becomes; None where a patch removes it."""
        path = self.folder / name
        return path if path.is_symlink() or path.exists() else None


def stage(patches: Sequence[Patch], root: Path, folder: Path, note: Callable[[str], None]) -> Staged:
    """Apply the patches in turn to copies, in `folder`, of the files of `root` that they touch.

    Raises OscopeError that names file and hunk where one does not apply. What applies only by overlooking
    lines that differ (`fuzz`) is reported by `note`.
    """
    touched: set[str] = set()
    for patch in patches:
        for name in patch.files():
            if name not in touched:
                touched.add(name)
                _copy(root / name, folder / name)
        _apply(patch, folder, note)
    return Staged(folder, frozenset(touched))


def _copy(file: Path, to: Path) -> None:
    if file.is_symlink() or file.is_file():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, to, follow_symlinks=False)


def _apply(patch: Patch, folder: Path, note: Callable[[str], None]) -> None:
    options = ["--strip=1", "--force", "--no-backup-if-mismatch", "--reject-file=-", f"--directory={folder}"]
    answer = tools.run(["patch", *options], stdin=patch.text)
    output = answer.stdout.decode(errors="replace") + answer.stderr.decode(errors="replace")
    if answer.returncode != 0:
        raise OscopeError(
            f"the patch {patch.name} does not apply: {_reason(output)}",
            remedy="make it anew on this source (oscope kernel source prints where it is)",
        )
    for file, hunk, fuzz in _in_files(_FUZZ, output):
        note(f"the patch {patch.name}: hunk {hunk} of {file} applies only with a fuzz of {fuzz}")


def _reason(output: str) -> str:
    failed = _in_files(_FAILED, output)
    if failed:
        file, hunk, line = failed[0]
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"{file}, hunk {hunk}, at line {line}{more}"
    absent = re.search(r"^\|\+\+\+ [^/\n]+/([^\t\n]+)", output, re.MULTILINE)
    if "can't find file to patch" in output and absent:
        return f"there is no file {absent.group(1)}"
    lines = [line.removeprefix("patch: ****").strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "patch says nothing of why"


def _in_files(pattern: re.Pattern[str], output: str) -> list[tuple[str, str, str]]:
    """Return file, hunk and number for each line of what patch reported that fits the pattern."""
    found = []
    for line in output.splitlines():
        if file := _FILE.match(line):
            name = file.group(1)
        elif matched := pattern.match(line):
            found.append((name, matched.group(1), matched.group(2)))
    return found
