"""Why oscope-fs fails tests of xfstests that the server's own file system passes, where that is no defect."""

from __future__ import annotations

from collections.abc import Mapping

BY_DESIGN: Mapping[str, str] = {}
"""By test, a property of oscope-fs that is documented in docs/reference/fs.md."""
SFTP_LIMITS: Mapping[str, str] = {}
"""By test, what SFTP version 3 cannot say; each of them passes with a helper, or is not run there."""
