"""What the bits that `programs/faults.bt` gathers about a page fault say of it."""

from __future__ import annotations

from typing import Any

_PRESENT, _WRITE, _USER, _EXECUTE = 1 << 0, 1 << 1, 1 << 2, 1 << 4  # arch/x86/include/asm/trap_pf.h
_PLACES = ("anonymous", "heap", "stack", "file")
"""By the address alone, bits 8 and 9; of the last, the program file's own code and data."""
_FILE_PAGE, _ANONYMOUS_PAGE, _SWAP_ENTRY, _SHARED_PAGE = (1 << (12 + member) for member in range(4))
"""The process's count of such pages changed (kmem:rss_stat)."""
_LOOKED_UP = 1 << 16
"""The page was looked for in a file's page cache."""
_DIRTIED = 1 << 17
"""A file's clean page became dirty."""
_MAJOR = 1 << 18


def describe_fault(bits: int) -> dict[str, Any]:
    """Return the fault's `class`, `access`, `present`, `by` and `kind`.

    A fault on a page that is not there is reported by the pages that it added (mm/memory.c, do_fault,
    do_anonymous_page, do_swap_page). Without kmem:rss_stat for every page (before Linux 6.2), a page that
    comes from the swap cache without reading looks like a zero-fill, and without filemap:mm_filemap_fault
    (before 6.12) so does a private copy of a file's page outside the program's own image.
    """
    kind = _kind_of_present(bits) if bits & _PRESENT else _kind_of_missing(bits)
    place = _PLACES[bits >> 8 & 3]
    of_file = bits & (_FILE_PAGE | _LOOKED_UP | _DIRTIED) and not bits & _SHARED_PAGE
    return {
        "class": "file" if of_file else place,
        "access": "execute" if bits & _EXECUTE else "write" if bits & _WRITE else "read",
        "present": bool(bits & _PRESENT),
        "by": "user" if bits & _USER else "kernel",
        "kind": kind,
    }


def _kind_of_present(bits: int) -> str:
    if not bits & _WRITE:
        return "other"
    return "made writable" if bits & _DIRTIED else "copy-on-write"


def _kind_of_missing(bits: int) -> str:
    if bits & _SWAP_ENTRY:
        return "swap-in"
    if bits & _SHARED_PAGE:
        return "shared memory"
    in_image = bits >> 8 & 3 == _PLACES.index("file")
    if bits & (_LOOKED_UP | _FILE_PAGE) or (in_image and bits & _ANONYMOUS_PAGE):
        if bits & _ANONYMOUS_PAGE:
            return "file, copied"
        return "file, read in" if bits & _MAJOR else "file"
    return "swap-in" if bits & _MAJOR else "zero-fill"
