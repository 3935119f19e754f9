"""`oscope fs` as the help and the completion have it: it becomes `oscope-fs` before this is imported."""

from __future__ import annotations

from typing import Annotated

import typer


def run(words: Annotated[list[str] | None, typer.Argument(metavar="VERB...")] = None) -> None:
    """Mount a folder of another host, unmount it, tell how it is, copy back what a kill left.

    The words are those of oscope-fs: mount, umount, status, recover, operations; see oscope fs --help.
    """
    raise NotImplementedError(words)
