"""Why oscope-fs fails tests of xfstests that the server's own file system passes, where that is no defect."""

from __future__ import annotations

from collections.abc import Mapping

_ATIME = (
    "times of access are the server's: a fetch is one, reading the cached copy is none, and options of atime "
    "have no effect (xfstests leaves this test out for NFS, CIFS and virtiofs)"
)
_SPECIAL = "SFTP cannot make a fifo or a device"
_CTIME = "SFTP has no time of change: oscope-fs shows the time of modification"
_NODEV = "the mount is nodev: a device file of the server must not open a device of this machine"
_NOSUID = "the mount is nosuid: its first failure is that a set-user-ID program is not started as its owner"
_FUSE = (
    "Linux keeps the set-group-ID bit of a file that its group may not execute, on every FUSE file system "
    "(fuse_setattr in fs/fuse/dir.c)"
)
_HANDLES = (
    "a handle of name_to_handle_at(2) is valid only while the kernel remembers the file: a mount cannot be "
    "exported by NFS"
)
BY_DESIGN: Mapping[str, str] = {
    "generic/003": _ATIME,
    "generic/120": _ATIME,
    "generic/184": _NODEV,
    "generic/306": _NODEV,
    "generic/426": _HANDLES,
    "generic/434": _NODEV,
    "generic/467": _HANDLES,
    "generic/477": _HANDLES,
    "generic/756": _HANDLES,
    "generic/777": _HANDLES,
    "generic/633": _NOSUID,
    "generic/683": _FUSE,
    "generic/684": _FUSE,
    "generic/685": _FUSE,
    "generic/732": "one folder is mounted twice, here with one cache folder: one mount uses it at a time",
}
"""By test, a property of oscope-fs that docs/reference/fs.md documents, or of the kernel's side of it."""
SFTP_LIMITS: Mapping[str, str] = {
    "generic/221": _CTIME,
    "generic/236": _CTIME,
    "generic/598": _SPECIAL,
    "generic/696": _SPECIAL,
    "generic/755": _CTIME,
    "generic/258": "SFTP has 32 bits for a time, and none of them for a sign: it begins in 1970",
}
"""By test, what SFTP version 3 cannot say; each of them passes with a helper."""
