"""Why oscope-fs fails tests of xfstests that the server's own file system passes, where that is no defect."""

from __future__ import annotations

from collections.abc import Mapping

_ATIME = (
    "times of access are the server's: a fetch is one, reading the cached copy is none, and options of atime "
    "have no effect (xfstests leaves this test out for NFS, CIFS and virtiofs)"
)
_CTIME = "SFTP has no time of change: oscope-fs shows the time of modification"
BY_DESIGN: Mapping[str, str] = {
    "generic/003": _ATIME,
    "generic/120": _ATIME,
    "generic/184": "the mount is nodev: a device file of the server must not open a device of this machine",
}
"""By test, a property of oscope-fs that is documented in docs/reference/fs.md."""
SFTP_LIMITS: Mapping[str, str] = {
    "generic/221": _CTIME,
    "generic/236": _CTIME,
}
"""By test, what SFTP version 3 cannot say; each of them passes with a helper."""
