"""The user's repository, as `oscope bench --git` reads it and never writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oscope.model.errors import OscopeError, UsageError
from oscope.model.revision import DIGITS, Revision
from oscope.targets import git

_FIELDS = "%H%x00%s"
MOST_COMMITS = 100_000


@dataclass(frozen=True)
class Repository:
    """The repository of a folder."""

    top: Path
    """Top of the checkout; of a bare repository itself."""
    prefix: str
    """Where in it the folder is: empty, or a relative path that ends with a slash."""
    common: Path
    """The folder with its objects and branches, which its worktrees share."""

    @classmethod
    def of(cls, folder: Path) -> Repository:
        """Return the repository that `folder` is in; UsageError with git's reason where there is none."""
        try:
            common = git.run(folder, "rev-parse", "--git-common-dir").strip("\n")
        except UsageError:
            raise
        except OscopeError as error:
            remedy = "go into a checkout of the program's repository"
            if "dubious ownership" in error.message:
                remedy = f"if you trust it: git config --global --add safe.directory {folder}"
            raise UsageError(error.message.replace("git rev-parse: ", "--git: "), remedy=remedy) from None
        shared = Path(folder, common).resolve()
        top = git.find(folder, "rev-parse", "--show-toplevel")
        if not top:
            return cls(shared, "", shared)
        prefix = git.run(folder, "rev-parse", "--show-prefix").strip("\n")
        return cls(Path(top), prefix, shared)

    @property
    def is_shallow(self) -> bool:
        """Whether commits are missing from its history."""
        return (self.common / "shallow").exists()

    @property
    def is_partial(self) -> bool:
        """Whether contents are missing that git would fetch when they are needed."""
        return git.find(self.top, "config", "--get-regexp", r"^remote\..*\.promisor$") is not None

    def revision(self, name: str) -> Revision:
        """Return the commit that `name` means; UsageError where it means none."""
        if not name or name.startswith("-"):
            raise UsageError(f"--git {name!r} names no revision", remedy="name a commit, branch or tag")
        try:
            found = git.run(
                self.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
            )
        except OscopeError:
            shallow = "; this clone is shallow: git fetch --unshallow" if self.is_shallow else ""
            raise UsageError(
                f"--git {name}: there is no such revision in {self.top}", remedy=f"see git log{shallow}"
            ) from None
        return self.commits([found.strip()], name)[0]

    def commits(self, ids: list[str], name: str | None = None) -> list[Revision]:
        """Return these commits with their subjects, in this order, called `name` or by their short ids."""
        output = git.run(
            self.top,
            "log",
            "--no-walk=unsorted",
            "--stdin",
            "-z",
            f"--format={_FIELDS}",
            text="\n".join(ids) + "\n",
        )
        words = output.split("\0")
        found = dict(zip(words[::2], words[1::2], strict=False))
        return [Revision(each, _printable(found[each]), name or each[:DIGITS]) for each in ids]

    def between(self, first: Revision, last: Revision) -> list[Revision]:
        """Return the commits after `first` up to `last`, the oldest first, along first parents.

        Raises UsageError where `first` is not one of the ancestors that this line passes.
        """
        listed = git.run(
            self.top,
            "rev-list",
            "--first-parent",
            "--reverse",
            f"--max-count={MOST_COMMITS + 1}",
            f"{first.commit}..{last.commit}",
        ).split()
        if len(listed) > MOST_COMMITS:
            raise UsageError(f"--git: more than {MOST_COMMITS} commits", remedy="give a shorter range")
        base = git.find(self.top, "merge-base", first.commit, last.commit)
        if base != first.commit:
            hint = (
                f"bisect from where they part: --git {base[:DIGITS]}..{last.name}"
                if base
                else "name an ancestor"
            )
            if base == last.commit:
                hint = f"name the older one first: --git {last.name}..{first.name}"
            raise UsageError(f"--bisect: {first.label} is no ancestor of {last.label}", remedy=hint)
        if not listed:
            raise UsageError(
                f"--bisect: {first.label} and {last.label} are one commit", remedy="name an older one first"
            )
        parent = git.run(self.top, "rev-parse", f"{listed[0]}^1").strip()
        if parent != first.commit:
            raise UsageError(
                f"--bisect: {first.label} came into {last.label} by a merge, not along first parents",
                remedy=f"bisect from --git {parent[:DIGITS]}..{last.name}",
            )
        return [*self.commits(listed[:-1]), last]

    def parents(self, commit: str) -> list[str]:
        """Return the ids of a commit's parents."""
        return git.run(self.top, "rev-parse", f"{commit}^@").split()

    def uncommitted(self) -> int:
        """Return how many files of the checkout differ from its commit, of those that git tracks."""
        output = git.find(
            self.top, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none"
        )
        return len((output or "").splitlines())


def _printable(text: str) -> str:
    """Return a subject as a record and a terminal can hold it."""
    plain = text.encode(errors="surrogateescape").decode(errors="replace")
    return "".join(each if each.isprintable() else " " for each in plain).strip()
