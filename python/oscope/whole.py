"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from oscope.errors import OscopeError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Give a file that gets the name `path` once the block ends, and is gone where the block raises.

    Raises OscopeError where it cannot be written.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            # mkstemp makes files for their owner only; a result is as readable as any other new file.
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise OscopeError(
            f"{path} cannot be written ({error.strerror})",
            remedy="check the folder, its permissions and its space",
        ) from error


def _umask() -> int:
    """Return the process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
