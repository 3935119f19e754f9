"""Worktrees of commits, each built once, in a folder of Oscope's own.

The user's repository is only read. The worktrees belong to a repository beside them, which borrows the user's
objects (gitrepository-layout(5), `objects/info/alternates`) and has a copy of its tags and branches, so that
`git describe` works in a build. Removing the folder removes all of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from oscope.model.errors import OscopeError, UsageError
from oscope.model.revision import Revision, Revisions
from oscope.programs.command import locate, split
from oscope.programs.repository import Repository
from oscope.programs.trial import run_once
from oscope.targets import git
from oscope.targets.own_folders import own_folder

WORKLOAD = "command.run"
LAST_LINES = 8
"""Of what a build that failed printed."""
_LINE = 200
_LOG_END = 16384
_BUILD_LIMIT_S = 86_400.0
_COPIED = r"^(filter\..*|core\.(autocrlf|eol|safecrlf|symlinks))$"
"""Settings of the repository itself by which files come out of it as in the user's checkout."""


class Watcher(Protocol):
    """Who follows the builds."""

    def building(
        self, doing: str, number: int, expected: int, left_s: float | None
    ) -> AbstractContextManager[None]:
        """Return what shows `doing` meanwhile: which of how many, and the time left if it is known."""

    def note(self, text: str) -> None:
        """Hear what a person should know."""


class BuildError(OscopeError):
    """A commit cannot be checked out or built."""

    def __init__(self, revision: Revision, why: str, lines: Sequence[str] = ()) -> None:
        super().__init__(
            f"{revision.label} {why}", remedy="measure another revision, or give another --build"
        )
        self.revision = revision
        self.lines = tuple(lines)
        """The last lines that the build printed."""


@dataclass
class Workshop:
    """The folder with the worktrees of one call, and what was built in it."""

    repository: Repository
    folder: Path
    """Oscope's own."""
    build: str | None
    """The command line that builds a commit."""
    shell: str | None
    environment: tuple[str, ...]
    """NAME=VALUE, for the build."""
    watcher: Watcher
    lock: int
    expected: int = 2
    """How many commits will be built, as far as is known."""
    _built: dict[str, Path | BuildError] = field(default_factory=dict)
    _times_s: list[float] = field(default_factory=list)

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls,
        repository: Repository,
        watcher: Watcher,
        *,
        build: str | None,
        shell: str | None,
        environment: tuple[str, ...],
        again: str | None = None,
    ) -> Iterator[Workshop]:
        """Give a workshop, and remove all of it at the end. `again` is its folder, for a run that resumes."""
        if build is not None and not split(build):
            raise UsageError("--build is empty", remedy="write it like --build 'make -j4'")
        with own_folder(again) as (folder, lock):
            made = cls(repository, folder, build, shell, environment, watcher, lock)
            made._prepare()
            yield made

    @property
    def own(self) -> Path:
        """The repository that the worktrees belong to."""
        return self.folder / "repository"

    def revisions(self, sides: Sequence[Revision]) -> Revisions:
        """Return what is recorded of a run that measures `sides`."""
        return Revisions(
            repository=str(self.repository.top),
            prefix=self.repository.prefix,
            folder=str(self.folder),
            build=self.build,
            build_shell=self.shell,
            environment=self.environment,
            sides=tuple(sides),
        )

    def worktree(self, revision: Revision) -> Path:
        """Return where the commit is checked out: names of one length, so that no path is longer."""
        return self.folder / revision.short

    def checkout(self, revision: Revision) -> Path:
        """Return the folder in which the commit's commands run, once it is built: at first call only.

        Raises BuildError where it cannot be checked out or does not build, at every call.
        """
        if revision.commit not in self._built:
            number = len(self._built) + 1
            self.expected = max(self.expected, number)
            began = time.monotonic()
            doing = f"{'checking out' if self.build is None else 'building'} {revision}"
            try:
                with self.watcher.building(doing, number, self.expected, self._left_s()):
                    self._built[revision.commit] = self._make(revision)
            except BuildError as error:
                self._built[revision.commit] = error
                self._discard(revision)
            self._times_s.append(time.monotonic() - began)
        found = self._built[revision.commit]
        if isinstance(found, BuildError):
            raise found
        return found

    def _left_s(self) -> float | None:
        """Return how long all builds that are left may take, from the mean of those that were."""
        if not self._times_s:
            return None
        return (self.expected - len(self._built)) * sum(self._times_s) / len(self._times_s)

    def _prepare(self) -> None:
        """Make the repository that borrows the user's objects."""
        theirs = self.repository
        kind = git.find(theirs.top, "rev-parse", "--show-object-format") or "sha1"
        git.run(
            self.folder, "init", "--quiet", "--bare", "--template=", f"--object-format={kind}", str(self.own),
            lock=self.lock,
        )  # fmt: skip
        objects = str(theirs.common / "objects")
        if "\n" in objects:
            raise UsageError(f"--git: {objects!r} holds a line break", remedy="move the repository")
        (self.own / "objects" / "info").mkdir(exist_ok=True)
        (self.own / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
        for name in ("shallow", "info/attributes"):
            if (theirs.common / name).is_file():
                (self.own / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(theirs.common / name, self.own / name)
        refs = git.run(theirs.top, "for-each-ref", "--format=%(objectname) %(refname)")
        (self.own / "packed-refs").write_bytes(os.fsencode(refs))
        copied = git.find(theirs.top, "config", "--local", "-z", "--get-regexp", _COPIED) or ""
        for entry in filter(None, copied.split("\0")):
            name, _, value = entry.partition("\n")
            self._git("config", "--add", name, value)

    def _git(self, *words: str) -> str:
        return git.run(self.folder, *words, repository=self.own, lock=self.lock)

    def _make(self, revision: Revision) -> Path:
        place = self.worktree(revision)
        try:
            self._git("worktree", "add", "--quiet", "--detach", str(place), revision.commit)
            self._add_submodules(revision, place)
        except UsageError:
            raise
        except OscopeError as error:
            partial = "; this clone is partial, get the rest with git fetch --refetch --no-filter"
            why = error.message + (partial if self.repository.is_partial else "")
            raise BuildError(revision, f"cannot be checked out ({why})") from None
        folder = place / self.repository.prefix
        if not folder.is_dir():
            raise BuildError(revision, f"has no folder {self.repository.prefix.rstrip('/')}")
        self._build(revision, folder)
        return folder

    def _discard(self, revision: Revision) -> None:
        """Remove the worktree of a commit that is of no use, for the room that it takes."""
        place = self.worktree(revision)
        if place.exists():
            shutil.rmtree(place, ignore_errors=True)

    def _add_submodules(self, revision: Revision, place: Path) -> None:
        """Check out the submodules that the user's checkout has, from its own copies: nothing is fetched."""
        if not (place / ".gitmodules").is_file():
            return
        output = (
            git.find(place, "config", "-f", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
            or ""
        )
        left = []
        for entry in filter(None, output.split("\0")):
            key, _, path = entry.partition("\n")
            name = key.removeprefix("submodule.").removesuffix(".path")
            theirs = self.repository.common / "modules" / name
            if ".." in Path(name).parts or not theirs.is_dir():
                left.append(path)
                continue
            # In the worktree, as `git submodule` wants it; the settings are those of our own repository.
            for setting, value in (("url", str(theirs)), ("active", "true")):
                self._git("config", f"submodule.{name}.{setting}", value)
            # Only copies of the user's own are read: git allows them to a person, not to `git submodule`.
            git.run(
                place, "-c", "protocol.allow=never", "-c", "protocol.file.allow=always",
                "submodule", "--quiet", "update", "--init", "--checkout", "--", path, lock=self.lock,
            )  # fmt: skip
        if left:
            self.watcher.note(
                f"{revision.label}: submodules that the checkout does not have stay empty: {', '.join(left)}"
            )

    def _build(self, revision: Revision, folder: Path) -> None:
        if self.build is None:
            return
        log = self.folder / f"{revision.short}.log"
        try:
            params = self._build_params(folder, log)
        except UsageError as error:
            if "/" not in split(self.build)[0]:
                raise UsageError(f"--build: {error.message}", remedy=error.remedy) from None
            # Another commit may have it.
            raise BuildError(revision, f"does not build: {error.message}") from None
        try:
            run_once(WORKLOAD, params, "the build")
        except UsageError:
            raise
        except OscopeError as error:
            lines = _last_lines(log)
            # What it said to standard error comes with the message, in one line; the log has both streams.
            why, _, output = error.message.removeprefix("the build: ").partition("; it said: ")
            known = lines or [output[-_LINE:]]
            raise BuildError(
                revision, f"does not build: {self.build} {_without_program(why)}", known
            ) from None

    def _build_params(self, folder: Path, log: Path) -> dict[str, Any]:
        """Return what the probe is asked with: it ends all that the build started, also after a kill."""
        line = self.build or ""
        path = next(
            (e[5:] for e in reversed(self.environment) if e.startswith("PATH=")), os.environ.get("PATH", "")
        )
        if self.shell is not None:
            shell = split(self.shell)
            words = [*shell, "-c", line]
        else:
            words = list(split(line))
        merge = locate("sh", path)
        return {
            "program": merge,
            # Both streams in one file, in order; the words reach the build as they are.
            "arguments": [
                "sh",
                "-c",
                'exec "$@" 2>&1',
                "sh",
                locate(words[0], path, str(folder)),
                *words[1:],
            ],
            "folder": str(folder),
            "output": str(log),
            "environment": list(self.environment),
            "timeout": _BUILD_LIMIT_S,
            "ignore_failure": False,
        }


def _without_program(why: str) -> str:
    """Return what the probe says of the end of a program, without its name."""
    for verb in ("ended with", "was killed by", "did not end"):
        if verb in why:
            return why[why.index(verb) :]
    return f"failed ({why})"


def _last_lines(log: Path) -> list[str]:
    """Return the last lines of a log that say something, made printable."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _LOG_END))
            text = stream.read().decode(errors="replace")
    except OSError:
        return []
    lines = [
        "".join(c if c.isprintable() else " " for c in line).rstrip()[:_LINE] for line in text.splitlines()
    ]
    return [line for line in lines if line.strip()][-LAST_LINES:]
