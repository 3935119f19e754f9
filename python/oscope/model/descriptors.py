"""The descriptors of the standard streams, where they are closed. Imports nothing that takes time."""

import os

_CONTRARY = ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY))


def open_closed() -> None:
    """Open a closed descriptor 0, 1 or 2 for the wrong direction.

    Its use fails as before, but no other file becomes a standard stream (as `stdopen` of gnulib does).
    """
    for descriptor, flags in _CONTRARY:
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest that is free is this one. Children inherit it.
            os.set_inheritable(os.open(os.devnull, flags), True)
