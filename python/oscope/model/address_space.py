"""The limit of this process's address space (`ulimit -v`), which libraries run into without a clear word.

Where OpenBLAS, the library of linear algebra of numpy and scipy, finds too little, it sends its own process a
SIGINT, which looks like a Ctrl-C, or tries again for ever (`blas_thread_init`, `blas_memory_alloc`).
"""

from __future__ import annotations

import mmap
import os
import resource
import sys
from collections.abc import Sequence
from types import ModuleType

from oscope.model.errors import OscopeError

_NEEDED_MIB = {"numpy": 48, "scipy": 120}
"""What loading the library takes, beside what each of its threads does."""
_THREAD_MIB = 40
"""A thread's stack of 8 MiB and its buffer of 32 MiB."""
_UNMAPPED = "failed to map segment"
"""What the loader says of a library that finds no room (elf/dl-load.c of glibc)."""


def guard() -> None:
    """Where the address space is limited, refuse from now on to load what has no room."""
    if _limit() != resource.RLIM_INFINITY:
        sys.meta_path.insert(0, _Guard())


def shortage(error: BaseException) -> str | None:
    """Return what to tell people where `error` came of the limit; None where it did not."""
    if _limit() == resource.RLIM_INFINITY:
        return None
    if _UNMAPPED in str(error) or (isinstance(error, MemoryError) and not _has_room(_THREAD_MIB)):
        return str(_too_little())
    return None


class _Guard:
    """Finds no module; raises OscopeError where one that is looked for has no room."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        del path, target
        if name in _NEEDED_MIB and not _has_room(_NEEDED_MIB[name] + _THREAD_MIB * (os.cpu_count() or 1)):
            raise _too_little()


def _limit() -> int:
    return resource.getrlimit(resource.RLIMIT_AS)[0]


def _too_little() -> OscopeError:
    return OscopeError(
        f"out of address space: the limit here is {_limit() // 2**20} MiB",
        remedy="run it where `ulimit -v` says unlimited, or more than that",
    )


def _has_room(mebibytes: int) -> bool:
    try:
        mmap.mmap(-1, mebibytes * 2**20).close()
    except OSError:
        return False
    return True
