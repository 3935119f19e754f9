"""What the laboratory itself is made of: versions, so that a record can be understood later."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from oscope.model.version import __version__

_GIT_LIMIT_S = 10.0
_LIBRARIES = ("numpy", "scipy", "pandas", "sqlalchemy")


def describe(probe: Path) -> dict[str, Any]:
    """Return the versions of Python, Oscope and its libraries, its commit, and the probe's SHA-256."""
    with probe.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "oscope": __version__,
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "git_commit": _commit(Path(__file__)),
        "probe_sha256": digest,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit(file: Path) -> str | None:
    """Return the commit of the checkout that `file` is part of, `-dirty` where it was changed; else None."""
    try:
        # Installed into an environment inside somebody's repository, the package is not part of that
        # repository.
        subprocess.run(
            ["git", "-C", file.parent, "ls-files", "--error-unmatch", file.name],
            capture_output=True,
            timeout=_GIT_LIMIT_S,
            check=True,
        )
        answer = subprocess.run(
            ["git", "-C", file.parent, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],
            capture_output=True,
            timeout=_GIT_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode().strip() or None
