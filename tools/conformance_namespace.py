"""Namespaces for the outside suites: what they mount, and the processes that they start, end with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

UNSHARE = (
    "unshare",
    "--mount",
    "--propagation=private",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)
_INSIDE = "OSCOPE_CONFORMANCE_INSIDE"
_FIRST = '"$@"; exit $?'
"""The first process of a PID namespace has to wait for orphans: bash does, unless it replaces itself."""


def enter() -> None:
    """Run this program again with mounts and processes of its own, in place of this process.

    The kernel ends the processes, and with them the mounts and loop devices, also after SIGKILL.
    """
    if os.environ.get(_INSIDE) == "1":
        return
    os.environ[_INSIDE] = "1"
    words = [*UNSHARE, "bash", "-c", _FIRST, "bash", sys.executable, *sys.argv]
    os.execvp(words[0], words)  # noqa: S606 (every word is ours, or of our own command line)


@contextmanager
def disk(image: Path, size: str, folder: Path) -> Iterator[None]:
    """Have an empty ext4 of its own mounted on `folder`; the image has no name while it is mounted."""
    make_image(image, size)
    # With the option `loop` its loop device ends with the mount.
    run("mount", "-o", "loop", image, folder)
    image.unlink()
    folder.chmod(0o755)
    try:
        yield
    finally:
        # Lazily: a process of a test that was killed may still be ending.
        run("umount", "--lazy", folder)


def make_image(image: Path, size: str) -> None:
    """Make the image of an empty ext4; the file has holes."""
    run("truncate", "-s", size, image)
    run("mkfs.ext4", "-q", "-F", image)


def run(*words: str | Path) -> None:
    """Run a command that has to succeed."""
    done = subprocess.run(list(words), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"conformance: {' '.join(map(str, words))}: {done.stderr.strip()}")


def killable(words: Sequence[str | Path]) -> list[str]:
    """Return the command in a namespace of its own: SIGKILL to it ends all that it started."""
    return [*UNSHARE, *map(str, words)]
