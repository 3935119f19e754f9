"""Packs the probe, programs that it runs and Oscope's modules into an initramfs: all the files of a guest.

Programs and libraries are the very ones of this machine, so that a guest runs the same instrument; of the
probe and of oscope-fs all that is ever loaded.
Nothing is read from the host while a guest runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath

from platformdirs import user_cache_path
from virtme.cpiowriter import CpioWriter

from oscope.model.errors import OscopeError
from oscope.probe.locate import find_filesystem
from oscope.targets.guest import elf

_LISTING_LIMIT_S = 30.0
_KEPT_S = 24 * 3600.0
_LIBRARY = re.compile(r"\s*(?:\S+ => )?(?P<path>/\S+) \(0x[0-9a-f]+\)")
_CONFIGURATION = b"""\
[defaults]
\tbase_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
\tblocksize = 4096
\tinode_size = 256
[fs_types]
\text4 = {
\t\tfeatures = extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
\t}
"""
"""Of mke2fs, so that this machine's own has no say in what a guest's file system is like."""
_MAKES_DISK = "mke2fs"
PACKAGES = {
    _MAKES_DISK: "e2fsprogs",
    "dd": "coreutils",
    "ip": "iproute2",
    "tc": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "sshfs": "sshfs",
    "fusermount3": "fuse3",
    "git": "git",
    "tar": "tar",
}
"""Programs that a guest may be given, and their packages; the probe and `oscope-fs` are of our own."""
_ACCOUNTS = {
    "/etc/passwd": b"root:x:0:0:root:/root:/bin/false\nsshd:x:100:65534::/run/sshd:/bin/false\n",
    "/etc/group": b"root:x:0:\nnogroup:x:65534:\n",
}
"""Users that sshd accepts, and the user for what it does not trust."""
_PROBE = "/oscope-probe"
_OWN = frozenset({_PROBE, "/bin/oscope-fs"})
"""Their debugging information is most of them, and each boot would unpack it."""
MODULES = "/run/oscope/modules"
"""Where a guest has Oscope's modules, of whichever kernel it is."""


def cache_folder() -> Path:
    """Return the folder in which guests' files are kept from run to run, made if need be."""
    folder = Path(user_cache_path("oscope")) / "guest"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pack(probe: Path, programs: Collection[str], modules: Path | None = None) -> Path:
    """Return an initramfs with `probe` as its first process, packed anew where its content has changed.

    The `programs` will be in the guest's /bin, one with an absolute path at that path, and the kernel modules
    of the folder `modules` in MODULES.

    Raises OscopeError where a program or library is missing.
    """
    files = dict(_content(probe, programs))
    if modules is not None:
        files |= {f"{MODULES}/{file.name}": file.read_bytes() for file in sorted(modules.glob("*.ko"))}
    digest = hashlib.sha256()
    for name, body in files.items():
        digest.update(f"{name} {len(body)}\n".encode())
        digest.update(body)
    path = cache_folder() / f"initramfs-{digest.hexdigest()[:16]}.cpio"
    if not path.exists():
        _write(path, files)
        _forget_old(path)
    # What is in use is young.
    os.utime(path)
    return path


def _content(probe: Path, names: Collection[str]) -> Iterable[tuple[str, bytes]]:
    """Yield each file's path in the guest and what is in it."""
    programs = {_PROBE: probe} | {
        name if name.startswith("/") else f"/bin/{name}": _find(name) for name in (_MAKES_DISK, *names)
    }
    libraries = dict.fromkeys(library for program in programs.values() for library in _libraries(program))
    for name, path in (programs | {str(library): library for library in libraries}).items():
        yield name, elf.loaded_part(path) if name in _OWN else path.read_bytes()
    # The loader finds the libraries where it finds them here.
    with contextlib.suppress(FileNotFoundError):
        yield "/etc/ld.so.cache", Path("/etc/ld.so.cache").read_bytes()
    yield "/etc/mke2fs.conf", _CONFIGURATION
    if "sshd" in names:
        yield from _ACCOUNTS.items()


def missing() -> dict[str, str]:
    """Return the programs for a guest that are not installed here, and their packages."""
    return {name: package for name, package in PACKAGES.items() if _which(name) is None}


def _which(name: str) -> str | None:
    # What root alone needs may not be on the path of others.
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _find(name: str) -> Path:
    if name.startswith("/"):
        return Path(name)
    if name == "oscope-fs":
        return find_filesystem()
    found = _which(name)
    if found is None:
        raise OscopeError(f"a guest needs {name}, which is not here", remedy=f"install {PACKAGES[name]}")
    return Path(found)


def _libraries(program: Path) -> list[Path]:
    """Return the loader of `program` and the libraries that it loads; none for a static one."""
    loader = elf.loader(program)
    if loader is None:
        return []
    try:
        answer = subprocess.run(
            [loader, "--list", program], capture_output=True, timeout=_LISTING_LIMIT_S, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise OscopeError(
            f"the libraries of {program} cannot be found ({error})",
            remedy=f"see what `{loader} --list {program}` says",
        ) from error
    found = [
        Path(match["path"]) for line in answer.stdout.splitlines() if (match := _LIBRARY.fullmatch(line))
    ]
    return list(dict.fromkeys([loader, *found]))


def _write(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the archive under another name first: half of one must never be taken for the whole."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="initramfs-", delete=False) as file:
        try:
            archive = CpioWriter(file)
            folders = {str(parent) for name in files for parent in PurePosixPath(name).parents} | {"/dev"}
            for folder in sorted(folders - {"/"}):
                archive.mkdir(folder[1:].encode(), 0o755)
            archive.mkchardev(b"dev/console", (5, 1), 0o600)
            for name, body in files.items():
                archive.write_file(name[1:].encode(), body=body, mode=0o755)
            archive.symlink(_PROBE.encode(), b"init")
            archive.write_trailer()
            file.flush()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _forget_old(kept: Path) -> None:
    """Remove archives that none has used for a day: there is a new one for each build of the probe."""
    for other in kept.parent.glob("initramfs-*"):
        with contextlib.suppress(FileNotFoundError):
            if other != kept and time.time() - other.stat().st_mtime > _KEPT_S:
                other.unlink()
