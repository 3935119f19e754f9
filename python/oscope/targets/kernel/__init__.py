"""Kernels for guests: from Debian's source or the user's, with patches, built once and kept.

`find` gives a kernel that is built, `provide` builds what is not; both take it as the command line names it.
"""

from __future__ import annotations

from oscope.targets.kernel.kernel import Kernel
from oscope.targets.kernel.naming import find, provide

__all__ = ["Kernel", "find", "provide"]
