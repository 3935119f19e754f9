"""The `git` program, asked about a repository that it must not change.

It runs with the user's own settings, so that files come out of it as in a checkout of theirs (line endings,
filters), but without hooks, prompts, pagers, editors and background work, and without taking optional locks:
`git status` would refresh the index (git(1), GIT_OPTIONAL_LOCKS).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from oscope.model.errors import OscopeError, UsageError

LIMIT_S = 600.0
"""A checkout of a large repository takes a minute."""
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "submodule.recurse=false",
)
_VARIABLES = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
_KEPT = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_EXEC_PATH",
)
"""Variables of git that say where its settings are; the others name a repository, as hooks have them."""


def foreign_variables() -> tuple[str, ...]:
    """Return the variables of this process that have git work on another repository than the folder's."""
    return tuple(name for name in os.environ if name.startswith("GIT_") and name not in _KEPT)


def run(
    folder: Path,
    *words: str,
    repository: Path | None = None,
    lock: int | None = None,
    text: str | None = None,
) -> str:
    """Return what `git WORDS` prints in `folder`; OscopeError with its last line where it fails.

    `repository` is the one it works on; None: that of the folder. `lock` is a descriptor that it inherits,
    `text` its standard input.
    """
    done = _call(folder, words, repository, lock, text)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        # What the message is about comes first, hints after it.
        fatal = [line for line in lines if line.startswith(("fatal: ", "error: "))]
        why = (fatal or lines or [f"it ended with {done.returncode}"])[0]
        raise OscopeError(f"git {words[0]}: {why.removeprefix('fatal: ').removeprefix('error: ')}")
    return done.stdout


def find(folder: Path, *words: str, repository: Path | None = None) -> str | None:
    """Return what `git WORDS` prints, without white space around it; None where it fails."""
    done = _call(folder, words, repository, None, None)
    return done.stdout.strip() if done.returncode == 0 else None


def _call(
    folder: Path, words: Sequence[str], repository: Path | None, lock: int | None, text: str | None
) -> subprocess.CompletedProcess[str]:
    settings = [word for each in _SETTINGS for word in ("-c", each)]
    place = [] if repository is None else [f"--git-dir={repository}"]
    try:
        return subprocess.run(
            ["git", *settings, *place, *words],
            cwd=folder,
            env=environment(),
            input="" if text is None else text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=LIMIT_S,
            check=False,
            pass_fds=() if lock is None else (lock,),
            # A Ctrl-C at the terminal reaches this process only.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise UsageError("there is no program git", remedy="install git") from None
    except subprocess.TimeoutExpired:
        raise OscopeError(
            f"git {words[0]} did not end within {LIMIT_S:g} s", remedy="see what it waits for"
        ) from None


def environment() -> Mapping[str, str]:
    """Return the variables that git is given."""
    own = {name: value for name, value in os.environ.items() if name not in foreign_variables()}
    batch = {} if "GIT_SSH_COMMAND" in os.environ else {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    return own | _VARIABLES | batch
