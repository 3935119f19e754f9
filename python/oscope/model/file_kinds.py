"""What a name leads to where it is no regular file, and the refusal to read from it."""

from __future__ import annotations

import stat
from pathlib import Path

from oscope.model.errors import UsageError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


def check_readable_to_its_end(path: Path, *, given_as: str = "", remedy: str) -> None:
    """Raise UsageError for a folder, a device, a FIFO or a socket; `given_as` precedes the name.

    A device may have no end, and a FIFO waits for a writer. A pipe without a name, such as that of a shell's
    `<(...)`, is read like standard input. What is not there is left to who opens it.
    """
    try:
        mode = path.stat().st_mode
        # A pipe without a name is reached by a link below /proc/PID/fd, which leads to no file.
        if stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and not path.resolve().exists()):
            return
    except (OSError, ValueError):
        return
    kind = KINDS.get(stat.S_IFMT(mode), "a file without a name")
    description = kind if stat.S_ISDIR(mode) else f"{kind}, not a regular file"
    raise UsageError(f"{given_as}{path} is {description}", remedy=remedy)
