"""The five original documents, step by step, and what repeats each step here. Importing this is cheap."""

from __future__ import annotations

import difflib

from oscope.assignments import disk, ipc, memory, syscall, transfer
from oscope.assignments.model import Document
from oscope.model.errors import UsageError

DOCUMENTS: tuple[Document, ...] = (
    memory.DOCUMENT,
    syscall.DOCUMENT,
    disk.DOCUMENT,
    transfer.DOCUMENT,
    ipc.DOCUMENT,
)
"""Every document, in the order in which lists show them."""


def document(key: str) -> Document:
    """Return the document that `oscope assignment` knows by `key`.

    Raises:
        UsageError: there is none; the nearest key is given.

    """
    for candidate in DOCUMENTS:
        if candidate.key == key:
            return candidate
    keys = [each.key for each in DOCUMENTS]
    near = difflib.get_close_matches(key.lower(), keys, n=1, cutoff=0.5)
    remedy = f"did you mean {near[0]!r}?" if near else f"give one of {', '.join(keys)}"
    raise UsageError(f"there is no document {key!r}", remedy=remedy)
